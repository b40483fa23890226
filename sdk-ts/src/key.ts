/**
 * Keys: the canonical path and query string that name a resource, and the id segment (docs/canonical-form.md). The
 * SDK asks for a resource by its key, so one cache entry, one sketch entry and one surrogate key belong to it.
 */

import { filterText as canonicalFilter, idText as canonicalId } from './canonical/index.ts';
import { sortedSet } from './canonical/order.ts';
import { toJson, toText } from './ejson.ts';

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

/** A path segment: RFC 3986 `pchar` stays. */
export const segment = (text: string): string => text.replace(/[^\w\-.~!$&'()*+,;=:@]/gu, encodeURIComponent);

/** Strings that are not their own segment: empty, dots, with an encoded slash, or that would read as something else. */
const TILDE = /^(\.{0,2}|[\da-f]{24})$|^[~_]|\//i;

/** The path segment of an id. Throws a TypeError where that is none. */
export const idSegment = (id: unknown): string => {
  const json = toJson(id);
  if (typeof json === 'string' && !TILDE.test(json)) return segment(json);
  const text = canonicalId(json);
  if (text === null) throw TypeError('Not an id');
  const digits = /^{"\$oid":"(\w+)"}$/.exec(text)?.[1];
  return digits ?? segment(`~${text.replace(/\//g, '\\u002f')}`);
};

const names = (list: Query['sort'] = ''): string[] => `${list}`.match(/[^,]+/g) ?? [];

/** Up to the first `_id`: it is unique, and where it is the last it is left out. */
const sortText = (sort: Query['sort']): string =>
  names(sort)
    .join()
    .replace(/(^|,)_id(,.*)?$|(?<=(^|,)-_id),.*/s, '');

const fieldsText = (fields: Query['fields']): string => {
  const all = sortedSet(names(fields).map((name) => [name.replace(/^-/, ''), name])).map(([, name]) => name);
  const others = all.filter((name) => name !== '_id');
  return (others[0] ? others : all).join();
};

/** Parameters that say nothing: empty ones, and defaults. */
const LEFT_OUT = /^(\w+=|filter={}|limit=100|rep=relaxed|skip=0|view=objects)$/;

/** A key from its path and parameters, which come in the order of their names. */
const join = (path: string, parameters: { readonly [name: string]: string | number | undefined }): string => {
  const query = Object.entries(parameters)
    .map((pair) => pair.join('='))
    .filter((pair) => !LEFT_OUT.test(pair))
    .map((pair) => pair.replace(/[^\w\-.~!$'()*,;=:@/?]/gu, encodeURIComponent))
    .join('&');
  return query ? `${path}?${query}` : path;
};

/** The canonical text of a filter; the filter as it was written where that has none. */
const filterText = (filter: object = {}): [text: string, keyed: boolean] => {
  const given = toText(filter);
  const text = canonicalFilter(JSON.parse(given));
  return [text ?? given, text !== null];
};

/** The path of the record of that id in the collection at `path`. */
export const recordPath = (path: string, id: unknown): string => `${path}/${idSegment(id)}`;

/** The address of a query over the collection at `path`. */
export const queryAddress = (path: string, query: Query): Address => {
  const { after, fields, limit, rep, skip, sort, view } = query;
  const [filter, keyed] = filterText(query.filter);
  const key = join(path, {
    after,
    fields: fieldsText(fields),
    filter,
    limit,
    rep,
    skip: after ? 0 : skip, // The cursor says where to begin.
    sort: sortText(sort),
    view,
  });
  return { key, keyed };
};

/** The address of the number of records that match. */
export const countAddress = (path: string, given?: object): Address => {
  const [filter, keyed] = filterText(given);
  return { key: join(`${path}/_count`, { filter }), keyed };
};

/** The key of the record at `path`, in the representation asked for. */
export const recordKey = (path: string, { fields, rep }: Pick<Query, 'fields' | 'rep'>): string =>
  join(path, { fields: fieldsText(fields), rep });
