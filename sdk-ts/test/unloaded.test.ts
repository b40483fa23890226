/** Where the canonical form, a module of its own, cannot be loaded. */
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { type Collection, connect, FreshetError } from '../src/index.ts';
import { Gateway } from './support/gateway.ts';

vi.mock('../src/canonical/index.ts', () => {
  throw Error('no such file');
});

const LONG = 2n ** 60n;
const LONG_PATH = '/v1/db/c/~%7B%22$numberLong%22:%221152921504606846976%22%7D';

let gateway: Gateway;
let c: Collection;

beforeAll(async () => {
  gateway = await Gateway.start();
  gateway.set('1', { a: 1 });
  const db = connect(gateway.url, { database: 'db' });
  await db.refresh();
  c = db.collection('c');
});
afterAll(() => gateway.stop());

test('queries and counts without a filter, and plain ids, need it not', async () => {
  expect((await c.find()).meta).toMatchObject({ mode: 'default', reason: 'fresh' });
  expect((await c.count()).meta.reason).toBe('fresh');
  expect((await c.get('1', { fields: 'a' })).meta.reason).toBe('fresh');
  expect(await c.get({ $oid: '656E656E656E656E656E656E' })).toMatchObject({
    item: null,
    meta: { key: '/v1/db/c/656e656e656e656e656e656e', reason: 'fresh' },
  });
  expect((await c.get(-7)).meta.key).toBe('/v1/db/c/~-7');
});

test('filters go past every cache as they were written', async () => {
  gateway.drain();
  const { items, meta } = await c.find({ filter: { b: 1, a: 1 } });
  expect(items).toEqual([{ _id: '1', a: 1 }]);
  expect(meta).toMatchObject({ mode: 'reload', reason: 'no-key' });
  expect((await c.count({ b: 1, a: 1 })).meta).toMatchObject({ mode: 'reload', reason: 'no-key' });
  const filter = 'filter=%7B%22b%22:1,%22a%22:1%7D';
  expect(gateway.drain()).toEqual([`GET /v1/db/c?${filter}`, `GET /v1/db/c/_count?${filter}`]);
});

test('records of unusual ids go past every cache under the id as it was written', async () => {
  gateway.drain();
  expect((await c.get(LONG)).meta).toMatchObject({ mode: 'reload', reason: 'no-key' });
  expect(gateway.drain()).toEqual([`GET ${LONG_PATH}`]);
});

test('records of unusual ids are not written: no read could be held to the write', async () => {
  gateway.drain();
  for (const attempt of [
    () => c.put(LONG, { a: 1 }),
    () => c.delete(LONG),
    () => c.insert({ _id: LONG }),
    () => c.insert([{ _id: 'x' }, { _id: null }]),
  ]) {
    await expect(attempt()).rejects.toThrow(FreshetError);
  }
  expect(gateway.drain()).toEqual([]);
  await c.insert([{ _id: 'x' }, { _id: 'y' }]);
  await c.put('x', { a: 2 });
  expect(gateway.drain()).toEqual(['POST /v1/db/c', 'PUT /v1/db/c/x']);
});
