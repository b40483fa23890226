/**
 * The canonical text of filters and values. A module of its own, loaded when the first filter or unusual id is met, so that
 * the entry stays small.
 */
import type { Json, JsonObject } from '../ejson.ts';
import { filterValue } from './filter.ts';
import { decimal, double, long, ratio } from './number.ts';
import { need, Unkeyed } from './unkeyed.ts';
import { number, value } from './value.ts';

/** The canonical text of a filter; null where only the gateway can tell it. */
export function filterText(filter: JsonObject): string | null {
  return textOr(() => filterValue(filter)[1]);
}

/** The canonical text of an id; null where it is none. Ids that MongoDB takes for equal have one text, decimals too. */
export function idText(id: Json): string | null {
  return textOr(() => {
    const text = value(id)[1];
    const digits = /^{"\$numberDecimal":"(.*)"}$/.exec(text)?.[1];
    if (digits !== undefined) return decimalId(digits);
    // The gateway strips the zeros of a decimal inside a document.
    need(!text.includes('"$numberDecimal"'));
    return text;
  });
}

/** A decimal that a double or integer holds exactly is that number; any other has no zeros at its end. */
function decimalId(digits: string): string {
  const plain = digits.includes('.') ? digits.replace(/0+$|0+(?=E)/, '') : digits;
  const { over, under } = ratio(decimal(plain)[0]);
  if (under === 1n && BigInt.asIntN(64, over) === over) return number(long(over))[1];
  const nearest = ratio(Number(plain));
  if (nearest.over * under === over * nearest.under) return number(double(Number(plain)))[1];
  need(!/0(E|$)/.test(plain));
  return number(decimal(plain))[1];
}

function textOr(text: () => string): string | null {
  try {
    return text();
  } catch (error) {
    if (error instanceof Unkeyed) return null;
    throw error;
  }
}
