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
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const u32 = (at: number): number => (bytes.length < HEADER_BYTES ? 0 : view.getUint32(at, true));
  const k = bytes[5] as number;
  const m = u32(8);
  const flags = u32(6) & 0xffff;
  const saturated = flags === 1;
  const sized = saturated
    ? bytes.length === HEADER_BYTES
    : k * m > 0 && bytes.length === HEADER_BYTES + Math.ceil(m / 8);
  // A delta (bit 1) is never asked for; other flags and the reserved field have no meaning yet.
  if (u32(0) !== MAGIC || bytes[4] !== 1 || flags > 1 || u32(36) !== 0 || k > HASHES_MAX || !sized) {
    throw new TypeError('Not a sketch that can be read');
  }
  return {
    saturated,
    k,
    m,
    ageMs: u32(12),
    epoch: view.getBigUint64(16, true),
    watermark: view.getBigUint64(24, true),
    invalidationMs: u32(32) === UNBOUNDED ? Infinity : u32(32),
    salt: [u32(40), u32(44), u32(48), u32(52)],
    bits: bytes.subarray(HEADER_BYTES),
  };
}

const utf8 = new TextEncoder();

/** Whether a stale copy of `key` may exist. May err towards yes, never towards no. */
export function contains(sketch: Sketch, key: string): boolean {
  if (sketch.saturated) return true;
  const [a, high] = siphash(sketch.salt, utf8.encode(key));
  const b = (high | 1) >>> 0;
  for (let i = 0; i < sketch.k; i++) {
    const bit = (a + i * b + (i ** 3 - i) / 6) % sketch.m;
    if ((((sketch.bits[bit >>> 3] as number) >> (bit & 7)) & 1) === 0) return false;
  }
  return true;
}
