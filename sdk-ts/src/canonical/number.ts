/**
 * Numbers: one text per number whatever its BSON type, and what they are ordered by. Doubles and 64-bit integers are
 * compared by JavaScript exactly; a Decimal128 that is neither becomes a fraction.
 */
import { Unkeyed } from './unkeyed.ts';

/** A fraction. */
export interface Ratio {
  readonly over: bigint;
  /** Positive. */
  readonly under: bigint;
}

type Ordered = readonly [order: number | bigint | Ratio, text: string];

export function isRatio(x: unknown): x is Ratio {
  return (x as Ratio).under !== undefined;
}

/** The fraction that a finite number is, exactly. */
export function ratioOf(x: number | bigint | Ratio): Ratio {
  if (isRatio(x)) return x;
  let under = 1n;
  if (typeof x === 'number') {
    // Doubling a double below 2^53 is exact.
    for (; !Number.isInteger(x); x *= 2) under *= 2n;
  }
  return { over: BigInt(x), under };
}

const LONG_END = 2 ** 63;

export function double(n: number): Ordered {
  if (!Number.isFinite(n)) return [n, `{"$numberDouble":"${n}"}`];
  if (Number.isSafeInteger(n) || !Number.isInteger(n) || n < -LONG_END || n >= LONG_END)
    return [n, String(n)];
  return long(BigInt(n));
}

export function long(n: bigint): Ordered {
  if (BigInt.asIntN(64, n) !== n) throw new Unkeyed(`Beyond 64 bits: ${n}`);
  const safe = Number(n);
  return Number.isSafeInteger(safe) ? [safe, String(n)] : [n, `{"$numberLong":"${n}"}`];
}

/** IEEE 754-2008 decimal128: digits and exponents of the least and the greatest last digit. */
const DIGITS_MAX = 34;
const EXPONENT_MIN = -6176;
const EXPONENT_MAX = 6111;

/** Brings coefficient and exponent into decimal128's range where that loses nothing. */
function exact(digits: string, exponent: number): [digits: string, exponent: number] {
  const zero = /^0*$/.test(digits);
  digits = digits.replace(/^0+(?=\d)/, '');
  if (zero) return ['0', Math.min(Math.max(exponent, EXPONENT_MIN), EXPONENT_MAX)];
  while ((digits.length > DIGITS_MAX || exponent < EXPONENT_MIN) && digits.endsWith('0')) {
    digits = digits.slice(0, -1);
    exponent++;
  }
  while (exponent > EXPONENT_MAX && digits.length < DIGITS_MAX) {
    digits += '0';
    exponent--;
  }
  if (digits.length > DIGITS_MAX || exponent < EXPONENT_MIN || exponent > EXPONENT_MAX) {
    throw new Unkeyed('Not exact as a Decimal128');
  }
  return [digits, exponent];
}

/** The decimal's own `toString`: plain where the exponent is at most 0 and at least 10^-6 is reached, else scientific. */
function print(digits: string, exponent: number): string {
  const adjusted = exponent + digits.length - 1;
  if (exponent > 0 || adjusted < -6) {
    const fraction = digits.length > 1 ? `.${digits.slice(1)}` : '';
    return `${digits[0]}${fraction}E${adjusted < 0 ? '' : '+'}${adjusted}`;
  }
  if (exponent === 0) return digits;
  const padded = digits.padStart(1 - exponent, '0');
  return `${padded.slice(0, exponent)}.${padded.slice(exponent)}`;
}

export function decimal(text: string): Ordered {
  const special = /^([+-]?)(?:(nan)|inf(?:inity)?)$/i.exec(text);
  if (special) return double(special[2] ? Number.NaN : special[1] === '-' ? -Infinity : Infinity);
  const parts = /^([+-]?)(?=\.?\d)(\d*)\.?(\d*)(?:e([+-]?\d{1,9}))?$/i.exec(text);
  if (!parts) throw new Unkeyed(`Not a decimal: ${text}`);
  const [, sign, whole = '', fraction = '', e = '0'] = parts;
  const [digits, exponent] = exact(whole + fraction, Number(e) - fraction.length);
  const minus = sign === '-' ? '-' : '';
  const power = 10n ** BigInt(digits === '0' ? 0 : Math.abs(exponent));
  const coefficient = BigInt(minus + digits);
  const ratio: Ratio =
    exponent < 0 ? { over: coefficient, under: power } : { over: coefficient * power, under: 1n };
  const whole_ = Number(ratio.over / ratio.under);
  if (ratio.over % ratio.under === 0n && Number.isSafeInteger(whole_)) return double(whole_);
  return [ratio, `{"$numberDecimal":"${minus}${print(digits, exponent)}"}`];
}

/** Truncated towards zero. Throws {@link Unkeyed} where that is no 64-bit integer. */
export function truncate(order: number | bigint | Ratio): Ordered {
  if (typeof order === 'number' && !Number.isFinite(order)) throw new Unkeyed('Not a number');
  const { over, under } = ratioOf(order);
  return long(over / under);
}

/** The integer that a number is. Throws {@link Unkeyed} on any other. */
export function integral(order: number | bigint | Ratio): Ordered {
  const whole = truncate(order);
  const { over, under } = ratioOf(order);
  if (over % under !== 0n) throw new Unkeyed('Not an integer');
  return whole;
}
