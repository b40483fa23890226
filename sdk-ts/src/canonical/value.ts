/**
 * Values with their canonical text and their place in MongoDB's comparison order ("Canonical text of a value" and
 * "BSON order" of docs/canonical-form.md). A document's fields keep their order.
 */
import type { Json, JsonObject } from '../ejson.ts';
import { decimal, double, isRatio, long, type Ratio, ratioOf } from './number.ts';
import { Unkeyed } from './unkeyed.ts';

/** What two values of one type are compared by. Arrays compare member by member, then by length. */
export type Order = number | bigint | boolean | string | Ratio | Value | readonly Order[];

/** A value: its type's rank in BSON order, what it is ordered by within the type, its canonical text. */
export class Value {
  constructor(
    readonly rank: number,
    readonly order: Order,
    readonly text: string,
  ) {}
}

/** Ranks of the types, as MongoDB's `canonicalizeBSONType` orders them. */
export const OBJECT = 20;
export const REGEX = 50;

const quote = JSON.stringify;

/** A document of these fields, in this order. */
export function object(fields: readonly (readonly [name: string, value: Value])[]): Value {
  return new Value(
    OBJECT,
    fields.flatMap(([name, v]) => [v.rank, name, v]),
    `{${fields.map(([name, v]) => `${quote(name)}:${v.text}`).join()}}`,
  );
}

/** An array of these members, in this order. */
export function array(members: readonly Value[]): Value {
  return new Value(25, members, `[${members.map((v) => v.text).join()}]`);
}

export function text(s: string): Value {
  return new Value(15, s, quote(s));
}

export function bool(b: boolean): Value {
  return new Value(40, b, String(b));
}

export function number(n: readonly [order: number | bigint | Ratio, text: string]): Value {
  return new Value(10, n[0], n[1]);
}

export function regex(pattern: string, options: string): Value {
  const sorted = [...options].sort().join('');
  return new Value(
    REGEX,
    [pattern, sorted],
    `{"$regularExpression":{"pattern":${quote(pattern)},"options":${quote(sorted)}}}`,
  );
}

/** By code points, which is the order of the UTF-8 bytes. */
export function compareText(a: string, b: string): number {
  let i = 0;
  while (i < a.length && a.charCodeAt(i) === b.charCodeAt(i)) i++;
  // Surrogates stand for code points above U+FFFF: they come after U+E000–U+FFFF.
  const at = (s: string): number => {
    const unit = s.charCodeAt(i);
    return i >= s.length ? -1 : unit < 0xd800 ? unit : unit < 0xe000 ? unit + 0x2000 : unit - 0x800;
  };
  return at(a) - at(b);
}

function compareOrder(a: Order, b: Order): number {
  if (a instanceof Value) return compareBson(a, b as Value);
  if (Array.isArray(a)) {
    const other = b as readonly Order[];
    for (let i = 0; i < a.length && i < other.length; i++) {
      const difference = compareOrder(a[i], other[i] as Order);
      if (difference) return difference;
    }
    return a.length - other.length;
  }
  if (typeof a === 'string') return compareText(a, b as string);
  if (isRatio(a) || isRatio(b)) {
    if (typeof a === 'number' && !Number.isFinite(a)) return a > 0 ? 1 : -1;
    if (typeof b === 'number' && !Number.isFinite(b)) return b > 0 ? -1 : 1;
    const [x, y] = [ratioOf(a as Ratio), ratioOf(b as Ratio)];
    return compareOrder(x.over * y.under, y.over * x.under);
  }
  // NaN comes before every number; numbers and bigints compare exactly.
  return a < b ? -1 : a > b ? 1 : Number(Number.isNaN(b)) - Number(Number.isNaN(a));
}

function compareBson(a: Value, b: Value): number {
  return a.rank - b.rank || compareOrder(a.order, b.order);
}

/** MongoDB's order; values it holds for equal are ordered by their text. */
export function compare(a: Value, b: Value): number {
  return compareBson(a, b) || compareText(a.text, b.text);
}

/** Sorted, without those of equal text. */
export function sortedSet(values: readonly Value[]): Value[] {
  return [...new Map(values.map((v) => [v.text, v])).values()].sort(compare);
}

const integer = (j: Json | undefined): bigint => {
  if (typeof j !== 'string' || !/^-?\d+$/.test(j)) throw new Unkeyed(`Not an integer: ${quote(j)}`);
  return BigInt(j);
};

const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,3})?(Z|[+-]\d\d:\d\d)$/;

function date(j: Json): Value {
  // BigInt refuses the NaN of an impossible date.
  const ms =
    typeof j === 'string' && ISO.test(j) ? BigInt(Date.parse(j)) : integer((j as JsonObject).$numberLong);
  return new Value(45, ms, `{"$date":{"$numberLong":"${ms}"}}`);
}

function binary(bytes: string, subType: string): Value {
  return new Value(
    30,
    [bytes.length, subType, bytes],
    `{"$binary":{"base64":"${btoa(bytes)}","subType":"${subType}"}}`,
  );
}

function timestamp({ t, i }: JsonObject): Value {
  const u32 = (n: unknown): boolean => typeof n === 'number' && n === n >>> 0;
  if (!u32(t) || !u32(i)) throw new Unkeyed('Not a timestamp');
  return new Value(47, [t as number, i as number], `{"$timestamp":{"t":${t},"i":${i}}}`);
}

/** Extended JSON's wrappers: one field, whose name says the type. */
const WRAPPERS: { readonly [name: string]: (inner: never) => Value } = {
  $numberInt: (j: Json) => number(long(integer(j))),
  $numberLong: (j: Json) => number(long(integer(j))),
  $numberDouble: (j: string) => {
    if (!/^-?(\d+(\.\d*)?([eE][+-]?\d+)?|Infinity)$|^NaN$/.test(j)) throw new Unkeyed(`Not a double: ${j}`);
    return number(double(Number(j)));
  },
  $numberDecimal: (j: string) => number(decimal(String(j))),
  $oid: (j: string) => {
    if (!/^[\da-f]{24}$/i.test(j)) throw new Unkeyed(`Not an ObjectId: ${j}`);
    const hex = j.toLowerCase();
    return new Value(35, hex, `{"$oid":"${hex}"}`);
  },
  $date: date,
  $binary: ({ base64, subType }: { base64: string; subType: string }) => {
    if (!/^[\da-f]{1,2}$/i.test(subType)) throw new Unkeyed('Not a binary');
    return binary(atob(base64), subType.toLowerCase().padStart(2, '0'));
  },
  $uuid: (j: string) => {
    if (!/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i.test(j)) throw new Unkeyed(`Not a UUID: ${j}`);
    const bytes = j
      .replaceAll('-', '')
      .replace(/../g, (hex) => String.fromCharCode(Number.parseInt(hex, 16)));
    return binary(bytes, '04');
  },
  $regularExpression: ({ pattern, options }: { pattern: string; options: string }) => regex(pattern, options),
  $timestamp: timestamp,
  $minKey: () => new Value(-1, 0, '{"$minKey":1}'),
  $maxKey: () => new Value(127, 0, '{"$maxKey":1}'),
};

/** Whether it is one of Extended JSON's wrappers, hence a value and not a document. */
export function isWrapper(j: JsonObject): boolean {
  const names = Object.keys(j);
  return names.length === 1 && Object.hasOwn(WRAPPERS, names[0] as string);
}

/** The value that Extended JSON says. Throws {@link Unkeyed} where it cannot be read. */
export function value(j: Json): Value {
  if (j === null) return new Value(5, 0, 'null');
  if (typeof j === 'string') return text(j);
  if (typeof j === 'number') return number(double(j));
  if (typeof j === 'boolean') return bool(j);
  if (Array.isArray(j)) return array(j.map(value));
  const fields = Object.entries(j as JsonObject);
  const [name, inner] = fields[0] ?? ['', null];
  if (!isWrapper(j as JsonObject)) return object(fields.map(([field, v]) => [field, value(v)]));
  try {
    return (WRAPPERS[name] as (inner: Json) => Value)(inner);
  } catch (error) {
    // Destructuring null, atob of no base64 …: malformed all the same, and the gateway says how.
    throw error instanceof Unkeyed ? error : new Unkeyed(`Malformed ${name}`);
  }
}
