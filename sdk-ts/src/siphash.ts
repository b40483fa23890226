/**
 * SipHash-2-4 (Aumasson and Bernstein, 2012), 64-bit output. A BigUint64Array wraps what is stored in it to 64 bits, so
 * it is exact and equal to the gateway's.
 */

/** The 128-bit key as four little-endian words. */
export type Salt = readonly [number, number, number, number];

/** The hash of `data` under `salt`, as its low and high 32 bits. */
export function siphash(salt: Salt, data: Uint8Array): readonly [low: number, high: number] {
  const key = new BigUint64Array(Uint32Array.from(salt).buffer);
  // "somepseudorandomlygeneratedbytes", the paper's constants
  const v = BigUint64Array.of(
    0x736f6d6570736575n,
    0x646f72616e646f6dn,
    0x6c7967656e657261n,
    0x7465646279746573n,
  ).map((word, i) => word ^ (key[i % 2] as bigint));
  const at = (i: number): bigint => v[i] as bigint;
  const rotated = (x: bigint, bits: bigint): bigint => (x << bits) | (x >> (64n - bits));
  const mix = (a: number, b: number, bits: bigint, turn: bigint): void => {
    v[a] = at(a) + at(b);
    v[b] = rotated(at(b), bits) ^ at(a);
    v[a] = rotated(at(a), turn);
  };
  const rounds = (count: number): void => {
    for (let i = 0; i < count; i++) {
      mix(0, 1, 13n, 32n);
      mix(2, 3, 16n, 0n);
      mix(0, 3, 21n, 0n);
      mix(2, 1, 17n, 32n);
    }
  };
  const padded = new Uint8Array((data.length & ~7) + 8);
  padded.set(data);
  padded[padded.length - 1] = data.length;
  for (const word of new BigUint64Array(padded.buffer)) {
    v[3] = at(3) ^ word;
    rounds(2);
    v[0] = at(0) ^ word;
  }
  v[2] = at(2) ^ 0xffn;
  rounds(4);
  v[0] = at(0) ^ at(1) ^ at(2) ^ at(3);
  const [low, high] = new Uint32Array(v.buffer);
  return [low as number, high as number];
}
