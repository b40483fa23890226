/**
 * Values with their canonical text and their place in MongoDB's comparison order ("Canonical text of a value" and
 * "BSON order" of docs/canonical-form.md). A document's fields keep their order.
 */
import type { Json, JsonObject } from '../ejson.ts';
import { need } from './need.ts';
import { decimal, long, number } from './number.ts';
import type { Order } from './order.ts';

/** A value's order, which begins with its type's rank, and canonical text. Values of equal order are ordered by their text. */
export type Value = readonly [order: readonly Order[], text: string];

/** Ranks of types, as MongoDB's `canonicalizeBSONType` orders them. */
export const OBJECT = 20;
export const BINARY = 30;
export const REGEX = 50;

/** A value whose text is plain JSON. */
export function leaf(order: readonly Order[], json: unknown): Value {
  return [order, JSON.stringify(json)];
}

export function string(s: string): Value {
  return leaf([15, s], s);
}

/** A document of these fields, in this order. */
export function object(fields: readonly (readonly [name: string, value: Value])[]): Value {
  return [
    [OBJECT, ...fields.flatMap(([name, [order]]) => [order[0] as number, name, order])],
    `{${fields.map(([name, [, text]]) => `${JSON.stringify(name)}:${text}`)}}`,
  ];
}

/** An array of these members, in this order. */
export function array(members: readonly Value[]): Value {
  return [[25, ...members.map(([order]) => order)], `[${members.map(([, text]) => text)}]`];
}

export function regex(pattern: string, options: string): Value {
  const sorted = [...options].sort().join('');
  return leaf([REGEX, pattern, sorted], { $regularExpression: { pattern, options: sorted } });
}

/** What a wrapper holds; the readers below check it. */
type Inner = string & JsonObject;

function integer(digits: unknown): bigint {
  need(/^-?\d+$/.test(digits as string));
  return BigInt(digits as string);
}

function binary(bytes: string, subType: string): Value {
  return leaf([BINARY, bytes.length, subType, bytes], { $binary: { base64: btoa(bytes), subType } });
}

function date(j: Inner): Value {
  const isoMs = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,3})?(Z|[+-]\d\d:\d\d)$/.test(j) && Date.parse(j);
  // BigInt refuses the NaN of an impossible date.
  const ms = isoMs === false ? integer(j.$numberLong) : BigInt(isoMs);
  return leaf([45, ms], { $date: { $numberLong: `${ms}` } });
}

const readLong = (j: Inner): Value => long(integer(j));

/** Extended JSON's wrappers: one field, whose name says the type. */
const WRAPPERS: { readonly [name: string]: (inner: Inner) => Value } = {
  $numberInt: readLong,
  $numberLong: readLong,
  $numberDouble(j) {
    need(/^-?(\d+(\.\d*)?(E[+-]?\d+)?|Infinity)$|^NaN$/i.test(j));
    return number(+j);
  },
  $numberDecimal: decimal,
  $oid(j) {
    need(/^[\da-f]{24}$/i.test(j));
    const $oid = j.toLowerCase();
    return leaf([35, $oid], { $oid });
  },
  $date: date,
  $binary({ base64, subType }) {
    need(/^[\da-f]{1,2}$/i.test(subType as string));
    return binary(atob(base64 as string), (subType as string).toLowerCase().padStart(2, '0'));
  },
  $uuid(j) {
    need(/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i.test(j));
    return binary(
      j.replace(/-?(..)/g, (_, hex) => String.fromCharCode(+`0x${hex}`)),
      '04',
    );
  },
  $regularExpression: ({ pattern, options }) => regex(pattern as string, options as string),
  $timestamp({ t, i }) {
    for (const n of [t, i] as number[]) need(n === n >>> 0);
    return leaf([47, t as number, i as number], { $timestamp: { t, i } });
  },
  $minKey: () => leaf([-1], { $minKey: 1 }),
  $maxKey: () => leaf([127], { $maxKey: 1 }),
};

/** What reads the object, where it is one of Extended JSON's wrappers, hence a value and not a document. */
export function wrapper(j: Json): ((inner: Inner) => Value) | false | undefined {
  const [name = '', more] = Object.keys(j as JsonObject);
  return more === undefined && Object.hasOwn(WRAPPERS, name) && WRAPPERS[name];
}

/** The value that Extended JSON says. Throws where it cannot be read. */
export function value(j: Json): Value {
  if (typeof j === 'string') return string(j);
  if (typeof j === 'number') return number(j);
  if (typeof j === 'boolean') return leaf([40, j], j);
  if (j === null) return leaf([5], j);
  if (Array.isArray(j)) return array(j.map(value));
  const fields = Object.entries(j);
  const read = wrapper(j);
  return read ? read(fields[0]?.[1] as Inner) : object(fields.map(([name, inner]) => [name, value(inner)]));
}
