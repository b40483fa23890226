/**
 * Carries out writes, one after the other (monotonic writes), and records what a later read must not miss (C11). A write
 * is never repeated by itself: whether a lost answer means a lost write, only the caller can judge.
 */
import { idSegment, isOrderSafe } from './canonical/key.ts';
import { type Json, type JsonObject, toJson } from './ejson.ts';
import { refused } from './problem.ts';
import { writeAcknowledged } from './session.ts';
import type { State } from './state.ts';
import { type Answer, send } from './transport.ts';

/** A document as Extended JSON. */
export type Document = JsonObject;

export interface WriteOptions {
  /** The ETag that the record must still have; 412 otherwise. */
  readonly ifMatch?: string;
  /** A repeat with the same text within 24 hours has no second effect. */
  readonly idempotencyKey?: string;
}

/** What was acknowledged. */
export interface Written {
  readonly position: bigint | null;
  readonly etag: string | null;
  readonly location: string | null;
}

interface Write {
  readonly method: string;
  readonly path: string;
  readonly collection: string;
  readonly body?: unknown;
  readonly type?: string;
  readonly options?: WriteOptions | undefined;
}

/** Stands in for a position that an answer does not name: no answer can prove to be newer. */
const POSITION_MAX = 2n ** 64n - 1n;

export class Writer {
  readonly #state: State;
  #last: Promise<unknown> = Promise.resolve();

  constructor(state: State) {
    this.#state = state;
  }

  /** Sends the write after those before it. Answers the acknowledged documents; none for a delete. */
  async write(write: Write): Promise<{ documents: Document[]; meta: Written }> {
    const body = write.body === undefined ? null : JSON.stringify(toJson(write.body));
    const turn = this.#last.then(() => this.#send(write, body));
    this.#last = turn.catch(() => {});
    const answer = await turn;
    const { position, etag, location } = answer;
    return { documents: this.#acknowledge(write, answer), meta: { position, etag, location } };
  }

  async #send({ method, path, type, options = {} }: Write, body: string | null): Promise<Answer> {
    const { transport, base, copies } = this.#state;
    copies.delete(path); // Whatever becomes of the write.
    const headers: Record<string, string> = {};
    if (body !== null) headers['content-type'] = type ?? 'application/json';
    if (options.ifMatch !== undefined) headers['if-match'] = options.ifMatch;
    if (options.idempotencyKey !== undefined) headers['idempotency-key'] = options.idempotencyKey;
    const answer = await send(transport, base + path, { method, headers, body });
    if (answer.status === 404) throw refused(404, answer.text, null);
    return answer;
  }

  #acknowledge({ path, collection }: Write, answer: Answer): Document[] {
    const { copies, policy } = this.#state;
    const { position, etag, sentAt } = answer;
    const body: Json = answer.text === '' ? [] : JSON.parse(answer.text);
    const documents = (Array.isArray(body) ? body : ((body as JsonObject).items ?? [body])) as Document[];
    const paths = path === collection ? documents.map((d) => `${path}/${idSegment(d._id)}`) : [path];
    const scopes = [...paths, collection];
    this.#state.session = writeAcknowledged(this.#state.session, scopes, position ?? POSITION_MAX);
    documents.forEach((document, i) => {
      if (position === null || document._id === undefined || !isOrderSafe(document._id)) return;
      const text = JSON.stringify(document);
      // An etag of many documents is no record's.
      const own = { text, position, etag: path === collection && documents.length > 1 ? null : etag };
      copies.put(paths[i] as string, { ...own, until: sentAt + policy.stalenessMs, own: true });
    });
    return documents;
  }
}
