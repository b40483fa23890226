/**
 * From JavaScript values to Extended JSON v2. Values pass through as they are; what JSON
 * would drop or change silently is wrapped or refused. `undefined` is refused everywhere: dropping it from a filter
 * would widen the query to everything.
 */

/** A JSON value, Extended JSON wrappers being plain objects. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };
/** A JSON object. */
export type JsonObject = { readonly [name: string]: Json };

/** Whether JSON can hold what stands for the value. */
const isPlain = (value: unknown): boolean => {
  if (typeof value === 'string') return value.isWellFormed();
  if (Object(value) !== value) return value === null || /^[bn]/.test(typeof value);
  const prototype = Object.getPrototypeOf(value);
  // A Map or a class instance would become `{}`, which matches everything. (A plain object of another realm is plain.)
  return Array.isArray(value) || !prototype || !Object.getPrototypeOf(prototype);
};

/** What stands for the value in Extended JSON; its members are not looked at. */
// biome-ignore lint/suspicious/noExplicitAny: anything may be given
const wrapped = (value: any): unknown => {
  if (typeof value === 'number') {
    if (Object.is(value, -0)) return { $numberDouble: '-0.0' };
    return Number.isFinite(value) ? value : { $numberDouble: `${value}` };
  }
  if (typeof value === 'bigint') return { $numberLong: `${value}` };
  // BigInt refuses the NaN of an invalid Date.
  if (value instanceof Date) return { $date: BigInt(+value) };
  if (value instanceof RegExp && !/[^ims]/.test(value.flags)) {
    return { $regularExpression: { pattern: value.source, options: value.flags } };
  }
  // The BSON library's classes describe themselves.
  return value?.toExtendedJSON?.({ relaxed: false }) ?? value;
};

/**
 * The Extended JSON of `value` as text. Throws a TypeError on `undefined`, functions, symbols, class
 * instances and what refers to itself, a RangeError on an invalid Date.
 */
export const toText = (value: unknown): string => {
  const paths = new Map<unknown, string>();
  return JSON.stringify(value, function (this: { [name: string]: unknown }, name) {
    // Not the second argument, which is what a method `toJSON` made of it.
    const json = wrapped(this[name]);
    const path = paths.has(this) ? `${paths.get(this)}/${name}` : '';
    if (!isPlain(json)) throw TypeError(`No JSON for the ${typeof json} at '${path}'`);
    paths.set(json, path);
    return json;
  });
};

/** The Extended JSON of `value` as plain objects. */
export const toJson = (value: unknown): Json => JSON.parse(toText(value));
