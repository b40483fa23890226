/**
 * Carries out reads: asks `decide`, looks into the record store, fetches, and never shows what is older than what was
 * shown. One read makes two requests at most.
 */
import { copyReason } from './copies.ts';
import { decide, edgeBound, type Mode, type Reason, type Target } from './decide.ts';
import { refreshIfDue } from './refresh.ts';
import { answerShown, isOlder, keyRevalidated, later, type Session } from './session.ts';
import type { State } from './state.ts';
import { type Answer, send } from './transport.ts';

/** How an answer came about. */
export interface Meta {
  readonly key: string;
  readonly mode: Mode;
  readonly reason: Reason;
  /** Position at which it was read, at least; null where the answer names none. */
  readonly position: bigint | null;
  readonly etag: string | null;
  /** `network` also where it cannot be told. */
  readonly from: Answer['from'];
  /** Set where even the origin names an earlier position than was shown before. Never asked for again by itself. */
  readonly behind?: true;
}

/** What was read. */
export interface Read extends Pick<Answer, 'found' | 'text' | 'until'> {
  readonly meta: Meta;
}

/** A request that is on its way. */
export interface Flight {
  readonly answer: Promise<Answer>;
  readonly sentAt: number;
  /** What the session knew when it was sent. */
  readonly session: Session;
}

/** The answer of a request, of one that is on its way if that will do for a read that begins now. */
const fetchOrJoin = async (
  state: State,
  { key, linearizable }: Target,
  mode: Mode,
): Promise<Omit<Answer, 'sentAt'>> => {
  const { flights, session, delta, causal } = state;
  const sentAt = state.clock();
  const name = mode + key;
  const known = flights.get(name);
  if (
    known &&
    !linearizable &&
    sentAt - known.sentAt < (mode === 'reload' ? delta : edgeBound(session.held, delta)) &&
    known.session.writes === session.writes &&
    !(causal && known.session.seen < session.seen)
  ) {
    return known.answer;
  }
  const flight = { answer: send(state, key, { cache: mode }), sentAt, session };
  flights.set(name, flight);
  try {
    const answer = await flight.answer;
    if (answer.found && mode !== 'default') state.session = keyRevalidated(state.session, key, session.held);
    return answer;
  } finally {
    if (flights.get(name) === flight) flights.delete(name);
  }
};

/** Makes one read. A record or query that does not exist is not `found`. */
export const read = async (state: State, target: Target): Promise<Read> => {
  const { key } = target;
  refreshIfDue(state);
  const now = state.clock();
  let decision = decide(state.session, target, state, now);
  const copy = target.record && state.copies.get(key);
  const reason = copy && copyReason(copy, state.session, target, state, decision.reason, now);
  if (reason) decision = { mode: 'default', reason };
  let answer = reason ? copy : await fetchOrJoin(state, target, decision.mode);
  const takesBack = (): boolean =>
    // Errors, and answers without a position, are not cached: past the caches they are current.
    answer.found &&
    (decision.mode !== 'reload' || answer.position !== null) &&
    isOlder(state.session, target, answer.position, answer.etag ?? answer.text, decision.mode !== 'reload');
  let behind = takesBack();
  if (behind) {
    // C12, once: a cache that answers the same again must not make a loop.
    decision = { mode: 'reload', reason: 'older-answer' };
    answer = await fetchOrJoin(state, target, 'reload');
    behind = takesBack();
  }
  const { found, text, position, etag, from } = answer;
  // Errors are not cached: what does not exist was looked for after the sketch that is held was taken.
  const at = found ? position : later(position ?? -1n, state.session.held?.sketch.watermark ?? -1n);
  state.session = answerShown(state.session, key, at, etag ?? text);
  if (!found) state.copies.delete(key);
  return { ...answer, meta: { key, ...decision, position, etag, from, ...(behind && { behind }) } };
};
