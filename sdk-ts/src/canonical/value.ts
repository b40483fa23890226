/**
 * Values with their canonical text and their place in MongoDB's comparison order ("Canonical text of a value" and
 * "BSON order" of docs/canonical-form.md). A document's fields keep their order.
 */
import type { Json, JsonObject } from '../ejson.ts';
import { decimal, double, long, type Numbered, type Numeric, ratio } from './number.ts';
import { compareText } from './text.ts';
import { need, Unkeyed } from './unkeyed.ts';

/** What values are ordered by: lists member by member, then by length. A value's list begins with its type's rank. */
export type Order = Numeric | boolean | string | readonly Order[];

/** A value's order and canonical text. */
export type Value = readonly [order: readonly Order[], text: string];

/** Ranks of types, as MongoDB's `canonicalizeBSONType` orders them. */
export const NUMBER = 10;
export const OBJECT = 20;
export const BINARY = 30;
export const REGEX = 50;

/** A value whose text is plain JSON. */
export function leaf(order: readonly Order[], json: unknown): Value {
  return [order, JSON.stringify(json)];
}

export function number([order, json]: Numbered): Value {
  return leaf([NUMBER, order], json);
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

function compareOrder(a: Order, b: Order): number {
  if (Array.isArray(a)) {
    const other = b as readonly Order[];
    for (let i = 0; i < a.length && i < other.length; i++) {
      const difference = compareOrder(a[i], other[i] as Order);
      if (difference) return difference;
    }
    return a.length - other.length;
  }
  if (typeof a === 'string') return compareText(a, b as string);
  if (typeof a === 'object' || typeof b === 'object') {
    if (!Number.isFinite(a) && typeof a === 'number') return a > 0 ? 1 : -1;
    if (!Number.isFinite(b) && typeof b === 'number') return b > 0 ? -1 : 1;
    const [x, y] = [ratio(a as Numeric), ratio(b as Numeric)];
    return compareOrder(x.over * y.under, y.over * x.under);
  }
  // NaN comes before every number.
  return a < b ? -1 : a > b ? 1 : +Number.isNaN(b) - +Number.isNaN(a);
}

/** MongoDB's order; values it holds for equal are ordered by their text. */
export function compare(a: Value, b: Value): number {
  return compareOrder(a[0], b[0]) || compareText(a[1], b[1]);
}

/** Sorted, without those of equal text. */
export function sortedSet(values: readonly Value[]): Value[] {
  return [...new Map(values.map((v) => [v[1], v])).values()].sort(compare);
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

const readLong = (j: Inner): Value => number(long(integer(j)));

/** Extended JSON's wrappers: one field, whose name says the type. */
const WRAPPERS: { readonly [name: string]: (inner: Inner) => Value } = {
  $numberInt: readLong,
  $numberLong: readLong,
  $numberDouble(j) {
    need(/^-?(\d+(\.\d*)?(E[+-]?\d+)?|Infinity)$|^NaN$/i.test(j));
    return number(double(Number(j)));
  },
  $numberDecimal: (j) => number(decimal(j)),
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
      j.replace(/-?(..)/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16))),
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

/** Whether it is one of Extended JSON's wrappers, hence a value and not a document. */
export function isWrapper(j: JsonObject): boolean {
  const [name, ...others] = Object.keys(j);
  return others.length === 0 && Object.hasOwn(WRAPPERS, name as string);
}

/** The value that Extended JSON says. Throws {@link Unkeyed} where it cannot be read. */
export function value(j: Json): Value {
  if (typeof j === 'string') return string(j);
  if (typeof j === 'number') return number(double(j));
  if (typeof j === 'boolean') return leaf([40, j], j);
  if (j === null) return leaf([5], j);
  if (Array.isArray(j)) return array(j.map(value));
  const fields = Object.entries(j as JsonObject);
  if (!isWrapper(j as JsonObject)) return object(fields.map(([name, inner]) => [name, value(inner)]));
  const [[name, inner]] = fields as [[string, Inner]];
  try {
    return (WRAPPERS[name] as (typeof WRAPPERS)[string])(inner);
  } catch {
    throw new Unkeyed(); // Malformed: the gateway says how.
  }
}
