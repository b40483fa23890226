/**
 * Carries out writes, one after the other (monotonic writes), and records what a later read must not miss (C11). A write
 * is never repeated by itself: whether a lost answer means a lost write, only the caller can judge.
 */
import { keep } from './copies.ts';
import { type JsonObject, toText } from './ejson.ts';
import { recordAddress } from './key.ts';
import { refused, unanswered } from './problem.ts';
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

/** Stands in for a position that an answer does not name: no answer can prove to be newer. */
const POSITION_MAX = 2n ** 64n - 1n;

/** The paths of records that are written. Without its canonical form no read could be held to the write. */
const pathsOf = async (collection: string, ids: readonly unknown[]): Promise<string[]> => {
  const all = await Promise.all(ids.map((id) => recordAddress(collection, id)));
  return all.map(({ key, keyed }) => {
    if (!keyed) throw unanswered('no canonical form');
    return key;
  });
};

/**
 * Sends a write of the record of that id, or an insert into the collection at that path, after the writes before it. Answers the
 * acknowledged documents; none for a delete.
 */
export const write = async (
  state: State,
  method: string,
  collection: string,
  id: unknown,
  given?: object,
  { ifMatch, idempotencyKey }: WriteOptions = {},
  type = 'application/json',
): Promise<Written> => {
  const body = given && toText(given);
  const headers = Object.entries({
    'content-type': body && type,
    'if-match': ifMatch,
    'idempotency-key': idempotencyKey,
  }).filter(([, value]) => value) as [string, string][];
  const turn = state.lastWrite.then(async () => {
    const insert = method === 'POST';
    // Of an insert, too: none may be found wanting when it was acknowledged. Ids that are not given are ObjectIds.
    let paths = await pathsOf(
      collection,
      insert ? ([given].flat() as Document[]).map(({ _id = '' }) => _id) : [id],
    );
    const path = insert ? collection : (paths[0] as string);
    state.copies.delete(path); // Whatever becomes of the write.
    const { found, text, position, etag, sentAt } = await send(state, path, {
      method,
      headers,
      body: body ?? null,
    });
    if (!found) throw refused(404, text);
    const many = Array.isArray(given);
    const answers = text ? [JSON.parse(text)] : [];
    const items: Document[] = many ? answers[0].items : answers;
    if (insert)
      paths = await pathsOf(
        collection,
        items.map(({ _id }) => _id),
      );
    state.session = writeAcknowledged(state.session, [...paths, collection], position ?? POSITION_MAX);
    items.forEach((item, i) => {
      // The tag of several documents is no record's.
      keep(state.copies, paths[i] as string, item, position, many ? null : etag, sentAt + state.delta, true);
    });
    return { items, meta: { position, etag } };
  });
  state.lastWrite = turn.catch(() => {});
  return turn;
};
