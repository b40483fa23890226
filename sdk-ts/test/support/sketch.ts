/** Writes sketches in the protocol's format, from its description and not from the decoder. */
import { siphash } from '../../src/siphash.ts';

export interface Spec {
  keys?: readonly string[];
  k?: number;
  m?: number;
  saturated?: boolean;
  ageMs?: number;
  epoch?: bigint;
  watermark?: bigint;
  invalidationMs?: number;
  salt?: readonly [number, number, number, number];
}

export function encodeSketch(spec: Spec = {}): Uint8Array<ArrayBuffer> {
  const { keys = [], k = 4, m = 8_000, saturated = false, ageMs = 0, epoch = 1n, watermark = 0n } = spec;
  const { invalidationMs = 0, salt = [1, 2, 3, 4] } = spec;
  const bytes = new Uint8Array(56 + (saturated ? 0 : Math.ceil(m / 8)));
  const view = new DataView(bytes.buffer);
  bytes.set(new TextEncoder().encode('FEBF'));
  bytes[4] = 1;
  bytes[5] = k;
  view.setUint16(6, saturated ? 1 : 0, true);
  view.setUint32(8, m, true);
  view.setUint32(12, ageMs, true);
  view.setBigUint64(16, epoch, true);
  view.setBigUint64(24, watermark, true);
  view.setUint32(32, invalidationMs === Infinity ? 0xffff_ffff : invalidationMs, true);
  salt.forEach((word, i) => {
    view.setUint32(40 + 4 * i, word, true);
  });
  for (const key of saturated ? [] : keys) {
    const [low, high] = siphash(salt, new TextEncoder().encode(key)).map(BigInt) as [bigint, bigint];
    for (let i = 0n; i < BigInt(k); i++) {
      const bit = Number((low + i * (high | 1n) + (i ** 3n - i) / 6n) % BigInt(m));
      bytes[56 + (bit >> 3)] = (bytes[56 + (bit >> 3)] as number) | (1 << (bit & 7));
    }
  }
  return bytes;
}
