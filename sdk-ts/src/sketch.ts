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

/** Bytes that are not a sketch this version can read. */
export class SketchError extends Error {
  override name = 'SketchError';
}

/** Reads format version 1. Throws a {@link SketchError} on anything else. */
export function decodeSketch(bytes: Uint8Array): Sketch {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const check = (holds: boolean, what: string): void => {
    if (!holds) throw new SketchError(`Unreadable sketch: ${what}`);
  };
  check(bytes.length >= HEADER_BYTES, 'too short');
  const u32 = (at: number): number => view.getUint32(at, true);
  check(u32(0) === MAGIC, 'magic');
  check(view.getUint8(4) === 1, 'version');
  const k = view.getUint8(5);
  const flags = view.getUint16(6, true);
  const m = u32(8);
  check(flags < 2, 'flags'); // A delta (bit 1) is never asked for; other bits have no meaning yet.
  const saturated = flags === 1;
  check(u32(36) === 0, 'reserved');
  check(saturated || (k > 0 && k <= HASHES_MAX && m > 0), 'size');
  check(bytes.length === HEADER_BYTES + (saturated ? 0 : Math.ceil(m / 8)), 'length');
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
