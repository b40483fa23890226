/**
 * Numbers: one text per number whatever its BSON type. They are ordered by what they are times 10^6176, which is an
 * integer for every finite double and Decimal128: the smallest are multiples of 2^−1074 and 10^−6176.
 */
import { need } from './need.ts';
import { leaf, type Value } from './value.ts';

/** The rank of numbers in MongoDB's order. */
export const NUMBER = 10;

const SCALE_DIGITS = 6176;
export const SCALE: bigint = 10n ** BigInt(SCALE_DIGITS);

const isLong = (n: bigint): boolean => BigInt.asIntN(64, n) === n;

/** A double, or an integer of 64 bits as a bigint. */
export function number(x: number | bigint): Value {
  const near = Number(x);
  if (!Number.isFinite(near)) {
    // NaN, −∞, every finite number, ∞.
    const order = near > 0 ? near : near < 0 ? -(SCALE ** 3n) : -Infinity;
    return leaf([NUMBER, order], { $numberDouble: `${near}` });
  }
  let scale = SCALE;
  // Doubling a double that is no integer is exact.
  for (; Number(x) % 1; x = Number(x) * 2) scale >>= 1n;
  const integer = BigInt(x);
  const wide = scale === SCALE && isLong(integer) && !Number.isSafeInteger(near);
  return leaf([NUMBER, integer * scale], wide ? { $numberLong: `${integer}` } : near);
}

/** An integer, which must fit 64 bits. */
export function long(n: bigint): Value {
  need(isLong(n));
  return number(n);
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
export function decimal(text: string): Value {
  if (/^-?Infinity$|^NaN$/.test(text)) return number(+text);
  const parts = /^(-?)(?=\.?\d)(\d*)\.?(\d*)(?:E([+-]?\d+))?$/i.exec(text) as RegExpExecArray;
  const [, minus, whole = '', fraction = '', e = 0] = parts;
  const digits = (whole + fraction).replace(/^0+(?=\d)/, '') || '0';
  const exponent = +e - fraction.length;
  need(digits.length <= 34 && exponent <= 6111 && exponent >= -SCALE_DIGITS);
  const order = BigInt(minus + digits) * 10n ** BigInt(exponent + SCALE_DIGITS);
  const integer = Number(order / SCALE);
  return order % SCALE || !Number.isSafeInteger(integer)
    ? leaf([NUMBER, order], { $numberDecimal: minus + print(digits, exponent) })
    : number(integer);
}

/** The decimal as an id: one that a double or integer holds exactly is that number; any other has no zeros at its end. */
export function decimalId(text: string): Value {
  const plain = text.includes('.') ? text.replace(/0+$|0+(?=E)/, '') : text;
  const exact = decimal(plain);
  const order = exact[0][1] as bigint;
  const integer = order / SCALE;
  if (isLong(integer) && integer * SCALE === order) return number(integer);
  const nearest = number(+plain);
  if (nearest[0][1] === order) return nearest;
  need(!/0(E|$)/.test(plain));
  return exact;
}
