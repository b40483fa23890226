/**
 * Numbers: one text per number whatever its BSON type, and what they are ordered by. JavaScript compares doubles and
 * bigints exactly; a Decimal128 that is neither becomes a fraction.
 */
import { need } from './unkeyed.ts';

/** A fraction; `under` is positive. */
export interface Ratio {
  readonly over: bigint;
  readonly under: bigint;
}

export type Numeric = number | bigint | Ratio;

/** What a number is ordered by, and its canonical Extended JSON. */
export type Numbered = readonly [order: Numeric, json: unknown];

/** The fraction that a finite number is, exactly. */
export function ratio(x: Numeric): Ratio {
  if (typeof x === 'object') return x;
  let under = 1n;
  // Doubling a double that is no integer is exact.
  for (; typeof x === 'number' && !Number.isInteger(x); x *= 2) under *= 2n;
  return { over: BigInt(x), under };
}

export function long(n: bigint): Numbered {
  need(BigInt.asIntN(64, n) === n);
  const safe = Number(n);
  return Number.isSafeInteger(safe) ? [safe, safe] : [n, { $numberLong: `${n}` }];
}

export function double(n: number): Numbered {
  if (!Number.isFinite(n)) return [n, { $numberDouble: `${n}` }];
  return Number.isInteger(n) && n >= -(2 ** 63) && n < 2 ** 63 ? long(BigInt(n)) : [n, n];
}

/** The decimal's own `toString`: plain for exponents up to 0 and numbers down to 10^-6, else scientific. */
function print(digits: string, exponent: number): string {
  const adjusted = exponent + digits.length - 1;
  if (exponent > 0 || adjusted < -6) {
    return `${digits.replace(/^.(?=.)/, '$&.')}E${adjusted < 0 ? '' : '+'}${adjusted}`;
  }
  return digits.padStart(1 - exponent, '0').replace(RegExp(`(?=.{${-exponent}}$)(?!$)`), exponent ? '.' : '');
}

/** IEEE 754-2008 decimal128. Spellings that must be shifted to fit its 34 digits and 6111 are not keyed. */
export function decimal(text: string): Numbered {
  if (/^-?Infinity$|^NaN$/.test(text)) return double(Number(text));
  const parts = /^(-?)(?=\.?\d)(\d*)\.?(\d*)(?:E([+-]?\d+))?$/i.exec(text);
  need(parts);
  const [, minus = '', whole = '', fraction = '', e = '0'] = parts;
  const digits = (whole + fraction).replace(/^0+(?=\d)/, '') || '0';
  const exponent = Number(e) - fraction.length;
  need(digits.length <= 34 && exponent <= 6111 && exponent >= -6176);
  const coefficient = BigInt(minus + digits);
  const power = 10n ** BigInt(Math.abs(exponent));
  const order = exponent < 0 ? { over: coefficient, under: power } : { over: coefficient * power, under: 1n };
  const integer = Number(order.over / order.under);
  return order.over % order.under || !Number.isSafeInteger(integer)
    ? [order, { $numberDecimal: minus + print(digits, exponent) }]
    : double(integer);
}
