import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { idText } from '../src/canonical/index.ts';
import { countAddress, type Query, queryAddress, recordAddress, recordKey, segment } from '../src/key.ts';

interface Vectors {
  readonly vectors: readonly {
    readonly name: string;
    readonly path?: string;
    readonly params: { readonly [name: string]: string };
    readonly key: string;
  }[];
  readonly ids: readonly { readonly id: unknown; readonly segment: string }[];
}

/** The path segment of an id, which has a key. */
async function idSegment(id: unknown): Promise<string> {
  const { key, keyed } = await recordAddress('', id);
  expect(keyed).toBe(true);
  return key.slice(1);
}

/** The file that gateway and SDK share. */
const { vectors, ids } = JSON.parse(
  readFileSync(new URL('../../core/tests/vectors/keys.json', import.meta.url), 'utf8'),
) as Vectors;

/** Cursors are the gateway's own text, which the SDK passes on as it came: other spellings never come. */
const isRespelledCursor = (after: string | undefined, key: string): boolean =>
  after !== undefined && new URL(key, 'http://x').searchParams.get('after') !== after;

/** The id that a segment, not percent-encoded, names (protocol: "Ids"). */
function idOf(segment: string): unknown {
  if (segment === '~-0.0') return -0;
  if (segment[0] === '~') return JSON.parse(segment.slice(1));
  return /^[\da-f]{24}$/i.test(segment) ? { $oid: segment } : segment;
}

/** JSON.parse would round integers beyond 2^53; an application writes them as bigint. */
function parse(json: string): object {
  const wrapped = json.replace(/(?<=[:[,]\s*)-?\d{16,19}(?=\s*[,\]}])/g, (digits) =>
    !Number.isSafeInteger(Number(digits)) && BigInt.asIntN(64, BigInt(digits)) === BigInt(digits)
      ? `{"$numberLong":"${digits}"}`
      : digits,
  );
  return JSON.parse(wrapped);
}

async function keyOf(path: string, params: { readonly [name: string]: string }): Promise<string | null> {
  const { filter, skip, limit, ...others } = params;
  const json = filter === undefined ? {} : { filter: parse(filter) };
  if (path.endsWith('/_count')) {
    const { key, keyed } = await countAddress(path.slice(0, -'/_count'.length), json.filter);
    return keyed ? key : null;
  }
  const [, , db, collection, ...rest] = path.split('/');
  if (rest.length > 0) {
    const id = idOf(rest.join('/'));
    return recordKey(`/v1/${db}/${collection}/${await idSegment(id)}`, others);
  }
  const numbers = { ...(skip && { skip: Number(skip) }), ...(limit && { limit: Number(limit) }) };
  const { key, keyed } = await queryAddress(path.split('/').map(segment).join('/'), {
    ...others,
    ...numbers,
    ...json,
  } as Query);
  return keyed ? key : null;
}

/** JSON.parse moves integer-like names to the front, so such documents cannot be spelled in JavaScript. */
const isReordered = (json: string): boolean =>
  JSON.stringify(JSON.parse(json)) !== json.replace(/\s/g, '') && /"\d+":/.test(json);

test('keys', async () => {
  expect(vectors.length).toBeGreaterThanOrEqual(80);
  const wrong: unknown[] = [];
  for (const { name, path = '/v1/db/c', params, key } of vectors) {
    if (params.filter !== undefined && isReordered(params.filter)) continue;
    if (isRespelledCursor(params.after, key)) continue;
    const got = await keyOf(path, params);
    if (got !== key) wrong.push({ name, params, got, key });
  }
  expect(wrong).toEqual([]);
});

test('ids', async () => {
  expect(ids.length).toBeGreaterThan(15);
  const wrong: unknown[] = [];
  for (const { id, segment } of ids) {
    const got = await idSegment(id);
    if (got !== segment) wrong.push({ id, got, segment });
  }
  expect(wrong).toEqual([]);
});

test('ids that are no values are refused', async () => {
  await expect(idSegment({ $oid: 'xyz' })).rejects.toThrow(TypeError);
  await expect(idSegment(undefined)).rejects.toThrow(TypeError);
  expect(idText({ $numberLong: 'many' })).toBeNull();
});

test('only an id that is an ObjectId has its digits as its segment', async () => {
  const $oid = '656e656e656e656e656e656e';
  expect(await idSegment({ $oid })).toBe($oid);
  expect(await idSegment([{ $oid }])).toBe(
    `~${encodeURIComponent(`[{"$oid":"${$oid}"}]`).replaceAll(/%24|%3A/g, decodeURIComponent)}`,
  );
  expect(await idSegment({ $oid, b: 'c' })).toMatch(/^~/);
  expect(await idSegment({ a: { $oid } })).toMatch(/^~/);
});

test('a decimal within a document has no text as an id', () => {
  for (const id of [
    { a: { $numberDecimal: '1.5' } },
    [{ $numberDecimal: '1.5' }],
    { $numberDecimal: '1.5', a: 'b' },
  ]) {
    expect(idText(id)).toBeNull();
  }
});

test('a decimal beyond all doubles is an id of its own', () => {
  expect(idText({ $numberDecimal: '1E401' })).toBe('{"$numberDecimal":"1E+401"}');
});
