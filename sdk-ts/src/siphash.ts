/**
 * SipHash-2-4 (Aumasson and Bernstein, 2012), 64-bit output, on 32-bit halves: only additions, rotations and
 * exclusive ors, so it is exact in JavaScript without BigInt and equal to the gateway's.
 */

/** The 128-bit key as four little-endian words. */
export type Salt = readonly [number, number, number, number];

/** Eight halves: v0 low, v0 high, v1 low, … Storing wraps each to 32 bits. */
type State = Uint32Array;

/** v[a] += v[b]; v[b] = rotl(v[b], bits) ^ v[a]. */
function mix(v: State, a: number, b: number, bits: number): void {
  const low = (v[a] as number) + (v[b] as number);
  v[a] = low;
  v[a + 1] = (v[a + 1] as number) + (v[b + 1] as number) + (low > 0xffff_ffff ? 1 : 0);
  const [bl, bh] = [v[b] as number, v[b + 1] as number];
  v[b] = ((bl << bits) | (bh >>> (32 - bits))) ^ (v[a] as number);
  v[b + 1] = ((bh << bits) | (bl >>> (32 - bits))) ^ (v[a + 1] as number);
}

/** v[a] = rotl(v[a], 32). */
function swap(v: State, a: number): void {
  [v[a], v[a + 1]] = [v[a + 1] as number, v[a] as number];
}

function rounds(v: State, count: number): void {
  for (let i = 0; i < count; i++) {
    mix(v, 0, 2, 13);
    swap(v, 0);
    mix(v, 4, 6, 16);
    mix(v, 0, 6, 21);
    mix(v, 4, 2, 17);
    swap(v, 4);
  }
}

/** The hash of `data` under `salt`, as its low and high 32 bits. */
export function siphash(salt: Salt, data: Uint8Array): readonly [low: number, high: number] {
  const [k0l, k0h, k1l, k1h] = salt;
  const v = Uint32Array.of(
    k0l ^ 0x70736575, // "somepseudorandomlygeneratedbytes", the paper's constants
    k0h ^ 0x736f6d65,
    k1l ^ 0x6e646f6d,
    k1h ^ 0x646f7261,
    k0l ^ 0x6e657261,
    k0h ^ 0x6c796765,
    k1l ^ 0x79746573,
    k1h ^ 0x74656462,
  );
  const padded = new Uint8Array((data.length & ~7) + 8);
  padded.set(data);
  padded[padded.length - 1] = data.length;
  const view = new DataView(padded.buffer);
  for (let at = 0; at < padded.length; at += 8) {
    const [low, high] = [view.getUint32(at, true), view.getUint32(at + 4, true)];
    v[6] = (v[6] as number) ^ low;
    v[7] = (v[7] as number) ^ high;
    rounds(v, 2);
    v[0] = (v[0] as number) ^ low;
    v[1] = (v[1] as number) ^ high;
  }
  v[4] = (v[4] as number) ^ 0xff;
  rounds(v, 4);
  const fold = (i: number): number =>
    ((v[i] as number) ^ (v[i + 2] as number) ^ (v[i + 4] as number) ^ (v[i + 6] as number)) >>> 0;
  return [fold(0), fold(1)];
}
