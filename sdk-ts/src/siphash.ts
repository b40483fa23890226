/**
 * SipHash-2-4 (Aumasson and Bernstein, 2012), 64-bit output. A BigUint64Array wraps what is stored in it to 64 bits, so
 * it is exact and equal to the gateway's.
 */
import { utf8, words } from './bytes.ts';

/** The 128-bit key as four little-endian words. */
export type Salt = readonly [number, number, number, number];

/** One of the four words of the state. */
type Lane = 0 | 1 | 2 | 3;

/** "somepseudorandomlygeneratedbytes", the paper's constants, as little-endian words. */
const START = words(utf8('uespemosmodnarodarenegylsetybdet'), 32);

/** The hash of `data` under `salt`, as its low and high 32 bits. */
export const siphash = (salt: Salt, data: Uint8Array): readonly [low: number, high: number] => {
  const key = new BigUint64Array(Uint32Array.from(salt).buffer);
  const state = START.map((word, i) => word ^ (key[i % 2] as bigint));
  const v = state as unknown as Record<Lane, bigint>;
  const rotated = (word: bigint, bits: bigint): bigint => (word << bits) | (word >> (64n - bits));
  const mix = (a: Lane, b: Lane, bits: bigint, turn: bigint): void => {
    v[a] += v[b];
    v[b] = rotated(v[b], bits) ^ v[a];
    v[a] = rotated(v[a], turn);
  };
  const rounds = (count: number): void => {
    for (; count; count--) {
      mix(0, 1, 13n, 32n);
      mix(2, 3, 16n, 0n);
      mix(0, 3, 21n, 0n);
      mix(2, 1, 17n, 32n);
    }
  };
  const { length } = data;
  const message = words(data, (length & ~7) + 8);
  new Uint8Array(message.buffer)[message.byteLength - 1] = length;
  for (const word of message) {
    v[3] ^= word;
    rounds(2);
    v[0] ^= word;
  }
  v[2] ^= 0xffn;
  rounds(4);
  v[0] ^= v[1] ^ v[2] ^ v[3];
  const [low, high] = new Uint32Array(state.buffer);
  return [low as number, high as number];
};
