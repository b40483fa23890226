/**
 * Numbers: one text per number whatever its BSON type. They are ordered by what they are times 10^6176, which is an
 * integer for every finite double and Decimal128: the smallest are multiples of 2^−1074 and 10^−6176.
 */
import { leaf, NUMBER, need, type Value } from './leaf.ts';

const SCALE_DIGITS = 6176;
export const SCALE: bigint = 10n ** BigInt(SCALE_DIGITS);

const isLong = (n: bigint): boolean => BigInt.asIntN(64, n) === n;

/** A double, or an integer of 64 bits as a bigint. */
export const number = (x: number | bigint): Value => {
  const near = Number(x);
  if (!Number.isFinite(near)) {
    // NaN, −∞, every finite number, ∞.
    return leaf(
      NUMBER,
      { $numberDouble: `${near}` },
      near > 0 ? near : near < 0 ? -(SCALE ** 3n) : -Infinity,
    );
  }
  let scale = SCALE;
  // Doubling a double that is no integer is exact.
  for (let y = near; y % 1; x = y *= 2) scale >>= 1n;
  const integer = BigInt(x);
  const wide = isLong(integer) && Math.abs(near) >= 2 ** 53;
  return leaf(NUMBER, wide ? { $numberLong: `${integer}` } : near, integer * scale);
};

/** An integer, which must fit 64 bits. */
export const long = (n: bigint): Value => {
  need(isLong(n));
  return number(n);
};

/** Digits around a point and an exponent, or nothing of it. */
const NUMERAL = /^(-?)(?:(?=\.?\d)(\d*)\.?(\d*)(?:[Ee]([+-]?\d+))?|Infinity)$|^NaN$/;

const numeral = (text: string): RegExpExecArray => NUMERAL.exec(text) as RegExpExecArray;

export const double = (text: string): Value => {
  const near = +numeral(text)[0];
  // Digits must not become infinite: the gateway refuses them.
  need(/\d/.test(text) === Number.isFinite(near));
  return number(near);
};

/** The digits with a point at this place, counted from the end where it is negative; without one where nothing comes after it. */
const pointed = (digits: string, at: number): string => {
  const rest = at && digits.slice(at);
  return rest ? `${digits.slice(0, at)}.${rest}` : digits;
};

/** The decimal's own `toString`: plain for exponents up to 0 and numbers down to 10^-6, else scientific. */
const print = (digits: string, exponent: number): string => {
  const adjusted = exponent + digits.length - 1;
  return exponent > 0 || adjusted < -6
    ? `${pointed(digits, 1)}E${adjusted < 0 ? '' : '+'}${adjusted}`
    : pointed(digits.padStart(1 - exponent, '0'), exponent);
};

/** IEEE 754-2008 decimal128. Spellings that must be shifted to fit its 34 digits and 6111 are not keyed. */
export const decimal = (text: string): Value => {
  const [, minus = '', whole, fraction = '', e = 0] = numeral(text);
  if (whole === undefined) return number(+text);
  const digits = (whole + fraction).replace(/^0+(?=\d)/, '');
  const exponent = +e - fraction.length;
  // A power of ten below the first is refused by BigInt.
  need(digits.length <= 34 && exponent <= 6111);
  const order = BigInt(minus + digits) * 10n ** BigInt(exponent + SCALE_DIGITS);
  const integer = Number(order / SCALE);
  return order % SCALE || !Number.isSafeInteger(integer)
    ? leaf(NUMBER, { $numberDecimal: minus + print(digits, exponent) }, order)
    : number(integer);
};

/** The decimal as an id: one that a double or integer holds exactly is that number; any other has no zeros at its end. */
export const decimalId = (text: string): Value => {
  const plain = text.replace(/(?<=\..*)0+(?=E|$)/, '');
  const exact = decimal(plain);
  const order = exact[0][1] as bigint;
  const integer = order / SCALE;
  const near = number(order % SCALE || !isLong(integer) ? +plain : integer);
  if (near[0][1] === order) return near;
  need(!/0(E|$)/.test(plain));
  return exact;
};
