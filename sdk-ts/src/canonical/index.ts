/**
 * The canonical text of filters and values. A module of its own, loaded when the first filter or unusual id is met, so that
 * the entry stays small.
 */
import type { Json, JsonObject } from '../ejson.ts';
import { filterValue } from './filter.ts';
import { Unkeyed } from './unkeyed.ts';
import { value } from './value.ts';

/** The canonical text of a filter; null where only the gateway can tell it. */
export function filterText(filter: JsonObject): string | null {
  return textOr(() => filterValue(filter)[1]);
}

/** The canonical text of a value; null where it is none. */
export function valueText(j: Json): string | null {
  return textOr(() => value(j)[1]);
}

function textOr(text: () => string): string | null {
  try {
    return text();
  } catch (error) {
    if (error instanceof Unkeyed) return null;
    throw error;
  }
}
