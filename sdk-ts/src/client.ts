/**
 * What an application holds: a connection, which is one session, and its collections.
 */
import {
  countAddress,
  idSegment,
  isOrderSafe,
  type Query,
  queryAddress,
  recordKey,
  segment,
} from './canonical/key.ts';
import { awakeClock, type Clock } from './clock.ts';
import { Copies } from './copies.ts';
import type { Target } from './decide.ts';
import { type Meta, type Read, Reader } from './read.ts';
import { Refresh } from './refresh.ts';
import { START } from './session.ts';
import type { State } from './state.ts';
import type { Fetch } from './transport.ts';
import { type Document, type WriteOptions, Writer, type Written } from './write.ts';

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

/** A session over one database. */
export class Database {
  readonly #state: State;
  readonly #refresh: Refresh;
  readonly #reader: Reader;
  readonly #writer: Writer;
  readonly #path: string;

  /** Use {@link connect}. */
  constructor(state: State, path: string) {
    this.#state = state;
    this.#path = path;
    this.#refresh = new Refresh(state, `${state.base}${path}/_sketch`);
    this.#reader = new Reader(state, this.#refresh);
    this.#writer = new Writer(state);
  }

  collection(name: string): Collection {
    return new Collection(this.#state, this.#reader, this.#writer, `${this.#path}/${segment(name)}`);
  }

  /** Fetches the sketch now. Rejects with a FreshetError where that fails; reads go on either way. */
  refresh(): Promise<void> {
    return this.#refresh.now();
  }
}

/** One collection in a session. */
export class Collection {
  readonly #state: State;
  readonly #reader: Reader;
  readonly #writer: Writer;
  readonly #path: string;

  /** Use {@link Database.collection}. */
  constructor(state: State, reader: Reader, writer: Writer, path: string) {
    this.#state = state;
    this.#reader = reader;
    this.#writer = writer;
    this.#path = path;
  }

  /** One record; null where there is none. */
  async get(id: unknown, options: RecordOptions = {}): Promise<{ item: Document | null; meta: Meta }> {
    return this.#record(this.#recordPath(id), options);
  }

  /** The answer of a query. With `view: 'ids'` the records come one by one, each from where it is cached. */
  async find(
    query: Query = {},
    options: ReadOptions = {},
  ): Promise<{ items: Document[]; next?: string; meta: Meta }> {
    const read = await this.#reader.read(this.#target(queryAddress(this.#path, query), options));
    const answer = JSON.parse(read.text as string) as { items: Document[]; next?: string };
    if (!query.fields?.length) this.#keep(answer.items, read, query);
    const items =
      (query.view ?? 'objects') === 'objects'
        ? answer.items
        : await this.#resolve(answer.items, query, options);
    return { ...answer, items, meta: read.meta };
  }

  async count(filter?: object, options: ReadOptions = {}): Promise<{ count: number; meta: Meta }> {
    const read = await this.#reader.read(this.#target(countAddress(this.#path, filter), options));
    return { ...(JSON.parse(read.text as string) as { count: number }), meta: read.meta };
  }

  /** Inserts one record, or many: all or none. */
  insert(document: object, options?: WriteOptions): Promise<{ items: Document[]; meta: Written }>;
  insert(documents: readonly object[], options?: WriteOptions): Promise<{ items: Document[]; meta: Written }>;
  async insert(body: object, options?: WriteOptions): Promise<{ items: Document[]; meta: Written }> {
    const path = this.#path;
    const write = { method: 'POST', path, collection: path, body, options };
    const { documents, meta } = await this.#writer.write(write);
    return { items: documents, meta };
  }

  /** Creates or replaces. */
  put(
    id: unknown,
    document: object,
    options?: WriteOptions,
  ): Promise<{ item: Document | null; meta: Written }> {
    return this.#change('PUT', id, options, document);
  }

  /** Merges, after RFC 7396: null removes a field. */
  patch(
    id: unknown,
    patch: object,
    options?: WriteOptions,
  ): Promise<{ item: Document | null; meta: Written }> {
    return this.#change('PATCH', id, options, patch, 'application/merge-patch+json');
  }

  /** Applies MongoDB's update operators: `{ $inc: { stock: -1 } }`. */
  update(
    id: unknown,
    update: object,
    options?: WriteOptions,
  ): Promise<{ item: Document | null; meta: Written }> {
    return this.#change('PATCH', id, options, update, 'application/vnd.freshet.update+json');
  }

  async delete(id: unknown, options?: WriteOptions): Promise<{ meta: Written }> {
    const { meta } = await this.#change('DELETE', id, options);
    return { meta };
  }

  async #change(
    method: string,
    id: unknown,
    options: WriteOptions | undefined,
    body?: object,
    type?: string,
  ): Promise<{ item: Document | null; meta: Written }> {
    const write = { method, path: this.#recordPath(id), collection: this.#path, body, options };
    const { documents, meta } = await this.#writer.write(type === undefined ? write : { ...write, type });
    return { item: documents[0] ?? null, meta };
  }

  #recordPath(id: unknown): string {
    return `${this.#path}/${idSegment(id)}`;
  }

  #target({ key, keyed }: { key: string; keyed: boolean }, { linearizable = false }: ReadOptions): Target {
    return { key, keyed, scope: this.#path, record: false, linearizable };
  }

  async #record(path: string, options: RecordOptions): Promise<{ item: Document | null; meta: Meta }> {
    const key = recordKey(path, options);
    const target = {
      key,
      keyed: true,
      scope: path,
      record: true,
      linearizable: options.linearizable ?? false,
    };
    const { text, meta } = await this.#reader.read(target);
    return { item: text === null ? null : JSON.parse(text), meta };
  }

  /** C4: embedded records are copies, as old as the answer and usable as long. */
  #keep(items: readonly Document[], { meta: { position, from }, until }: Read, { rep }: Query): void {
    if (position === null || from === 'memory' || until === -Infinity) return;
    for (const item of items) {
      if (item._id === undefined || !isOrderSafe(item._id)) continue;
      const key = recordKey(`${this.#path}/${idSegment(item._id)}`, rep === undefined ? {} : { rep });
      this.#state.copies.put(key, { text: JSON.stringify(item), position, etag: null, until, own: false });
    }
  }

  async #resolve(
    items: readonly Document[],
    { fields, rep }: Query,
    options: ReadOptions,
  ): Promise<Document[]> {
    const form = {
      ...options,
      ...(fields === undefined ? {} : { fields }),
      ...(rep === undefined ? {} : { rep }),
    };
    const resolved = items.map(async (item) => {
      const reference = item._ref;
      // A document of `view=auto` may have a field of that name beside others.
      if (typeof reference !== 'string' || Object.keys(item).length > 1) return item;
      return (await this.#record(reference, form)).item;
    });
    // A record that was deleted since the query was answered is left out.
    return (await Promise.all(resolved)).filter((item) => item !== null);
  }
}

/** Opens a session over a database of the gateway at `url`. Asks nothing before the first read. */
export function connect(url: string, options: Options): Database {
  const { database, staleness = 60, causal = false, random = Math.random } = options;
  if (!(staleness >= 0)) throw new RangeError('staleness is a number of seconds, 0 or more');
  const state: State = {
    session: START,
    policy: { stalenessMs: staleness * 1_000, causal },
    transport: {
      fetch: options.fetch ?? ((input, init) => fetch(input, init)),
      clock: options.clock ?? awakeClock(),
    },
    copies: new Copies(),
    random,
    base: url.replace(/\/+$/, ''),
  };
  return new Database(state, `/v1/${segment(database)}`);
}
