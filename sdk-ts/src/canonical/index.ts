/**
 * The canonical text of filters and ids; null where only the gateway can tell it. A module of its own, loaded when the first
 * filter or unusual id is met, so that the entry stays small: it shares nothing with the entry but types.
 */
import type { Json, JsonObject } from '../ejson.ts';
import { filterValue } from './filter.ts';
import { need, type Value } from './leaf.ts';
import { decimalId } from './number.ts';
import { value } from './value.ts';

/** The canonical text of a filter. */
export const filterText = (filter: JsonObject): string | null => textOr(() => filterValue(filter));

/** The canonical text of an id. Ids that MongoDB takes for equal have one text, decimals too. */
export const idText = (id: Json): string | null =>
  textOr(() => {
    const v = value(id);
    const digits = /^{"\$numberDecimal":"(\S+)"}$/.exec(v[1])?.[1];
    // The gateway strips the zeros of a decimal inside a document.
    need(digits || !v[1].includes('"$numberDecimal"'));
    return digits ? decimalId(digits) : v;
  });

const textOr = (read: () => Value): string | null => {
  try {
    return read()[1];
  } catch {
    return null;
  }
};
