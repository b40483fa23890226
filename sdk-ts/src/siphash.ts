/**
 * SipHash-2-4 (Aumasson and Bernstein, 2012), 64-bit output, on 32-bit halves: only additions, rotations and
 * exclusive ors, so it is exact in JavaScript without BigInt, which would take ten times as long, and equal to the gateway's.
 */
import { padded, utf8 } from './bytes.ts';

/** The 128-bit key as four little-endian words. */
export type Salt = readonly [number, number, number, number];

/** One half of the state: v0 low, v0 high, v1 low, … */
type Half = 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7;

/** "somepseudorandomlygeneratedbytes", the paper's constants, as little-endian halves. */
const START = new Uint32Array(padded(utf8('uespemosmodnarodarenegylsetybdet'), 32));

/** The hash of `data` under `salt`, as its low and high 32 bits. */
export const siphash = (salt: Salt, data: Uint8Array): readonly [low: number, high: number] => {
  // Storing wraps each half to 32 bits.
  const v = START.map((half, i) => half ^ (salt[i % 4] as number)) as unknown as Record<Half, number>;
  /** v[a] += v[b]; v[b] = rotl(v[b], bits) ^ v[a]. */
  const mix = (a: Half, b: Half, bits: number): void => {
    const sum = v[a] + v[b];
    v[a] = sum;
    v[(a + 1) as Half] += v[(b + 1) as Half] + +(sum > 0xffff_ffff);
    const [low, high] = [v[b], v[(b + 1) as Half]];
    v[b] = ((low << bits) | (high >>> (32 - bits))) ^ v[a];
    v[(b + 1) as Half] = ((high << bits) | (low >>> (32 - bits))) ^ v[(a + 1) as Half];
  };
  /** v[a] = rotl(v[a], 32). */
  const swap = (a: Half): void => {
    [v[a], v[(a + 1) as Half]] = [v[(a + 1) as Half], v[a]];
  };
  const rounds = (count: number): void => {
    for (; count; count--) {
      mix(0, 2, 13);
      swap(0);
      mix(4, 6, 16);
      mix(0, 6, 21);
      mix(4, 2, 17);
      swap(4);
    }
  };
  const { length } = data;
  const message = padded(data, (length & ~7) + 8);
  new Uint8Array(message)[message.byteLength - 1] = length;
  const words = new Uint32Array(message);
  for (let i = 0; i < words.length; i += 2) {
    const [low, high] = [words[i], words[i + 1]] as [number, number];
    v[6] ^= low;
    v[7] ^= high;
    rounds(2);
    v[0] ^= low;
    v[1] ^= high;
  }
  v[4] ^= 0xff;
  rounds(4);
  const fold = (i: 0 | 1): number =>
    (v[i] ^ v[(i + 2) as Half] ^ v[(i + 4) as Half] ^ v[(i + 6) as Half]) >>> 0;
  return [fold(0), fold(1)];
};
