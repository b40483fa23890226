/**
 * Keys: the canonical path and query string that name a resource, and the id segment (docs/canonical-form.md). The
 * SDK asks for a resource by its key, so one cache entry, one sketch entry and one surrogate key belong to it.
 */
import { type Json, type JsonObject, toJson } from '../ejson.ts';
import { filterValue } from './filter.ts';
import { Unkeyed } from './unkeyed.ts';
import { compareText, OBJECT, value } from './value.ts';

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
  readonly fields?: string | readonly string[];
  readonly view?: 'objects' | 'ids' | 'auto';
  readonly rep?: 'relaxed' | 'canonical';
  /** `next` of the answer before. */
  readonly after?: string;
}

/** A resource's address: `keyed` is false where only the gateway can tell its key. */
export interface Address {
  readonly key: string;
  readonly keyed: boolean;
}

const decode = (plain: RegExp, s: string): string =>
  encodeURIComponent(s).replace(plain, (kept) => decodeURIComponent(kept));

/** A path segment: RFC 3986 `pchar` stays. */
export function segment(s: string): string {
  return decode(/%(24|26|2B|2C|3B|3D|3A|40)/g, s);
}

/** A value in the query string. */
function parameter(s: string): string {
  return decode(/%(24|2C|3B|3D|3A|40|2F|3F)/g, s);
}

const TILDE = /^$|^\.\.?$|^[\da-f]{24}$|^[~_]|\//i;

/** The path segment of an id. */
export function idSegment(id: unknown): string {
  const j = toJson(id);
  const v = value(j);
  if (v.rank === 35) return v.order as string; // ObjectId
  const plain = typeof j === 'string' && !TILDE.test(j);
  return segment(plain ? j : `~${v.text.replaceAll('/', '\\u002f')}`);
}

/** Whether JavaScript may have changed the order of the id's fields: it moves integer-like names to the front. */
export function isOrderSafe(id: Json): boolean {
  return value(id).rank !== OBJECT;
}

const names = (list: string | readonly string[] | undefined): string[] =>
  (typeof list === 'string' ? list.split(',') : [...(list ?? [])]).filter((name) => name !== '');

const bare = (name: string): string => name.replace(/^-/, '');

function sortText(sort: Query['sort']): string {
  const fields = names(sort);
  const id = fields.findIndex((name) => bare(name) === '_id');
  if (id >= 0) fields.length = fields[id] === '_id' ? id : id + 1;
  return fields.join();
}

function fieldsText(fields: Query['fields']): string {
  const all = names(fields).sort((a, b) => compareText(bare(a), bare(b)));
  return (all.some((name) => name !== '_id') ? all.filter((name) => name !== '_id') : all).join();
}

function filterText(filter: object | undefined): [text: string, keyed: boolean] {
  const json = toJson(filter ?? {}) as JsonObject;
  try {
    return [filterValue(json).text, true];
  } catch (error) {
    if (error instanceof Unkeyed) return [JSON.stringify(json), false];
    throw error;
  }
}

function join(
  path: string,
  parameters: readonly (readonly [name: string, text: string, otherwise: string])[],
) {
  const given = parameters.filter(([, text, otherwise]) => text !== otherwise);
  return (
    path + (given.length ? '?' : '') + given.map(([name, text]) => `${name}=${parameter(text)}`).join('&')
  );
}

/** The address of a query over the collection at `path`. */
export function queryAddress(path: string, query: Query): Address {
  const [filter, keyed] = filterText(query.filter);
  const key = join(path, [
    ['after', query.after ?? '', ''],
    ['fields', fieldsText(query.fields), ''],
    ['filter', filter, '{}'],
    ['limit', String(query.limit ?? 100), '100'],
    ['rep', query.rep ?? 'relaxed', 'relaxed'],
    ['skip', String(query.skip ?? 0), '0'],
    ['sort', sortText(query.sort), ''],
    ['view', query.view ?? 'objects', 'objects'],
  ]);
  return { key, keyed };
}

/** The address of the number of records that match. */
export function countAddress(path: string, filter: object | undefined): Address {
  const [text, keyed] = filterText(filter);
  return { key: join(`${path}/_count`, [['filter', text, '{}']]), keyed };
}

/** The key of a record at `path`, in the representation asked for. */
export function recordKey(path: string, { fields, rep }: Pick<Query, 'fields' | 'rep'>): string {
  return join(path, [
    ['fields', fieldsText(fields), ''],
    ['rep', rep ?? 'relaxed', 'relaxed'],
  ]);
}
