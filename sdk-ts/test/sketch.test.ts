import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { contains, decodeSketch } from '../src/sketch.ts';
import { encodeSketch } from './support/sketch.ts';

describe('decoding', () => {
  test('reads every field of the header', () => {
    const sketch = decodeSketch(
      encodeSketch({
        k: 7,
        m: 12_345,
        ageMs: 4_000_000_000,
        epoch: 2n ** 64n - 1n,
        watermark: 7_459_612_345_678_901_233n,
        invalidationMs: 1_500,
        salt: [0xffff_ffff, 0, 1, 0x8000_0000],
      }),
    );
    expect(sketch).toMatchObject({
      saturated: false,
      k: 7,
      m: 12_345,
      ageMs: 4_000_000_000,
      epoch: 2n ** 64n - 1n,
      watermark: 7_459_612_345_678_901_233n, // beyond 2^53: read exactly
      invalidationMs: 1_500,
      salt: [0xffff_ffff, 0, 1, 0x8000_0000],
    });
    expect(sketch.bits.length).toBe(Math.ceil(12_345 / 8));
  });

  test('C9: an invalidation bound of 2^32 − 1 is none', () => {
    expect(decodeSketch(encodeSketch({ invalidationMs: Infinity })).invalidationMs).toBe(Infinity);
  });

  test('reads a view into a larger buffer', () => {
    const bytes = encodeSketch({ keys: ['/v1/db/c/1'], watermark: 9n });
    const larger = new Uint8Array(bytes.length + 20);
    larger.set(bytes, 11);
    const sketch = decodeSketch(larger.subarray(11, 11 + bytes.length));
    expect(sketch.watermark).toBe(9n);
    expect(contains(sketch, '/v1/db/c/1')).toBe(true);
  });
});

describe('bytes that are no sketch are an error, never an empty sketch', () => {
  const good = encodeSketch({ keys: ['a'], m: 80 });
  const changed = (at: number, byte: number): Uint8Array => {
    const bytes = good.slice();
    bytes[at] = byte;
    return bytes;
  };
  test.each([
    ['nothing', new Uint8Array()],
    ['a header cut off', good.subarray(0, 55)],
    ['bits cut off', good.subarray(0, good.length - 1)],
    ['a byte too many', Uint8Array.of(...good, 0)],
    ['another magic', changed(0, 0x47)],
    ['another version', changed(4, 2)],
    ['no hash functions', changed(5, 0)],
    ['too many hash functions', changed(5, 17)],
    ['a delta', changed(6, 2)],
    ['a saturated delta', changed(6, 3)],
    ['an unknown flag', changed(7, 1)],
    ['a size that does not fit', changed(8, 90)],
    ['a reserved field in use', changed(36, 1)],
    ['saturated, with bits', changed(6, 1)],
    ['an error page', new TextEncoder().encode('<!doctype html>'.repeat(20))],
  ])('%s', (_, bytes) => {
    expect(() => decodeSketch(bytes)).toThrow(TypeError);
  });

  test('no bits at all', () => {
    expect(() => decodeSketch(encodeSketch({ m: 0 }))).toThrow(TypeError);
  });

  test('arbitrary bytes never decode to something else than a sketch of that length', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 120 }), (tail) => {
        const bytes = Uint8Array.of(0x46, 0x45, 0x42, 0x46, 1, ...tail);
        try {
          const sketch = decodeSketch(bytes);
          expect(bytes.length).toBe(56 + (sketch.saturated ? 0 : Math.ceil(sketch.m / 8)));
        } catch (error) {
          expect(error).toBeInstanceOf(TypeError);
        }
      }),
    );
  });
});

describe('membership', () => {
  test('has every key that was put in', () => {
    fc.assert(
      fc.property(
        fc.array(fc.string({ unit: 'grapheme', maxLength: 60 }), { maxLength: 30 }),
        fc.integer({ min: 1, max: 16 }),
        fc.integer({ min: 1, max: 5_000 }),
        (keys, k, m) => {
          const sketch = decodeSketch(encodeSketch({ keys, k, m }));
          for (const key of keys) expect(contains(sketch, key)).toBe(true);
        },
      ),
    );
  });

  test('false positives stay near the design: 6 % at 20,000 keys in the default size', () => {
    const keys = Array.from({ length: 20_000 }, (_, i) => `/v1/shop/articles/${i}`);
    const sketch = decodeSketch(encodeSketch({ keys, k: 4, m: 116_800 }));
    const others = Array.from({ length: 20_000 }, (_, i) => `/v1/shop/articles/${i + 20_000}`);
    const rate = others.filter((key) => contains(sketch, key)).length / others.length;
    expect(rate).toBeGreaterThan(0.04);
    expect(rate).toBeLessThan(0.08);
  });

  test('C8: a saturated sketch has everything', () => {
    const sketch = decodeSketch(encodeSketch({ saturated: true }));
    expect(contains(sketch, '/v1/db/c/anything')).toBe(true);
  });

  test('an empty sketch has nothing', () => {
    expect(contains(decodeSketch(encodeSketch()), '/v1/db/c/1')).toBe(false);
  });

  test('keys are hashed as UTF-8', () => {
    const sketch = decodeSketch(encodeSketch({ keys: ['/v1/db/c/ü€😀'], m: 100_003 }));
    expect(contains(sketch, '/v1/db/c/ü€😀')).toBe(true);
    expect(contains(sketch, '/v1/db/c/u')).toBe(false);
  });
});
