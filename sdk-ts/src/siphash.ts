/**
 * SipHash-2-4 (Aumasson and Bernstein, 2012) with 64-bit output, on 64-bit integers: equal to the gateway's.
 */

/** The 128-bit key as two little-endian words. */
export type Salt = readonly [k0: bigint, k1: bigint];

const rotl = (x: bigint, bits: bigint): bigint => (x << bits) | (x >> (64n - bits));

/** One round: v[a] += v[b]; v[b] = rotl(v[b], bits) ^ v[a]; v[a] = rotl(v[a], turn). */
const ROUND = [
  [0, 1, 13n, 32n],
  [2, 3, 16n, 0n],
  [0, 3, 21n, 0n],
  [2, 1, 17n, 32n],
] as const;

/** The state is an array of 64-bit words, so that storing wraps. */
function rounds(v: BigUint64Array, count: number): void {
  for (; count--; ) {
    for (const [a, b, bits, turn] of ROUND) {
      v[a] = (v[a] as bigint) + (v[b] as bigint);
      v[b] = rotl(v[b] as bigint, bits) ^ (v[a] as bigint);
      v[a] = rotl(v[a] as bigint, turn);
    }
  }
}

/** The hash of `data` under `salt`. */
export function siphash([k0, k1]: Salt, data: Uint8Array): bigint {
  // "somepseudorandomlygeneratedbytes", the paper's constants
  const v = BigUint64Array.of(
    k0 ^ 0x736f6d6570736575n,
    k1 ^ 0x646f72616e646f6dn,
    k0 ^ 0x6c7967656e657261n,
    k1 ^ 0x7465646279746573n,
  );
  const padded = new Uint8Array((data.length & ~7) + 8);
  padded.set(data);
  padded[padded.length - 1] = data.length;
  const view = new DataView(padded.buffer);
  for (let at = 0; at < padded.length; at += 8) {
    const word = view.getBigUint64(at, true);
    v[3] = (v[3] as bigint) ^ word;
    rounds(v, 2);
    v[0] = (v[0] as bigint) ^ word;
  }
  v[2] = (v[2] as bigint) ^ 0xffn;
  rounds(v, 4);
  return v.reduce((hash, part) => hash ^ part);
}
