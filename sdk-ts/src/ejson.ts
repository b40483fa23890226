/**
 * From JavaScript values to Extended JSON v2 as plain objects. Values pass through as they are; what JSON
 * would drop or change silently is wrapped or refused. `undefined` is refused everywhere: dropping it from a filter
 * would widen the query to everything.
 */

/** A JSON value, Extended JSON wrappers being plain objects. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };
/** A JSON object. */
export type JsonObject = { readonly [name: string]: Json };

function refuse(what: unknown, at: string): never {
  throw new TypeError(`${what} at ${at || '/'} has no place in JSON`);
}

function objectToJson(value: object, at: string): Json {
  const member = (v: unknown, name: string | number): Json => toJson(v, `${at}/${name}`);
  // Array.from turns holes into undefined, which is refused.
  if (Array.isArray(value)) return Array.from(value, member);
  // BigInt refuses the NaN of an invalid Date.
  if (value instanceof Date) return { $date: toJson(BigInt(+value)) };
  if (value instanceof RegExp && !/[^ims]/.test(value.flags)) {
    return { $regularExpression: { pattern: value.source, options: value.flags } };
  }
  // The BSON library's classes describe themselves.
  const own = value as { toExtendedJSON?: (options: object) => Json };
  if (own.toExtendedJSON) return own.toExtendedJSON({ relaxed: false });
  const prototype = Object.getPrototypeOf(value);
  // A Map or a class instance would become `{}`, which matches everything. (A plain object of another realm is plain.)
  if (prototype && Object.getPrototypeOf(prototype)) refuse(value, at);
  return Object.fromEntries(Object.entries(value).map(([name, v]) => [name, member(v, name)]));
}

/**
 * The Extended JSON of `value`, which is at the path `at`. Throws a TypeError on `undefined`, functions, symbols and class
 * instances, a RangeError on an invalid Date and on what refers to itself.
 */
export function toJson(value: unknown, at = ''): Json {
  switch (typeof value) {
    case 'object':
      return value && objectToJson(value, at);
    case 'number':
      if (Number.isFinite(value) && !Object.is(value, -0)) return value;
      return { $numberDouble: value === 0 ? '-0.0' : `${value}` };
    case 'bigint':
      return { $numberLong: `${value}` };
    case 'string':
      return value.isWellFormed() ? value : refuse('A lone surrogate', at);
    case 'boolean':
      return value;
    default:
      return refuse(typeof value, at);
  }
}
