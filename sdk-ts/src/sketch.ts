/**
 * The sketch as it comes over the wire: which keys may have a stale copy somewhere. Decides membership only;
 * how old a sketch may be is `decide.ts`. Whatever cannot be read exactly is an error, never an empty sketch: a
 * wrong "not in it" would be a stale answer.
 */
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
export function decodeSketch(bytes: Uint8Array): Sketch {
  // A header that is cut off reads as one of zeros, which is none.
  const header = new Uint8Array(HEADER_BYTES);
  header.set(bytes.subarray(0, HEADER_BYTES));
  const view = new DataView(header.buffer);
  const u32 = (at: number): number => view.getUint32(at, true);
  const u64 = (at: number): bigint => view.getBigUint64(at, true);
  const [version, k, flags] = [bytes[4], bytes[5] as number, view.getUint16(6, true)];
  const m = u32(8);
  const length = HEADER_BYTES + (flags ? 0 : Math.ceil(m / 8));
  // A delta (bit 1) is never asked for; other flags and the reserved field have no meaning yet.
  const known = u32(0) === MAGIC && version === 1 && flags < 2 && u32(36) === 0 && k <= HASHES_MAX;
  if (!known || bytes.length !== length || !(flags || k * m)) throw new TypeError('Not a sketch');
  return {
    saturated: flags === 1,
    k,
    m,
    ageMs: u32(12),
    epoch: u64(16),
    watermark: u64(24),
    invalidationMs: u32(32) === UNBOUNDED ? Infinity : u32(32),
    salt: [u32(40), u32(44), u32(48), u32(52)],
    bits: bytes.subarray(HEADER_BYTES),
  };
}

const encoder = new TextEncoder();

export const utf8 = (text: string): Uint8Array => encoder.encode(text);

/** Whether a stale copy of `key` may exist. May err towards yes, never towards no. */
export function contains({ saturated, salt, k, m, bits }: Sketch, key: string): boolean {
  if (saturated) return true;
  const [a, high] = siphash(salt, utf8(key));
  const b = (high | 1) >>> 0;
  for (let i = 0; i < k; i++) {
    const bit = (a + i * b + (i ** 3 - i) / 6) % m;
    if (!(((bits[bit >>> 3] as number) >> (bit & 7)) & 1)) return false;
  }
  return true;
}
