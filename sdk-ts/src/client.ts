/**
 * What an application holds: a connection, which is one session, and its collections.
 */
import { awakeClock, type Clock } from './clock.ts';
import { keep } from './copies.ts';
import {
  type Address,
  countAddress,
  idSegment,
  type Query,
  queryAddress,
  recordKey,
  segment,
} from './key.ts';
import { refused } from './problem.ts';
import { type Meta, type Read, read } from './read.ts';
import { refresh } from './refresh.ts';
import { START } from './session.ts';
import type { Fetch, State } from './state.ts';
import { type Document, type Write, type WriteOptions, type Written, write } from './write.ts';

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
export class Collection {
  readonly #state: State;
  readonly #path: string;

  /** Use {@link Database.collection}. */
  constructor(state: State, path: string) {
    this.#state = state;
    this.#path = path;
  }

  /** One record. */
  async get(id: unknown, options?: RecordOptions): Promise<Item> {
    return this.#record(this.#pathOf(id), options);
  }

  /** The answer of a query. With `view: 'ids'` the records come one by one, each from where it is cached. */
  async find(query: Query = {}, options: ReadOptions = {}): Promise<Items> {
    const answer = await this.#query(queryAddress(this.#path, query), options);
    const { items, next } = JSON.parse(answer.text) as Omit<Items, 'meta'>;
    if (!query.fields?.length) this.#keep(items, answer, query);
    const shown =
      query.view === undefined || query.view === 'objects'
        ? items
        : await this.#resolve(items, query, options);
    return { items: shown, ...(next && { next }), meta: answer.meta };
  }

  async count(filter?: object, options: ReadOptions = {}): Promise<{ count: number; meta: Meta }> {
    const { text, meta } = await this.#query(countAddress(this.#path, filter), options);
    return { count: JSON.parse(text).count, meta };
  }

  /** Inserts one record, or many: all or none. */
  insert(body: object | readonly object[], options?: WriteOptions): Promise<Written> {
    return this.#write({ method: 'POST', path: this.#path, body, options });
  }

  /** Creates or replaces. */
  async put(id: unknown, body: object, options?: WriteOptions): Promise<Written> {
    return this.#write({ method: 'PUT', path: this.#pathOf(id), body, options });
  }

  /** Merges, after RFC 7396: null removes a field. */
  async patch(id: unknown, body: object, options?: WriteOptions): Promise<Written> {
    const type = 'application/merge-patch+json';
    return this.#write({ method: 'PATCH', path: this.#pathOf(id), body, options, type });
  }

  /** Applies MongoDB's update operators: `{ $inc: { stock: -1 } }`. */
  async update(id: unknown, body: object, options?: WriteOptions): Promise<Written> {
    const type = 'application/vnd.freshet.update+json';
    return this.#write({ method: 'PATCH', path: this.#pathOf(id), body, options, type });
  }

  async delete(id: unknown, options?: WriteOptions): Promise<Written> {
    return this.#write({ method: 'DELETE', path: this.#pathOf(id), options });
  }

  #write(request: Omit<Write, 'collection'>): Promise<Written> {
    return write(this.#state, { ...request, collection: this.#path });
  }

  #pathOf(id: unknown): string {
    return `${this.#path}/${idSegment(id)}`;
  }

  async #query(address: Address, { linearizable = false }: ReadOptions): Promise<Read> {
    const answer = await read(this.#state, { ...address, scope: this.#path, record: false, linearizable });
    if (!answer.found) throw refused(404, answer.text);
    return answer;
  }

  async #record(scope: string, { linearizable = false, ...form }: RecordOptions = {}): Promise<Item> {
    const target = { key: recordKey(scope, form), keyed: true, scope, record: true, linearizable };
    const { found, text, meta } = await read(this.#state, target);
    return { item: found ? JSON.parse(text) : null, meta };
  }

  /** C4: embedded records are copies, as old as the answer and usable as long. */
  #keep(items: readonly Document[], { meta: { position }, until }: Read, { rep }: Query): void {
    if (position === null) return;
    for (const item of items) {
      // Of other ids JavaScript may have changed the order of the fields.
      if (!/^["\d-]|^{"\$oid":"\w+"}$/.test(JSON.stringify(item._id))) continue;
      const copy = { text: JSON.stringify(item), position, etag: null, until, own: false };
      keep(this.#state.copies, recordKey(this.#pathOf(item._id), { rep }), copy);
    }
  }

  async #resolve(
    items: readonly Document[],
    { fields, rep }: Query,
    options: ReadOptions,
  ): Promise<Document[]> {
    const resolved = items.map(async (item) =>
      // A document of `view=auto` may have a field of that name beside others.
      typeof item._ref === 'string' && Object.keys(item).length === 1
        ? (await this.#record(item._ref, { ...options, fields, rep })).item
        : item,
    );
    // A record that was deleted since the query was answered is left out.
    return (await Promise.all(resolved)).filter((item) => item !== null);
  }
}

/** A session over one database. */
export class Database {
  readonly #state: State;
  readonly #path: string;

  /** Use {@link connect}. */
  constructor(state: State, path: string) {
    this.#state = state;
    this.#path = path;
  }

  collection(name: string): Collection {
    return new Collection(this.#state, `${this.#path}/${segment(name)}`);
  }

  /** Fetches the sketch now. Rejects with a FreshetError where that fails; reads go on either way. */
  refresh(): Promise<void> {
    return refresh(this.#state);
  }
}

/** Opens a session over a database of the gateway at `url`. Asks nothing before the first read. */
export function connect(url: string, options: Options): Database {
  const { database, staleness = 60, causal = false } = options;
  if (!(staleness >= 0)) throw new RangeError('staleness is a number of seconds, 0 or more');
  const base = url.replace(/\/+$/, '');
  const path = `/v1/${segment(database)}`;
  const state: State = {
    delta: staleness * 1_000,
    causal,
    fetch: options.fetch ?? ((input, init) => fetch(input, init)),
    clock: options.clock ?? awakeClock(),
    random: options.random ?? Math.random,
    base,
    sketchUrl: `${base}${path}/_sketch`,
    session: START,
    copies: new Map(),
    flights: new Map(),
    refreshing: null,
    refreshAfter: -Infinity,
    refreshFailures: 0,
    lastWrite: Promise.resolve(),
  };
  return new Database(state, path);
}
