/**
 * Carries out writes, one after the other (monotonic writes), and records what a later read must not miss (C11). A write
 * is never repeated by itself: whether a lost answer means a lost write, only the caller can judge.
 */
import { keep } from './copies.ts';
import { type JsonObject, toJson } from './ejson.ts';
import { idSegment } from './key.ts';
import { refused } from './problem.ts';
import { writeAcknowledged } from './session.ts';
import type { State } from './state.ts';
import { send } from './transport.ts';

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
  readonly items: Document[];
  readonly meta: {
    readonly position: bigint | null;
    readonly etag: string | null;
  };
}

/** One write to `path`, which is its collection's for an insert. */
export interface Write {
  readonly method: string;
  readonly path: string;
  readonly collection: string;
  readonly body: unknown;
  readonly type?: string | undefined;
  readonly options: WriteOptions | undefined;
}

/** Stands in for a position that an answer does not name: no answer can prove to be newer. */
const POSITION_MAX = 2n ** 64n - 1n;

async function perform(state: State, write: Write, body: string | null): Promise<Written> {
  const { method, path, collection, type = 'application/json', options = {} } = write;
  state.copies.delete(path); // Whatever becomes of the write.
  const headers: Record<string, string> = {};
  if (body) headers['content-type'] = type;
  if (options.ifMatch) headers['if-match'] = options.ifMatch;
  if (options.idempotencyKey) headers['idempotency-key'] = options.idempotencyKey;
  const { found, text, position, etag, sentAt } = await send(state, path, { method, headers, body });
  if (!found) throw refused(404, text);
  const answer = text ? JSON.parse(text) : null;
  const many = Array.isArray(write.body);
  const items: Document[] = many ? answer.items : answer ? [answer] : [];
  const paths =
    path === collection
      ? await Promise.all(items.map(async ({ _id }) => `${path}/${await idSegment(_id)}`))
      : [path];
  state.session = writeAcknowledged(state.session, [...paths, collection], position ?? POSITION_MAX);
  if (position !== null) {
    items.forEach((item, i) => {
      keep(state.copies, paths[i] as string, {
        text: JSON.stringify(item),
        position,
        etag: many ? null : etag, // The tag of several documents is no record's.
        until: sentAt + state.delta,
        own: true,
      });
    });
  }
  return { items, meta: { position, etag } };
}

/** Sends the write after those before it. Answers the acknowledged documents; none for a delete. */
export async function write(state: State, request: Write): Promise<Written> {
  const body = request.body === undefined ? null : JSON.stringify(toJson(request.body));
  const turn = state.lastWrite.then(() => perform(state, request, body));
  state.lastWrite = turn.catch(() => {});
  return turn;
}
