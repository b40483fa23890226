/**
 * Carries out reads: asks `decide`, looks into the record store, fetches, and never shows what is older than what was
 * shown. One read makes two requests at most.
 */
import { copyReason } from './copies.ts';
import { type Decision, decide, edgeBound, type Mode, type Reason, type Target } from './decide.ts';
import { refused } from './problem.ts';
import type { Refresh } from './refresh.ts';
import { answerShown, type Held, isOlder, keyRevalidated } from './session.ts';
import type { State } from './state.ts';
import { type Answer, readInit, send } from './transport.ts';

/** How an answer came about. */
export interface Meta {
  readonly key: string;
  readonly mode: Mode;
  readonly reason: Reason;
  /** Position at which it was read, at least; null where the answer names none. */
  readonly position: bigint | null;
  readonly etag: string | null;
  /** `network` also where it cannot be told. */
  readonly from: 'memory' | 'browser-cache' | 'network';
  /** Set where even the origin names an earlier position than was shown before. Never asked for again by itself. */
  readonly behind?: true;
}

/** A body, null for a record that does not exist, and what the record store needs to know. */
export interface Read {
  readonly text: string | null;
  readonly meta: Meta;
  /** The moment until which records embedded in it may be used; −Infinity where that cannot be told. */
  readonly until: number;
}

interface Flight {
  readonly answer: Promise<Answer>;
  readonly sentAt: number;
  readonly writes: number;
  readonly seen: bigint;
  /** The sketch that was held when the request was sent. */
  readonly held: Held | null;
}

export class Reader {
  readonly #state: State;
  readonly #refresh: Refresh;
  readonly #flights = new Map<string, Flight>();

  constructor(state: State, refresh: Refresh) {
    this.#state = state;
    this.#refresh = refresh;
  }

  async read(target: Target): Promise<Read> {
    this.#refresh.kick();
    const { session, policy, transport } = this.#state;
    const first = decide(session, target, policy, transport.clock());
    const copy = this.#fromCopies(target, first);
    if (copy !== null) return copy;
    const answer = await this.#fetch(target, first.mode);
    if (!this.#takesBack(target, answer, first.mode)) return this.#show(target, answer, first, false);
    // C12, once: a cache that answers the same again must not make a loop.
    const second: Decision = { mode: 'reload', reason: 'older-answer' };
    const again = await this.#fetch(target, 'reload');
    return this.#show(target, again, second, this.#takesBack(target, again, 'reload'));
  }

  #fromCopies(target: Target, decision: Decision): Read | null {
    const { session, policy, transport, copies } = this.#state;
    const copy = target.record ? copies.get(target.key) : undefined;
    if (copy === undefined) return null;
    const reason = copyReason(copy, session, target, policy, decision, transport.clock());
    if (reason === null) return null;
    const { position, etag, text, until } = copy;
    this.#state.session = answerShown(session, target.key, position, etag);
    return {
      text,
      until,
      meta: { key: target.key, mode: 'default', reason, position, etag, from: 'memory' },
    };
  }

  #takesBack(target: Target, { status, position, etag }: Answer, mode: Mode): boolean {
    // Errors and answers without a position are never cached: past the caches they are current.
    if (status === 404 || (mode === 'reload' && position === null)) return false;
    return isOlder(this.#state.session, target, position, etag);
  }

  #show(target: Target, answer: Answer, { mode, reason }: Decision, behind: boolean): Read {
    const { status, position, etag, lifetimeMs, sentAt, cached } = answer;
    const { key } = target;
    const found = status !== 404;
    // What does not exist was read after the sketch that is held was taken.
    const at = position ?? (found ? null : (this.#state.session.held?.sketch.watermark ?? null));
    this.#state.session = answerShown(this.#state.session, key, at, etag);
    if (!found) this.#state.copies.delete(key);
    if (!found && !target.record) throw refused(status, answer.text, null);
    // How long an answer has lain in the browser's cache cannot be told, so only what came over the network counts.
    const until = mode !== 'default' || cached === false ? sentAt + lifetimeMs : -Infinity;
    const from = cached === true ? 'browser-cache' : 'network';
    const meta: Meta = { key, mode, reason, position, etag, from, ...(behind ? { behind } : {}) };
    return { text: found ? answer.text : null, until, meta };
  }

  /** Fetches, or joins a request for the same that is no older than the read may be stale. */
  async #fetch(target: Target, mode: Mode): Promise<Answer> {
    const { session, transport, base } = this.#state;
    const name = `${mode} ${target.key}`;
    const known = this.#flights.get(name);
    if (known && !target.linearizable && this.#mayJoin(known, mode)) return known.answer;
    const { held, writes, seen } = session;
    const sentAt = transport.clock();
    const answer = send(transport, base + target.key, readInit(mode));
    const flight: Flight = { answer, sentAt, writes, seen, held };
    this.#flights.set(name, flight);
    try {
      const arrived = await answer;
      if (mode !== 'default' && arrived.status !== 404) {
        this.#state.session = keyRevalidated(this.#state.session, target.key, held);
      }
      return arrived;
    } finally {
      if (this.#flights.get(name) === flight) this.#flights.delete(name);
    }
  }

  #mayJoin(flight: Flight, mode: Mode): boolean {
    const { session, policy, transport } = this.#state;
    const bound = mode === 'reload' ? policy.stalenessMs : edgeBound(session.held, policy);
    return (
      transport.clock() - flight.sentAt < bound &&
      flight.writes === session.writes &&
      !(policy.causal && flight.seen !== session.seen)
    );
  }
}
