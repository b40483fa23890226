/**
 * Keys: the canonical path and query string that name a resource, and the id segment (docs/canonical-form.md). The
 * SDK asks for a resource by its key, so one cache entry, one sketch entry and one surrogate key belong to it.
 */
import { compareText } from './canonical/text.ts';
import { type Json, type JsonObject, toJson } from './ejson.ts';

/** What a query asks for. */
export interface Query {
  /** MongoDB query document; Extended JSON, Date, RegExp and bigint are understood. */
  readonly filter?: object;
  /** `price,-created.at`, or the fields as a list. */
  readonly sort?: string | readonly string[];
  /** 0 … 10,000. */
  readonly skip?: number;
  /** 1 … 1,000; 100 when left out. */
  readonly limit?: number;
  /** `name,address.city` or `-secret`, or a list. */
  readonly fields?: string | readonly string[] | undefined;
  readonly view?: 'objects' | 'ids' | 'auto';
  readonly rep?: 'relaxed' | 'canonical' | undefined;
  /** `next` of the answer before. */
  readonly after?: string;
}

/** A resource's address: not `keyed` where only the gateway can tell its key. */
export interface Address {
  readonly key: string;
  readonly keyed: boolean;
}

const encode = (text: string, plain: RegExp): string =>
  encodeURIComponent(text).replace(plain, (kept) => decodeURIComponent(kept));

/** A path segment: RFC 3986 `pchar` stays. */
export function segment(text: string): string {
  return encode(text, /%(2[46BC]|3[ABD]|40)/g);
}

/** The segment of an id that is an ObjectId, a string or a safe integer. */
export function plainIdSegment(id: Json | undefined): string | undefined {
  if (typeof id === 'string') {
    const tilde = /^$|^\.\.?$|^[\da-f]{24}$|^[~_]|\//i.test(id);
    return segment(tilde ? tildeForm(JSON.stringify(id)) : id);
  }
  if (Number.isSafeInteger(id)) return `~${id}`;
  const { $oid, ...others } = Object(id);
  return /^[\da-f]{24}$/i.test($oid) && !Object.keys(others).length ? $oid.toLowerCase() : undefined;
}

/** An encoded slash is not allowed in a segment. */
const tildeForm = (text: string): string => `~${text.replaceAll('/', '\\u002f')}`;

/** The path segment of an id. Rejects with a TypeError where that is none. */
export async function idSegment(id: unknown): Promise<string> {
  const json = toJson(id);
  const plain = plainIdSegment(json);
  if (plain !== undefined) return plain;
  const text = (await import('./canonical/index.ts')).idText(json);
  if (text === null) throw new TypeError('Not an id');
  return segment(tildeForm(text));
}

const names = (list: string | readonly string[] = ''): string[] => String(list).split(',').filter(Boolean);

const bare = (name: string): string => name.replace(/^-/, '');

function sortText(sort: Query['sort']): string {
  const fields = names(sort);
  const id = fields.findIndex((name) => bare(name) === '_id');
  if (id >= 0) fields.length = fields[id] === '_id' ? id : id + 1;
  return fields.join();
}

function fieldsText(fields: Query['fields']): string {
  const all = names(fields).sort((a, b) => compareText(bare(a), bare(b)));
  const others = all.filter((name) => name !== '_id');
  return (others.length ? others : all).join();
}

/** Names, texts and defaults, in the order of the names; those that have their default are left out. */
function join(
  path: string,
  parameters: readonly (readonly [name: string, text: string, otherwise: string])[],
): string {
  const given = parameters.filter(([, text, otherwise]) => text !== otherwise);
  const pairs = given.map(([name, text]) => `${name}=${encode(text, /%(2[4CF]|3[ABDF]|40)/g)}`);
  return pairs.length ? `${path}?${pairs.join('&')}` : path;
}

async function filterText(filter: object = {}): Promise<[text: string, keyed: boolean]> {
  const json = toJson(filter) as JsonObject;
  const given = JSON.stringify(json);
  if (given === '{}') return [given, true];
  const text = (await import('./canonical/index.ts')).filterText(json);
  return [text ?? given, text !== null];
}

/** The address of a query over the collection at `path`. */
export async function queryAddress(path: string, query: Query): Promise<Address> {
  const { after = '', fields, limit = 100, rep = 'relaxed', skip = 0, sort, view = 'objects' } = query;
  const [filter, keyed] = await filterText(query.filter);
  const key = join(path, [
    ['after', after, ''],
    ['fields', fieldsText(fields), ''],
    ['filter', filter, '{}'],
    ['limit', `${limit}`, '100'],
    ['rep', rep, 'relaxed'],
    ['skip', after ? '0' : `${skip}`, '0'], // The cursor says where to begin.
    ['sort', sortText(sort), ''],
    ['view', view, 'objects'],
  ]);
  return { key, keyed };
}

/** The address of the number of records that match. */
export async function countAddress(path: string, filter?: object): Promise<Address> {
  const [text, keyed] = await filterText(filter);
  return { key: join(`${path}/_count`, [['filter', text, '{}']]), keyed };
}

/** The key of the record at `path`, in the representation asked for. */
export function recordKey(path: string, { fields, rep = 'relaxed' }: Pick<Query, 'fields' | 'rep'>): string {
  return join(path, [
    ['fields', fieldsText(fields), ''],
    ['rep', rep, 'relaxed'],
  ]);
}
