/**
 * Values with their canonical text and their place in MongoDB's comparison order ("Canonical text of a value" and
 * "BSON order" of docs/canonical-form.md). A document's fields keep their order.
 */
import type { Json, JsonObject } from '../ejson.ts';
import { BINARY, leaf, need, OBJECT, REGEX, type Value } from './leaf.ts';
import { decimal, double, long, number } from './number.ts';

export const string = (s: string): Value => leaf(15, s, s);

/** A document of these fields, in this order. */
export const object = (fields: readonly (readonly [name: string, value: Value])[]): Value => [
  [OBJECT, fields.map(([name, [order]]) => [order[0], name, order])],
  `{${fields.map(([name, [, text]]) => `${JSON.stringify(name)}:${text}`)}}`,
];

/** An array of these members, in this order. */
export const array = (members: readonly Value[]): Value => [
  [25, members.map(([order]) => order)],
  `[${members.map(([, text]) => text)}]`,
];

export const regex = (pattern: string, given: string): Value => {
  const options = [...given].sort().join('');
  return leaf(REGEX, { $regularExpression: { pattern, options } }, [pattern, options]);
};

/** What a wrapper holds; the readers below check it. */
type Inner = string & JsonObject;

/** The text, which must have this form. */
const matching = (form: RegExp, text: unknown): string => {
  need(form.test(text as string));
  return text as string;
};

const integer = (digits: unknown): bigint => BigInt(matching(/^-?\d+$/, digits));

const binary = (bytes: string, subType: string): Value =>
  leaf(BINARY, { $binary: { base64: btoa(bytes), subType } }, [bytes.length, subType, bytes]);

const date = (j: Inner): Value => {
  const ms =
    typeof j === 'string'
      ? // BigInt refuses the NaN of an impossible date.
        BigInt(Date.parse(matching(/^\d{4}(-\d\d){2}T\d\d(:\d\d){2}(\.\d{1,3})?(Z|[+-]\d\d:\d\d)$/, j)))
      : integer((j as JsonObject).$numberLong);
  return leaf(45, { $date: { $numberLong: `${ms}` } }, ms);
};

const readLong = (j: Inner): Value => long(integer(j));

/** Extended JSON's wrappers: one field, whose name says the type. */
const WRAPPERS: { readonly [name: string]: (inner: Inner) => Value } = {
  $numberInt: readLong,
  $numberLong: readLong,
  $numberDouble: double,
  $numberDecimal: decimal,
  $oid: (j) => leaf(35, { $oid: matching(/^[\da-f]{24}$/i, j).toLowerCase() }),
  $date: date,
  $binary: ({ base64, subType }) =>
    binary(
      atob(base64 as string),
      matching(/^[\da-f]{1,2}$/i, subType)
        .toLowerCase()
        .padStart(2, '0'),
    ),
  $uuid: (j) =>
    binary(
      matching(/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i, j).replace(/-?(..)/g, (_, hex) =>
        String.fromCharCode(+`0x${hex}`),
      ),
      '04',
    ),
  $regularExpression: ({ pattern, options }) => regex(pattern as string, options as string),
  $timestamp({ t, i }) {
    const order = [t, i] as number[];
    need(order.every((n) => n === n >>> 0));
    return leaf(47, { $timestamp: { t, i } }, order);
  },
  $minKey: () => leaf(-1, { $minKey: 1 }),
  $maxKey: () => leaf(127, { $maxKey: 1 }),
};

export const isDocument = (j: Json): j is JsonObject => Object(j) === j && !Array.isArray(j);

/** What reads the object, where it is one of Extended JSON's wrappers, hence a value and not a document. */
const wrapper = (j: JsonObject): ((inner: Inner) => Value) | false | undefined => {
  const names = Object.keys(j).join();
  // All that an object inherits has other names.
  return names[0] === '$' && WRAPPERS[names];
};

/** Whether an object holds operators: its first field begins with `$`, and it is no wrapped value. */
export const isOperators = (j: Json): j is JsonObject => isDocument(j) && wrapper(j) === undefined;

/** The value that Extended JSON says. Throws where it cannot be read. */
export const value = (j: Json): Value => {
  if (typeof j === 'string') return string(j);
  if (typeof j === 'number') return number(j);
  if (Array.isArray(j)) return array(j.map(value));
  if (!isDocument(j)) return leaf(j === null ? 5 : 40, j);
  const read = wrapper(j);
  return read
    ? read(Object.values(j)[0] as Inner)
    : object(Object.entries(j).map(([name, inner]) => [name, value(inner)]));
};
