/**
 * Keys: the canonical path and query string that name a resource, and the id segment (docs/canonical-form.md). The
 * SDK asks for a resource by its key, so one cache entry, one sketch entry and one surrogate key belong to it.
 */

import { utf8 } from './bytes.ts';
import { type Json, toText } from './ejson.ts';

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

let form: Promise<typeof import('./canonical/index.ts') | undefined> | undefined;

/**
 * The canonical form, a module of its own that is loaded when it is first needed. Where that fails there is none from then on:
 * what the origin said under one spelling must not be taken back by a cache under another.
 */
const canonical = (): NonNullable<typeof form> =>
  (form ??= import('./canonical/index.ts').catch(() => undefined));

/** An encoded slash is not allowed in a segment. */
const tildeForm = (text: string): string => segment(`~${text.replace(/\//g, '\\u002f')}`);

/** Strings that are not their own segment: empty, dots, with an encoded slash, or that would read as something else. */
const TILDE = /^(\.{0,2}|[\da-f]{24})$|^[~_]|\//i;

/** The segment of an id that is an ObjectId, a string or an integer of few digits: without the canonical form. */
export const plainSegment = (id: Json | undefined): string | undefined => {
  if (typeof id === 'string' && !TILDE.test(id)) return segment(id);
  const text = JSON.stringify(id);
  return /^("|-?\d{1,15}$)/.test(text)
    ? tildeForm(text)
    : /^{"\$oid":"([\da-f]{24})"}$/i.exec(text)?.[1]?.toLowerCase();
};

/** The path of the record of that id in the collection at `path`. Rejects with a TypeError where that is none. */
export const recordAddress = async (path: string, id: unknown): Promise<Address> => {
  const given = toText(id);
  const json: Json = JSON.parse(given);
  const plain = plainSegment(json);
  const text = plain ?? (await canonical())?.idText(json);
  if (text === null) throw TypeError('Not an id');
  return { key: `${path}/${plain ?? tildeForm(text ?? given)}`, keyed: !!text };
};

const names = (list: Query['sort'] = ''): string[] => `${list}`.match(/[^,]+/g) ?? [];

/** Up to the first `_id`: it is unique, and where it is the last it is left out. */
const sortText = (sort: Query['sort']): string =>
  names(sort)
    .join()
    .replace(/(^|,)_id(,.*)?$|(?<=(^|,)-_id),.*/s, '');

const fieldsText = (fields: Query['fields']): string => {
  // Of the path, without the sign: one character for each byte, in whose order they are.
  const bytes = (name: string): string => String.fromCharCode(...utf8(name.replace(/^-/, '')));
  const all = names(fields).sort((a, b) => (bytes(a) < bytes(b) ? -1 : 1));
  const others = all.filter((name) => name !== '_id');
  // A path that is named twice is for the gateway to refuse.
  return (others[0] && new Set(all.map(bytes)).size === all.length ? others : all).join();
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
const filterText = async (filter: object = {}): Promise<[text: string, keyed: boolean]> => {
  const given = toText(filter);
  const text = given === '{}' ? given : (await canonical())?.filterText(JSON.parse(given));
  return [text ?? given, !!text];
};

/** The address of a query over the collection at `path`. */
export const queryAddress = async (path: string, query: Query): Promise<Address> => {
  const { after, fields, limit, rep, skip, sort, view } = query;
  const [filter, keyed] = await filterText(query.filter);
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
export const countAddress = async (path: string, given?: object): Promise<Address> => {
  const [filter, keyed] = await filterText(given);
  return { key: join(`${path}/_count`, { filter }), keyed };
};

/** The key of the record at `path`, in the representation asked for. */
export const recordKey = (path: string, { fields, rep }: Pick<Query, 'fields' | 'rep'>): string =>
  join(path, { fields: fieldsText(fields), rep });
