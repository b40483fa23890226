import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { filterText } from '../src/canonical/index.ts';
import { type JsonObject, toJson } from '../src/ejson.ts';
import { countAddress, queryAddress, recordKey } from '../src/key.ts';

const canonical = (filter: object): string | null => filterText(toJson(filter) as JsonObject);

const scalar = fc.oneof(
  fc.constant(null),
  fc.boolean(),
  fc.integer({ min: -5, max: 5 }),
  fc.double(),
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  fc.string({ unit: 'grapheme', maxLength: 4 }),
  fc.date({ noInvalidDate: true }),
  fc.constantFrom(
    /^a/i,
    { $oid: '656e656e656e656e656e656e' },
    { $numberDecimal: '1.50' },
    { $numberDecimal: '0.1' },
  ),
);
const name = fc.constantFrom('a', 'b', 'a.b', 'z', 'é', '😀', '\uffff');
const value: fc.Arbitrary<unknown> = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 2 },
    scalar,
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(name, tie('value'), { maxKeys: 3 }),
  ),
})).value;
const operators = fc
  .record(
    {
      $eq: value,
      $ne: scalar,
      $gt: scalar,
      $in: fc.array(value, { maxLength: 4 }),
      $nin: fc.array(scalar, { maxLength: 4 }),
      $exists: fc.boolean(),
      $type: fc.uniqueArray(fc.constantFrom('int', 'string', 2, 16, -1), { minLength: 1 }),
      $size: fc.nat(3),
      $regex: fc.constantFrom('^a', 'b$'),
    },
    { requiredKeys: [] },
  )
  .filter((o) => Object.keys(o).length > 0);
const filter: fc.Arbitrary<object> = fc.letrec<{ filter: Record<string, unknown> }>((tie) => ({
  filter: fc.oneof(
    { maxDepth: 2 },
    fc.dictionary(
      name,
      fc.oneof(
        value,
        operators,
        operators.map(($not) => ({ $not })),
      ),
      { maxKeys: 4 },
    ),
    fc.record(
      {
        a: value,
        $and: fc.array(tie('filter'), { minLength: 1, maxLength: 3 }),
        $or: fc.array(tie('filter'), { minLength: 1, maxLength: 3 }),
        $nor: fc.array(tie('filter'), { minLength: 1, maxLength: 3 }),
      },
      { requiredKeys: [] },
    ),
  ),
})).filter;

const LISTS = new Set(['$and', '$or', '$nor', '$in', '$nin', '$type']);

/** The filter with everything that has no order in another order: fields of filters and operator objects, lists. */
function shuffled(node: unknown, isFilter: boolean): unknown {
  if (Array.isArray(node)) return node.map((n) => shuffled(n, isFilter)).reverse();
  if (!isFilter || typeof node !== 'object' || node === null) return node;
  if (Object.getPrototypeOf(node) !== Object.prototype) return node;
  const operator = Object.keys(node).some((field) => field.startsWith('$'));
  const entries = Object.entries(node).map(([field, inner]): [string, unknown] => {
    if (field === '$and' || field === '$or' || field === '$nor' || field === '$not')
      return [field, shuffled(inner, true)];
    if (LISTS.has(field) && Array.isArray(inner)) return [field, [...inner].reverse()];
    const holdsOperators = Object.keys(inner ?? {})[0]?.startsWith('$') ?? false;
    return [field, !operator && holdsOperators && !Array.isArray(inner) ? shuffled(inner, true) : inner];
  });
  return Object.fromEntries(entries.reverse());
}

describe('laws', () => {
  test('idempotent: the canonical filter is its own canonical form', () => {
    fc.assert(
      fc.property(filter, (f) => {
        const once = canonical(f);
        fc.pre(once !== null);
        expect(canonical(JSON.parse(once as string))).toBe(once);
      }),
      { numRuns: 200 },
    );
  });

  test('what has no order may come in any order', () => {
    fc.assert(
      fc.property(filter, (f) => {
        expect(canonical(shuffled(f, true) as object)).toBe(canonical(f));
      }),
      { numRuns: 200 },
    );
  });

  test('a conjunction may be spread over $and, and doubled', () => {
    fc.assert(
      fc.property(filter, filter, (f, g) => {
        const both = canonical({ $and: [f, g] });
        expect(canonical({ $and: [g, { $and: [f] }, g] })).toBe(both);
      }),
    );
  });

  test('literal documents keep their order', () => {
    fc.assert(
      fc.property(scalar, scalar, (x, y) => {
        const [ab, ba] = [canonical({ d: { a: x, b: y } }), canonical({ d: { b: y, a: x } })];
        expect(ab).not.toBe(ba);
        expect(canonical({ d: [x, y, 'end'] })?.startsWith('{"d":[')).toBe(true);
      }),
    );
    expect(canonical({ d: { $eq: { b: 1, a: 2 } } })).toBe('{"d":{"b":1,"a":2}}');
    expect(canonical({ d: { $in: [{ b: 1, a: 2 }] } })).toBe('{"d":{"$in":[{"b":1,"a":2}]}}');
    expect(canonical({ d: [3, 1, 2] })).toBe('{"d":[3,1,2]}');
  });
});

test('deep nesting costs no more than its length', () => {
  let deep: object = { a: 1 };
  for (let i = 0; i < 90; i++) deep = { $or: [deep] };
  expect(canonical(deep)).toBe('{"a":1}');
});

describe('values from JavaScript', () => {
  test.each([
    [{ d: new Date(5) }, '{"d":{"$date":{"$numberLong":"5"}}}'],
    [{ d: new Date(-1) }, '{"d":{"$date":{"$numberLong":"-1"}}}'],
    [{ n: 5n }, '{"n":5}'],
    [{ n: 9_007_199_254_740_993n }, '{"n":{"$numberLong":"9007199254740993"}}'],
    [{ n: Number.NaN }, '{"n":{"$numberDouble":"NaN"}}'],
    [{ n: -0 }, '{"n":0}'],
    [{ s: /x/is }, '{"s":{"$options":"is","$regex":"x"}}'],
    [Object.assign(Object.create(null), { a: 1 }), '{"a":1}'],
    [
      { id: { toExtendedJSON: () => ({ $oid: '656E656E656E656E656E656E' }) } },
      '{"id":{"$oid":"656e656e656e656e656e656e"}}',
    ],
  ])('%o', (input, text) => {
    expect(canonical(input)).toBe(text);
  });

  test.each([
    ['undefined (M30)', { a: undefined }],
    ['undefined in a list (M30)', { a: { $in: [undefined] } }],
    ['undefined deep inside', { a: { b: [{ c: undefined }] } }],
    ['a hole', { a: new Array(3) }],
    ['a function', { a: () => 1 }],
    ['a symbol', { a: Symbol('x') }],
    ['a Map', { a: new Map([[1, 2]]) }],
    ['a class instance', { a: new (class Money {})() }],
    ['a regular expression with a flag MongoDB has not', { a: /x/g }],
    ['a lone surrogate', { a: '\ud800' }],
  ])('refused, never dropped: %s', (_, input) => {
    expect(() => toJson(input)).toThrow(TypeError);
  });

  test('refused: an invalid date', () => {
    expect(() => toJson({ a: new Date(Number.NaN) })).toThrow(RangeError);
  });

  test('the place is named', () => {
    expect(() => toJson({ a: { b: [1, undefined] } })).toThrow('/a/b/1');
  });

  test('names of prototypes are names', () => {
    const json = toJson(JSON.parse('{"__proto__":{"a":1},"constructor":2}')) as JsonObject;
    expect(Object.keys(json)).toEqual(['__proto__', 'constructor']);
    expect(
      filterText(JSON.parse('{"__proto__":1,"constructor":{"$gt":1},"hasOwnProperty":{"$in":[1]}}')),
    ).toBe('{"__proto__":1,"constructor":{"$gt":1},"hasOwnProperty":{"$in":[1]}}');
  });

  test('minus zero keeps its sign in documents', () => {
    expect(toJson({ a: -0 })).toEqual({ a: { $numberDouble: '-0.0' } });
  });
});

describe('filters without a key here', () => {
  const unkeyed: object[] = [
    { $text: { $search: 'x' } },
    { $expr: { $gt: ['$a', '$b'] } },
    { loc: { $near: [1, 2] } },
    { a: { $constructor: 1 } },
    { a: { toString: 1, $gt: 1 }, $where: '1' },
    { $or: [] },
    { $and: [1] },
    { a: { $in: 5 } },
    { a: { $in: [{ $gt: 1 }] } },
    { a: { $size: 1.5 } },
    { a: { $mod: [0, 1] } },
    { a: { $options: 'i' } },
    { a: { $regex: 5 } },
    { a: { $type: 'nothing' } },
    { a: { $type: 20 } },
    { a: { $type: [] } },
    { a: { $not: 5 } },
    { a: { $elemMatch: 5 } },
    { a: { $gt: 1, b: 2 } },
    { a: { $oid: 'xyz' } },
    { a: { $date: '2020-01-01' } },
    { a: { $date: '2020-02-31T99:00:00Z' } },
    { a: { $date: null } },
    { a: { $numberLong: '9223372036854775808' } },
    { a: { $numberDecimal: 'x' } },
    { a: { $numberDecimal: 'infinity' } },
    { a: { $numberDouble: 'infinity' } },
    { a: { $numberDouble: '0x10' } },
    { a: { $numberDouble: '' } },
    { a: { $numberDouble: '1e400' } },
    { a: { $numberDouble: '-1e400' } },
    { a: { $numberDecimal: '1E+7000' } },
    { a: { $binary: { base64: '*', subType: '00' } } },
    { a: { $timestamp: { t: -1, i: 0 } } },
  ];
  test.each(unkeyed)('%j', async (input) => {
    expect(canonical(input)).toBeNull();
    const address = await queryAddress('/v1/db/c', { filter: input });
    expect(address.keyed).toBe(false);
    expect(new URL(address.key, 'http://x').searchParams.get('filter')).toBe(JSON.stringify(input));
  });
});

describe('parameters', () => {
  test.each([
    [{}, '/v1/db/c'],
    [
      { filter: {}, limit: 100, skip: 0, view: 'objects', rep: 'relaxed', sort: '', fields: [] } as const,
      '/v1/db/c',
    ],
    [{ sort: ['b', '-a', '_id', 'c'], fields: ['b', '-_id', 'a'] }, '/v1/db/c?fields=-_id,a,b&sort=b,-a'],
    [{ sort: 'a,-_id,b', fields: '_id,b' }, '/v1/db/c?fields=b&sort=a,-_id'],
    [{ fields: 'b,a,a' }, '/v1/db/c?fields=a,a,b'],
    [{ fields: '_id,a,_id' }, '/v1/db/c?fields=_id,_id,a'],
    [{ fields: ['a', '_id', '-_id'] }, '/v1/db/c?fields=_id,-_id,a'],
    [{ after: 'o5', skip: 7 }, '/v1/db/c?after=o5'],
  ])('%o', async (query, key) => {
    expect(await queryAddress('/v1/db/c', query)).toEqual({ key, keyed: true });
  });

  test('the key is what a URL parser leaves alone, but for the apostrophe', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: 'grapheme', maxLength: 20 }), async (s) => {
        const { key } = await queryAddress('/v1/db/c', { filter: { a: s } });
        const { pathname, search } = new URL(key, 'http://x');
        expect(pathname + search.replaceAll('%27', "'")).toBe(key);
      }),
    );
  });

  test('counts and records', async () => {
    expect(await countAddress('/v1/db/c', { b: 1, a: 1 })).toEqual({
      key: '/v1/db/c/_count?filter=%7B%22a%22:1,%22b%22:1%7D',
      keyed: true,
    });
    expect(recordKey('/v1/db/c/x', { rep: 'canonical', fields: 'b,a' })).toBe(
      '/v1/db/c/x?fields=a,b&rep=canonical',
    );
  });
});
