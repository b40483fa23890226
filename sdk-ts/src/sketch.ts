/**
 * The sketch as it comes over the wire: which keys may have a stale copy somewhere. Decides membership only;
 * how old a sketch may be is `decide.ts`. Whatever cannot be read exactly is an error, never an empty sketch: a
 * wrong "not in it" would be a stale answer.
 */
import { padded, utf8 } from './bytes.ts';
import { type Salt, siphash } from './siphash.ts';

/** Bytes before the bits. */
const HEADER_BYTES = 56;
/** More hash functions than any sensible sketch has; the positions stay exact in doubles up to here. */
const HASHES_MAX = 16;
/** `invalidation_ms` that means "no bound". */
const UNBOUNDED = 0xffff_ffff;
const MAGIC = 0x46424546; // "FEBF", little-endian

/** A decoded sketch. */
export interface Sketch {
  /** It contains every key: the server lost its state (C8). */
  readonly saturated: boolean;
  /** Hash functions. */
  readonly k: number;
  /** Bits. */
  readonly m: number;
  /** Age of the watermark when the sketch was sent, in milliseconds. */
  readonly ageMs: number;
  /** Changes whenever the server lost state. */
  readonly epoch: bigint;
  /** Every write at or before this position is in the sketch. */
  readonly watermark: bigint;
  /** Δ_inv in milliseconds: write acknowledged → purge confirmed. Infinity when there is no bound. */
  readonly invalidationMs: number;
  readonly salt: Salt;
  readonly bits: Uint8Array;
}

/** Reads format version 1. Throws a TypeError on anything else. */
export const decodeSketch = (bytes: Uint8Array): Sketch => {
  // A header that is cut off reads as one of zeros, which is none. So does any on a machine of the other byte order.
  const header = padded(bytes, HEADER_BYTES);
  const [magic, form, m, ageMs, , , , , invalidationMs, reserved, ...salt] = new Uint32Array(
    header,
  ) as Iterable<number> as [number, number, number, number, 0, 0, 0, 0, number, number, ...Salt];
  const [, , epoch, watermark] = new BigUint64Array(header) as Iterable<bigint> as [0n, 0n, bigint, bigint];
  const k = bytes[5] as number;
  const flags = form >>> 16;
  // A delta (bit 1) is never asked for; other flags and the reserved field have no meaning yet.
  const known =
    magic === MAGIC && bytes[4] === 1 && flags < 2 && !reserved && k <= HASHES_MAX && (flags || k * m);
  if (!known || bytes.length !== HEADER_BYTES + (flags ? 0 : Math.ceil(m / 8)))
    throw TypeError('Not a sketch');
  return {
    saturated: !!flags,
    k,
    m,
    ageMs,
    epoch,
    watermark,
    invalidationMs: invalidationMs === UNBOUNDED ? Infinity : invalidationMs,
    salt,
    bits: bytes.subarray(HEADER_BYTES),
  };
};

/** Whether a stale copy of `key` may exist. May err towards yes, never towards no. */
export const contains = ({ saturated, salt, k, m, bits }: Sketch, key: string): boolean => {
  if (saturated) return true;
  const [a, high] = siphash(salt, utf8(key));
  const b = (high | 1) >>> 0;
  for (let i = 0; i < k; i++) {
    const bit = (a + i * b + (i ** 3 - i) / 6) % m;
    if (!(((bits[bit >>> 3] as number) >> (bit & 7)) & 1)) return false;
  }
  return true;
};
