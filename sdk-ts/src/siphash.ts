/**
 * SipHash-2-4 (Aumasson and Bernstein, 2012) with 64-bit output, on 64-bit integers: equal to the gateway's.
 */

/** The 128-bit key as two little-endian words. */
export type Salt = readonly [k0: bigint, k1: bigint];

/** v[a] += v[b]; v[b] = rotl(v[b], bits) ^ v[a]. Storing wraps to 64 bits. */
function mix(v: BigUint64Array, a: number, b: number, bits: bigint): void {
  const [x, y] = [v[a] as bigint, v[b] as bigint];
  v[a] = x + y;
  v[b] = ((y << bits) | (y >> (64n - bits))) ^ (v[a] as bigint);
}

/** v[a] = rotl(v[a], 32). */
function swap(v: BigUint64Array, a: number): void {
  const x = v[a] as bigint;
  v[a] = (x << 32n) | (x >> 32n);
}

function rounds(v: BigUint64Array, count: number): void {
  for (let i = 0; i < count; i++) {
    mix(v, 0, 1, 13n);
    swap(v, 0);
    mix(v, 2, 3, 16n);
    mix(v, 0, 3, 21n);
    mix(v, 2, 1, 17n);
    swap(v, 2);
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
