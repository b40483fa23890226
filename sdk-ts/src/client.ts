/**
 * What an application holds: a connection, which is one session, and its collections.
 */
import { awakeClock, type Clock } from './clock.ts';
import { keep } from './copies.ts';
import {
  type Address,
  countAddress,
  plainSegment,
  type Query,
  queryAddress,
  recordAddress,
  recordKey,
  segment,
} from './key.ts';
import { refused } from './problem.ts';
import { type Meta, type Read, read } from './read.ts';
import { refresh } from './refresh.ts';
import { START } from './session.ts';
import type { Fetch, State } from './state.ts';
import { type Document, type WriteOptions, type Written, write } from './write.ts';

/** How a session is opened. */
export interface Options {
  readonly database: string;
  /** Δ in seconds: how old an answer may be when its read starts. 60 when left out; 0 reads at the origin always. */
  readonly staleness?: number;
  /** Reads never miss what led to something the session has seen. */
  readonly causal?: boolean;
  /** Milliseconds that never go back. */
  readonly clock?: Clock;
  readonly fetch?: Fetch;
  /** 0 … 1; spreads attempts over time. */
  readonly random?: () => number;
}

export interface ReadOptions {
  /** The answer holds every write that was acknowledged before the call, whoever made it. */
  readonly linearizable?: boolean;
}

/** The representation of a record. */
export type RecordOptions = ReadOptions & Pick<Query, 'fields' | 'rep'>;

/** One record as it was read; null where there is none. */
export interface Item {
  readonly item: Document | null;
  readonly meta: Meta;
}

/** A page of a query's answer. `next` is there only when there is more. */
export interface Items {
  readonly items: Document[];
  readonly next?: string;
  readonly meta: Meta;
}

/** One collection in a session. */
export interface Collection {
  /** One record. */
  get(id: unknown, options?: RecordOptions): Promise<Item>;
  /** The answer of a query. With `view: 'ids'` the records come one by one, each from where it is cached. */
  find(query?: Query, options?: ReadOptions): Promise<Items>;
  /** How many records match. */
  count(filter?: object, options?: ReadOptions): Promise<{ count: number; meta: Meta }>;
  /** Inserts one record, or many: all or none. */
  insert(body: object | readonly object[], options?: WriteOptions): Promise<Written>;
  /** Creates or replaces. */
  put(id: unknown, body: object, options?: WriteOptions): Promise<Written>;
  /** Merges, after RFC 7396: null removes a field. */
  patch(id: unknown, body: object, options?: WriteOptions): Promise<Written>;
  /** Applies MongoDB's update operators: `{ $inc: { stock: -1 } }`. */
  update(id: unknown, body: object, options?: WriteOptions): Promise<Written>;
  /** Removes. */
  delete(id: unknown, options?: WriteOptions): Promise<Written>;
}

/** A session over one database. */
export interface Database {
  collection(name: string): Collection;
  /** Fetches the sketch now. Rejects with a FreshetError where that fails; reads go on either way. */
  refresh(): Promise<void>;
}

/** The collection at `path`. */
const open = (state: State, path: string): Collection => {
  const answer = (
    { key, keyed }: Address,
    scope: string,
    { linearizable }: ReadOptions = {},
  ): Promise<Read> => read(state, { key, keyed, scope, record: scope !== path, linearizable });

  const record = async ({ key, keyed }: Address, options: RecordOptions = {}): Promise<Item> => {
    const { found, text, meta } = await answer({ key: recordKey(key, options), keyed }, key, options);
    return { item: found ? JSON.parse(text) : null, meta };
  };

  const query = async (pending: Promise<Address>, options?: ReadOptions): Promise<Read> => {
    const shown = await answer(await pending, path, options);
    if (!shown.found) throw refused(404, shown.text);
    return shown;
  };

  const change =
    (method: string, type?: string) =>
    (id: unknown, body?: object, options?: WriteOptions): Promise<Written> =>
      write(state, method, path, id, body, options, type);

  return {
    get: async (id, options) => record(await recordAddress(path, id), options),
    async find(given = {}, options) {
      const { fields, rep, view = 'objects' } = given;
      const { text, meta, until } = await query(queryAddress(path, given), options);
      const page: { items: Document[]; next?: string } = JSON.parse(text);
      for (const item of page.items) {
        // C4: embedded records are copies, as old as the answer and usable as long. Of other ids JavaScript may have changed
        // the order of the fields.
        const id = plainSegment(item._id);
        if (!fields?.length && id) {
          keep(state.copies, recordKey(`${path}/${id}`, { rep }), item, meta.position, null, until, false);
        }
      }
      const resolved = page.items.map(async (item) =>
        // A document of `view=auto` may have a field of that name beside others.
        view !== 'objects' && typeof item._ref === 'string' && !Object.keys(item)[1]
          ? (await record({ key: item._ref, keyed: true }, { ...options, fields, rep })).item
          : item,
      );
      return {
        ...page,
        // A record that was deleted since the query was answered is left out.
        items: (await Promise.all(resolved)).filter((item) => item !== null),
        meta,
      };
    },
    async count(filter, options) {
      const { text, meta } = await query(countAddress(path, filter), options);
      return { ...JSON.parse(text), meta };
    },
    insert: (body, options) => change('POST')(undefined, body, options),
    put: change('PUT'),
    patch: change('PATCH', 'application/merge-patch+json'),
    update: change('PATCH', 'application/vnd.freshet.update+json'),
    delete: (id, options) => change('DELETE')(id, undefined, options),
  };
};

/** Opens a session over a database of the gateway at `url`. Asks nothing before the first read. */
export const connect = (
  url: string,
  { database, staleness = 60, causal = false, fetch, clock = awakeClock(), random = Math.random }: Options,
): Database => {
  if (!(staleness >= 0)) throw RangeError('staleness must be 0 or more');
  const path = `/v1/${segment(database)}`;
  const state: State = {
    delta: staleness * 1_000,
    causal,
    fetch,
    clock,
    random,
    base: url.replace(/\/+$/, ''),
    sketchPath: `${path}/_sketch`,
    session: START,
    copies: new Map(),
    flights: new Map(),
    refreshing: null,
    refreshAfter: -Infinity,
    refreshFailures: 0,
    lastWrite: Promise.resolve(),
  };
  return {
    collection: (name) => open(state, `${path}/${segment(name)}`),
    refresh: () => refresh(state),
  };
};
