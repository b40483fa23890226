/**
 * From JavaScript values to Extended JSON v2 as plain objects. Values pass through as they are; what JSON
 * would drop or change silently is wrapped or refused. `undefined` is refused everywhere: dropping it from a filter
 * would widen the query to everything.
 */

/** A JSON value, Extended JSON wrappers being plain objects. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };
/** A JSON object. */
export type JsonObject = { readonly [name: string]: Json };

/** Levels of nesting the protocol allows. */
const DEPTH_MAX = 100;

function wrapNumber(n: number): Json {
  if (Number.isFinite(n) && !Object.is(n, -0)) return n;
  return { $numberDouble: Object.is(n, -0) ? '-0.0' : String(n) };
}

function refuse(what: string, at: string): never {
  throw new TypeError(`${what} at ${at || 'the top'} has no place in a filter or document`);
}

function convertObject(value: object, at: string, depth: number): Json {
  if (depth > DEPTH_MAX) refuse('Deeper nesting than 100 levels', at.slice(0, 80));
  const member = (v: unknown, name: string | number): Json => convert(v, `${at}/${name}`, depth + 1);
  // Array.from turns holes into undefined, which is refused.
  if (Array.isArray(value)) return Array.from(value, member);
  if (value instanceof Date) {
    const ms = value.getTime();
    return Number.isNaN(ms) ? refuse('An invalid Date', at) : { $date: { $numberLong: String(ms) } };
  }
  if (value instanceof RegExp) {
    if (/[^ims]/.test(value.flags)) refuse(`Flag of ${value}`, at);
    return { $regularExpression: { pattern: value.source, options: value.flags } };
  }
  // The BSON library's classes describe themselves.
  const own = value as { toExtendedJSON?: (options: object) => unknown };
  if (typeof own.toExtendedJSON === 'function') return own.toExtendedJSON({ relaxed: false }) as Json;
  const prototype = Object.getPrototypeOf(value);
  // A Map or a class instance would become `{}`, which matches everything. (A plain object of another realm is plain.)
  if (prototype !== null && Object.getPrototypeOf(prototype) !== null) refuse('A class instance', at);
  return Object.fromEntries(Object.entries(value).map(([name, v]) => [name, member(v, name)]));
}

function convert(value: unknown, at: string, depth: number): Json {
  switch (typeof value) {
    case 'object':
      return value === null ? null : convertObject(value, at, depth);
    case 'number':
      return wrapNumber(value);
    case 'bigint':
      return { $numberLong: String(value) };
    case 'string':
      if (!value.isWellFormed()) refuse('A lone surrogate', at);
      return value;
    case 'boolean':
      return value;
    default:
      return refuse(String(value === undefined ? value : typeof value), at);
  }
}

/** The Extended JSON of `value`. Throws a TypeError on `undefined`, functions, symbols and class instances. */
export function toJson(value: unknown): Json {
  return convert(value, '', 0);
}
