import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { connect, type Database, FreshetError, type Options } from '../src/index.ts';
import { Gateway, type Said } from './support/gateway.ts';

let gateway: Gateway;
let now: number;
/** Cache modes of the requests for data. */
let modes: string[];

beforeEach(async () => {
  gateway = await Gateway.start();
  gateway.set('1', { a: 1 });
  now = 0;
  modes = [];
});
afterEach(() => gateway.stop());

function open(options: Partial<Options> = {}): Database {
  return connect(`${gateway.url}/`, {
    database: 'db',
    clock: () => now,
    random: () => 0,
    fetch: (url, init) => {
      if (!url.endsWith('/_sketch') && init.method === undefined) modes.push(init.cache as string);
      return fetch(url, init);
    },
    ...options,
  });
}

async function ready(options: Partial<Options> = {}): Promise<Database> {
  const db = open(options);
  await db.refresh();
  return db;
}

/** A cache before the gateway: holds one answer, and hands it out unless the mode goes past it. */
function edge(url: string, said: Said): void {
  gateway.caches.set(url, () => (modes.at(-1) === 'reload' ? undefined : said));
}

describe('reads', () => {
  test('C7: without a sketch at the origin, with one through caches', async () => {
    const db = open();
    const c = db.collection('c');
    expect((await c.get('1')).meta).toMatchObject({ mode: 'reload', reason: 'no-sketch', key: '/v1/db/c/1' });
    await db.refresh();
    const { item, meta } = await c.get('1');
    expect(item).toEqual({ _id: '1', a: 1 });
    expect(meta).toMatchObject({ mode: 'default', reason: 'fresh', position: 101n, from: 'network' });
    expect(meta.etag).toMatch(/^W\/"/);
    expect(modes).toEqual(['reload', 'default']);
  });

  test('a read asks with no header of its own and no credentials', async () => {
    const inits: RequestInit[] = [];
    const db = open({
      fetch: (url, init) => {
        inits.push(init);
        return fetch(url, init);
      },
    });
    await db.collection('c').get('1');
    await db.collection('c').find({ filter: { a: 1 } });
    for (const { headers, credentials } of inits) {
      expect(headers).toBeUndefined();
      expect(credentials).toBe('omit');
    }
    expect(gateway.drain()).toEqual(['GET /v1/db/c/1', 'GET /v1/db/c?filter=%7B%22a%22:1%7D']);
  });

  test('queries, counts, pages', async () => {
    const c = (await ready()).collection('c');
    gateway.caches.set('/v1/db/c?limit=1', () => ({ body: { items: [{ _id: '1' }], next: 'o1' } }));
    expect(await c.find({ limit: 1 })).toMatchObject({ items: [{ _id: '1' }], next: 'o1' });
    const all = await c.find();
    expect(all.items).toEqual([{ _id: '1', a: 1 }]);
    expect('next' in all).toBe(false);
    expect(await c.count({ a: 1 })).toMatchObject({
      count: 1,
      meta: { key: '/v1/db/c/_count?filter=%7B%22a%22:1%7D' },
    });
    expect(gateway.drain().length).toBe(3);
  });

  test('a record that does not exist is null', async () => {
    const c = (await ready()).collection('c');
    expect(await c.get('none')).toMatchObject({ item: null, meta: { position: null } });
  });

  test('C9, C10: a key in the sketch is revalidated once, then fresh until the next sketch', async () => {
    gateway.sketch = { keys: ['/v1/db/c/1'] };
    const db = await ready();
    const c = db.collection('c');
    for (let i = 0; i < 5; i++) await c.get('1');
    expect(modes).toEqual(['no-cache', 'default', 'default', 'default', 'default']);
    await db.refresh();
    await c.get('1');
    expect(modes.at(-1)).toBe('no-cache');
  });

  test('C10: what was asked for before the new sketch does not count under it', async () => {
    gateway.sketch = { keys: ['/v1/db/c/1'] };
    const db = await ready();
    const c = db.collection('c');
    let answer = (): void => {};
    gateway.gate = new Promise((resolve) => {
      answer = resolve;
    });
    const late = c.get('1');
    await db.refresh();
    answer();
    await late;
    expect((await c.get('1')).meta.reason).toBe('in-sketch');
  });

  test('C8: a saturated sketch revalidates everything at the edge, at the origin while purges have no bound', async () => {
    gateway.sketch = { saturated: true };
    const db = await ready();
    expect((await db.collection('c').get('1')).meta).toMatchObject({ mode: 'no-cache', reason: 'saturated' });
    gateway.sketch = { saturated: true, invalidationMs: Infinity };
    await db.refresh();
    expect((await db.collection('c').get('1')).meta).toMatchObject({
      mode: 'reload',
      reason: 'edge-too-slow',
    });
  });

  test('a linearizable read goes to the origin and shares no request', async () => {
    const c = (await ready()).collection('c');
    await Promise.all([c.get('1', { linearizable: true }), c.get('1', { linearizable: true })]);
    expect(modes).toEqual(['reload', 'reload']);
  });

  test('reads of one key share a request on its way', async () => {
    const c = (await ready()).collection('c');
    const answers = await Promise.all([c.get('1'), c.get('1'), c.get('1')]);
    expect(gateway.drain()).toEqual(['GET /v1/db/c/1']);
    // … and not the objects in it.
    expect(answers[0]?.item).toEqual(answers[1]?.item);
    expect(answers[0]?.item).not.toBe(answers[1]?.item);
  });

  test('with Δ = 0 no request is shared, and no sketch asked for', async () => {
    const c = open({ staleness: 0 }).collection('c');
    await Promise.all([c.get('1'), c.get('1')]);
    expect(modes).toEqual(['reload', 'reload']);
    expect(gateway.sketches()).toBe(0);
  });

  test('a request on its way for Δ or longer is not joined', async () => {
    gateway.sketchStatus = 503;
    const c = open({ staleness: 1 }).collection('c');
    let answer = (): void => {};
    gateway.gate = new Promise((resolve) => {
      answer = resolve;
    });
    const reads = [c.get('1')];
    await expect.poll(() => modes.length).toBe(1);
    now = 999;
    reads.push(c.get('1'));
    now = 1_000;
    reads.push(c.get('1'));
    await expect.poll(() => modes.length).toBe(2);
    answer();
    await Promise.all(reads);
    expect(modes).toEqual(['reload', 'reload']);
  });

  test('an unkeyed filter goes past every cache as it was written', async () => {
    const c = (await ready()).collection('c');
    const { meta } = await c.find({ filter: { $text: { $search: 'x' } } });
    expect(meta).toMatchObject({ mode: 'reload', reason: 'no-key' });
  });

  test('M30: undefined in a filter is an error and no request', async () => {
    const c = (await ready()).collection('c');
    gateway.drain();
    await expect(c.find({ filter: { a: undefined } })).rejects.toThrow(TypeError);
    await expect(c.count({ a: { $in: [undefined] } })).rejects.toThrow(TypeError);
    expect(gateway.drain()).toEqual([]);
  });
});

describe('the sketch', () => {
  test('C6: its age grows with the time since it was asked for', async () => {
    gateway.sketch = { ageMs: 9_000 };
    const c = (await ready({ staleness: 10 })).collection('c');
    gateway.sketchStatus = 503;
    now = 999;
    expect((await c.get('1')).meta.reason).toBe('fresh');
    now = 1_000;
    expect((await c.get('1')).meta).toMatchObject({ mode: 'reload', reason: 'sketch-too-old' });
  });

  test("C10: a new one is fetched at 0.8 Δ', once, while reads go on with the old one", async () => {
    const c = (await ready({ staleness: 10 })).collection('c');
    now = 7_999;
    await c.get('1');
    expect(gateway.sketches()).toBe(1);
    now = 8_000;
    const reads = await Promise.all([c.get('1'), c.count(), c.find()]);
    expect(reads.map(({ meta }) => meta.mode)).toEqual(['default', 'default', 'default']);
    await expect.poll(() => gateway.sketches()).toBe(2);
  });

  test('D9: while it fails, reads are revalidated at the origin, and attempts become rare', async () => {
    gateway.sketchStatus = 503;
    const c = open({ staleness: 10 }).collection('c');
    let attempts = 0;
    for (now = 0; now < 60_000; now += 100) {
      expect((await c.get('1')).meta.mode).toBe('reload');
      attempts = gateway.sketches();
    }
    expect(attempts).toBeGreaterThan(3);
    expect(attempts).toBeLessThan(12);
    gateway.sketchStatus = 200;
    now += 30_000;
    await c.get('1');
    await expect.poll(async () => (await c.get('1')).meta.mode).toBe('default');
  });

  test('bytes that are no sketch are a failure', async () => {
    gateway.sketch = { m: 0 };
    const db = open();
    await expect(db.refresh()).rejects.toThrow(FreshetError);
    expect((await db.collection('c').get('1')).meta.reason).toBe('no-sketch');
  });

  test('T22: with an unbounded edge it is not asked for at every read', async () => {
    gateway.sketch = { invalidationMs: Infinity };
    const c = (await ready()).collection('c');
    for (let i = 0; i < 50; i++) await c.get('1');
    expect(gateway.sketches()).toBe(1);
    now = 500;
    await c.get('1');
    await expect.poll(() => gateway.sketches()).toBe(2);
  });
});

describe('C12 monotonic reads', () => {
  test('an older answer is fetched past the caches and not shown', async () => {
    const c = (await ready()).collection('c');
    await c.get('1');
    edge('/v1/db/c/1', { body: { _id: '1', a: 0 }, position: 50n });
    const { item, meta } = await c.get('1');
    expect(item).toEqual({ _id: '1', a: 1 });
    expect(meta).toMatchObject({ mode: 'reload', reason: 'older-answer' });
    expect(meta.behind).toBeUndefined();
    expect(modes).toEqual(['default', 'default', 'reload']);
  });

  test('D5: an edge that ignores everything costs one repeat, and the answer says so', async () => {
    const c = (await ready()).collection('c');
    await c.get('1');
    gateway.caches.set('/v1/db/c/1', () => ({ body: { _id: '1', a: 0 }, position: 50n }));
    gateway.drain();
    expect((await c.get('1')).meta.behind).toBe(true);
    expect(gateway.drain().length).toBe(2);
  });

  test('D6: an older position with the same content is no older answer', async () => {
    const c = (await ready()).collection('c');
    await c.get('1');
    edge('/v1/db/c/1', { body: { _id: '1', a: 1 }, position: 50n });
    expect((await c.get('1')).meta.mode).toBe('default');
  });

  test('a record that was seen to be gone does not come back from a cache', async () => {
    const c = (await ready()).collection('c');
    await c.get('1');
    gateway.records.delete('1');
    gateway.position = 150n;
    gateway.sketch = { keys: ['/v1/db/c/1'] };
    const db = await ready();
    expect((await db.collection('c').get('1')).item).toBeNull();
    edge('/v1/db/c/1', { body: { _id: '1', a: 1 }, position: 101n });
    const again = await db.collection('c').get('1');
    expect(again.item).toBeNull();
    expect(again.meta.reason).toBe('older-answer');
  });

  test('a record that is gone does not come back, though the sketch lags behind the copy', async () => {
    const c = (await ready({ staleness: 10 })).collection('c');
    gateway.set('1', { a: 2 });
    const copy = { body: { _id: '1', a: 2 }, position: 102n };
    await c.get('1');
    gateway.records.delete('1');
    edge('/v1/db/c/1', copy);
    expect((await c.get('1', { linearizable: true })).item).toBeNull();
    expect(await c.get('1')).toMatchObject({ item: null, meta: { reason: 'older-answer' } });
  });

  test('the position that a 404 names counts', async () => {
    const c = (await ready()).collection('c');
    const none = { status: 404, body: {}, position: 150n };
    gateway.caches.set('/v1/db/c/1', () => none);
    expect((await c.get('1')).meta.position).toBe(150n);
    gateway.records.delete('1');
    edge('/v1/db/c/1', { body: { _id: '1', a: 1 }, position: 149n });
    expect(await c.get('1')).toMatchObject({ item: null, meta: { reason: 'older-answer' } });
  });

  test.each([100n, 101n])(
    'what the origin showed at position %s is not taken back by the older copy',
    async (at) => {
      const c = (await ready()).collection('c');
      await c.get('1');
      // A gateway that knows a lower bound, or the same.
      const newer = { body: { _id: '1', a: 2 }, position: at };
      gateway.caches.set('/v1/db/c/1', () => newer);
      expect((await c.get('1', { linearizable: true })).item).toEqual(newer.body);
      const older = { body: { _id: '1', a: 1 }, position: 101n };
      gateway.caches.set('/v1/db/c/1', () => (modes.at(-1) === 'reload' ? newer : older));
      expect(await c.get('1')).toMatchObject({ item: newer.body, meta: { reason: 'older-answer' } });
    },
  );

  test('an embedded record at the position of a newer one is not shown after it', async () => {
    // Revalidated, so that it is known to have come over the network.
    gateway.sketch = { keys: ['/v1/db/c?limit=1', '/v1/db/c?limit=2'] };
    const c = (await ready()).collection('c');
    edge('/v1/db/c?limit=1', { body: { items: [{ _id: '1', a: 1 }] }, position: 101n });
    edge('/v1/db/c?limit=2', { body: { items: [{ _id: '1', a: 0 }] }, position: 101n });
    await c.find({ limit: 1 });
    expect(await c.get('1')).toMatchObject({ item: { a: 1 }, meta: { reason: 'embedded-copy' } });
    expect((await c.get('1')).meta.reason).toBe('embedded-copy');
    await c.find({ limit: 2 });
    expect((await c.get('1')).item).toEqual({ _id: '1', a: 1 });
  });

  test('an answer without a position cannot show that it is newer', async () => {
    const c = (await ready()).collection('c');
    await c.get('1');
    gateway.caches.set('/v1/db/c/1', () => ({ body: { _id: '1', a: 7 }, position: null }));
    const { meta } = await c.get('1');
    expect(meta).toMatchObject({ mode: 'reload', reason: 'older-answer', position: null });
    expect(meta.behind).toBeUndefined();
  });
});

describe('C11 own writes', () => {
  test('the own record is read back as it was acknowledged, for Δ at most', async () => {
    const c = (await ready({ staleness: 10 })).collection('c');
    const { items, meta } = await c.put('2', { b: 1 });
    expect(items).toEqual([{ _id: '2', b: 1 }]);
    expect(meta.position).toBe(102n);
    expect((await c.get('2')).meta).toMatchObject({ from: 'memory', reason: 'own-copy', position: 102n });
    expect((await c.get('2', { linearizable: true })).meta.from).toBe('network');
    now = 10_000;
    expect((await c.get('2')).meta.from).toBe('network');
  });

  test('queries of the collection go to the origin until the sketch covers the write', async () => {
    const db = await ready();
    const c = db.collection('c');
    await c.find();
    edge('/v1/db/c', { body: { items: [{ _id: '1', a: 1 }] }, position: 101n });
    edge('/v1/db/c?limit=5', { body: { items: [{ _id: '1', a: 1 }] }, position: 101n });
    await c.insert({ _id: '2' });
    expect(await c.find()).toMatchObject({
      items: [{ _id: '1' }, { _id: '2' }],
      meta: { reason: 'own-write', position: 102n },
    });
    // The newer answer was seen: from now on the caches serve it, if they have it.
    gateway.caches.delete('/v1/db/c');
    expect((await c.find()).meta.mode).toBe('default');
    expect((await c.find({ limit: 5 })).meta.reason).toBe('own-write');
    // Other collections are not touched.
    expect((await db.collection('d').find()).meta.mode).toBe('default');
    // The sketch covers the write and lists what it changed: the edge may not be purged yet.
    gateway.sketch = { keys: ['/v1/db/c?limit=7'] };
    await db.refresh();
    expect((await c.find({ limit: 7 })).meta.reason).toBe('own-write');
    expect((await c.find({ limit: 8 })).meta.reason).toBe('fresh');
  });

  test('every way to write counts', async () => {
    const c = (await ready()).collection('c');
    const writes = [
      () => c.insert([{ _id: 'x' }, { _id: 'y' }]),
      () => c.put('x', { a: 1 }),
      () => c.patch('x', { b: null }),
      () => c.update('x', { $inc: { a: 1 } }),
      () => c.delete('x'),
    ];
    for (const write of writes) {
      await write();
      expect((await c.count()).meta.reason).toBe('own-write');
      expect((await c.count()).meta.reason).toBe('fresh');
    }
    expect(gateway.drain().filter((line) => !line.startsWith('GET'))).toEqual([
      'POST /v1/db/c',
      'PUT /v1/db/c/x',
      'PATCH /v1/db/c/x',
      'PATCH /v1/db/c/x',
      'DELETE /v1/db/c/x',
    ]);
  });

  test('a document with a field called items is one document; many are many', async () => {
    const c = (await ready()).collection('c');
    const one = await c.insert({ _id: 'x', items: [1, 2] });
    expect(one.items).toEqual([{ _id: 'x', items: [1, 2] }]);
    expect((await c.get('x')).item).toEqual({ _id: 'x', items: [1, 2] });
    const many = await c.insert([{ _id: 'y' }, { _id: 'z', items: [] }]);
    expect(many.items).toEqual([{ _id: 'y' }, { _id: 'z', items: [] }]);
    expect((await c.get('z')).meta).toMatchObject({ reason: 'own-copy', etag: null });
  });

  test('the representations of a written record are not read from before the write', async () => {
    const c = (await ready()).collection('c');
    await c.get('1', { fields: 'a' });
    edge('/v1/db/c/1?fields=a', { body: { _id: '1', a: 1 }, position: 101n });
    await c.put('1', { a: 2 });
    expect((await c.get('1', { fields: 'a' })).meta.reason).toBe('own-write');
  });

  test('a record that the session deleted is gone', async () => {
    const c = (await ready()).collection('c');
    edge('/v1/db/c/1', { body: { _id: '1', a: 1 }, position: 101n });
    await c.delete('1');
    expect((await c.get('1')).item).toBeNull();
  });

  test('a read on its way from before a write does not serve a read after it', async () => {
    const c = (await ready()).collection('c');
    let answer = (): void => {};
    gateway.gate = new Promise((resolve) => {
      answer = resolve;
    });
    const before = c.count({ a: 5 });
    await c.insert({ _id: '2' });
    const after = c.count({ a: 5 });
    answer();
    await before;
    expect((await after).count).toBe(2);
  });

  test('media types, If-Match, Idempotency-Key', async () => {
    const c = (await ready()).collection('c');
    gateway.drain();
    await c.patch('1', { a: 2 }, { ifMatch: 'W/"x"', idempotencyKey: 'k1' });
    await c.update('1', { $set: { a: 3 } });
    await c.delete('1');
    expect(
      gateway.log.map(({ headers }) => [
        headers['content-type'],
        headers['if-match'],
        headers['idempotency-key'],
      ]),
    ).toEqual([
      ['application/merge-patch+json', 'W/"x"', 'k1'],
      ['application/vnd.freshet.update+json', undefined, undefined],
      [undefined, undefined, undefined],
    ]);
  });

  test('writes arrive in the order in which they were called', async () => {
    const c = (await ready()).collection('c');
    gateway.drain();
    await Promise.all(Array.from({ length: 10 }, (_, i) => c.put(`w${i}`, {})));
    expect(gateway.drain()).toEqual(Array.from({ length: 10 }, (_, i) => `PUT /v1/db/c/w${i}`));
  });

  test('a refused write is an error, stops none after it, and is not repeated', async () => {
    const c = (await ready()).collection('c');
    gateway.drain();
    const refused = c.put('1', {}, { ifMatch: '"wrong"' });
    const next = c.put('2', {});
    await expect(refused).rejects.toMatchObject({
      name: 'FreshetError',
      status: 412,
      problem: { title: 'Precondition failed', detail: 'It changed' },
      message: 'It changed',
    });
    await next;
    expect(gateway.drain()).toEqual(['PUT /v1/db/c/1', 'PUT /v1/db/c/2']);
  });
});

describe('C4 embedded records', () => {
  test('are read from memory while the sketch calls them fresh, for M at most', async () => {
    gateway.sketch = { keys: ['/v1/db/c'] };
    const db = await ready({ staleness: 1_000 });
    const c = db.collection('c');
    gateway.set('2', { b: 1 });
    await c.find();
    gateway.drain();
    const { item, meta } = await c.get('2');
    expect(item).toEqual({ _id: '2', b: 1 });
    expect(meta).toMatchObject({ from: 'memory', reason: 'embedded-copy', mode: 'default', position: 102n });
    (item as Record<string, unknown>).b = 'changed by the caller';
    expect((await c.get('2')).item).toEqual({ _id: '2', b: 1 });
    expect(gateway.drain()).toEqual([]);
    // Another representation is another resource.
    expect((await c.get('2', { rep: 'canonical' })).meta.from).toBe('network');
    now = 60_000;
    expect((await c.get('2')).meta.from).toBe('network');
  });

  test('are not used once the sketch has them', async () => {
    gateway.sketch = { keys: ['/v1/db/c'] };
    const db = await ready();
    await db.collection('c').find();
    gateway.sketch = { keys: ['/v1/db/c/1'] };
    await db.refresh();
    expect((await db.collection('c').get('1')).meta).toMatchObject({ from: 'network', mode: 'no-cache' });
    expect((await db.collection('c').get('1')).meta).toMatchObject({
      from: 'network',
      reason: 'revalidated',
    });
  });

  test('are not kept from an answer that may have lain in the browser for long, nor where fields are left out', async () => {
    const db = await ready();
    const c = db.collection('c');
    gateway.sketch = { keys: ['/v1/db/c?fields=a'] };
    await db.refresh();
    await c.find({ fields: 'a' });
    expect((await c.get('1')).meta.from).toBe('network');
  });

  test('are older than an own write', async () => {
    gateway.sketch = { keys: ['/v1/db/c'] };
    const c = (await ready()).collection('c');
    await c.find();
    await c.update('1', { a: 5 });
    expect((await c.get('1')).item).toEqual({ _id: '1', a: 5 });
  });
});

describe('view=ids', () => {
  test('records come one by one, each under its own decision; deleted ones are left out', async () => {
    gateway.set('2', { b: 1 });
    gateway.sketch = { keys: ['/v1/db/c/2'] };
    const c = (await ready()).collection('c');
    gateway.drain();
    const { items, meta } = await c.find({ view: 'ids' });
    expect(items).toEqual([
      { _id: '1', a: 1 },
      { _id: '2', b: 1 },
    ]);
    expect(meta.key).toBe('/v1/db/c?view=ids');
    expect(modes).toEqual(['default', 'default', 'no-cache']);
    gateway.caches.set('/v1/db/c?view=ids', () => ({
      body: { items: [{ _ref: '/v1/db/c/gone' }, { _ref: '/v1/db/c/1' }] },
    }));
    expect((await c.find({ view: 'ids' })).items).toEqual([{ _id: '1', a: 1 }]);
  });
});

describe('C13 causal sessions', () => {
  test('after something newer than the sketch was seen, reads go to the origin until a newer sketch', async () => {
    const db = await ready({ causal: true });
    const c = db.collection('c');
    expect((await c.get('1')).meta.mode).toBe('default');
    gateway.set('2', {});
    await c.get('2', { linearizable: true });
    gateway.sketchStatus = 503;
    expect((await c.get('1')).meta).toMatchObject({ mode: 'reload', reason: 'ahead-of-sketch' });
    gateway.sketchStatus = 200;
    await db.refresh();
    expect((await c.get('1')).meta.mode).toBe('default');
  });

  test('an own copy is not shown after something newer was', async () => {
    const c = (await ready({ causal: true })).collection('c');
    await c.put('2', { a: 1 });
    expect((await c.get('2')).meta.from).toBe('memory');
    gateway.set('3', {});
    await c.get('3');
    expect((await c.get('2')).meta.from).toBe('network');
  });

  test('a plain session does without', async () => {
    const c = (await ready()).collection('c');
    gateway.set('2', {});
    await c.get('2', { linearizable: true });
    expect((await c.get('1')).meta.mode).toBe('default');
  });
});

describe('errors', () => {
  test('problem+json, with Retry-After', async () => {
    const db = connect('http://gateway', {
      database: 'db',
      fetch: async () =>
        new Response(
          JSON.stringify({ type: 't', title: 'Too many', status: 429, detail: 'Slow down', pointer: '/a' }),
          {
            status: 429,
            headers: { 'retry-after': '7' },
          },
        ),
    });
    await expect(db.collection('c').get('1')).rejects.toMatchObject({
      status: 429,
      retryAfter: 7,
      problem: { type: 't', title: 'Too many', detail: 'Slow down', pointer: '/a' },
    });
  });

  test('a proxy’s error page', async () => {
    const db = connect('http://gateway', {
      database: 'db',
      fetch: async () => new Response('<html>', { status: 502 }),
    });
    await expect(db.collection('c').find()).rejects.toMatchObject({
      status: 502,
      problem: { title: 'HTTP 502' },
    });
  });

  test('no answer', async () => {
    const cause = new TypeError('fetch failed');
    const db = connect('http://gateway', { database: 'db', fetch: () => Promise.reject(cause) });
    const error: unknown = await db
      .collection('c')
      .get('1')
      .catch((e: unknown) => e);
    expect(error).toBeInstanceOf(FreshetError);
    expect(error).toMatchObject({ status: 0, cause });
  });

  test('a query that does not exist is an error, unlike a record', async () => {
    gateway.caches.set('/v1/db/c', () => ({ status: 404, body: { title: 'No such collection' } }));
    await expect(open().collection('c').find()).rejects.toMatchObject({ status: 404 });
  });

  test('a staleness that is none', () => {
    for (const staleness of [-1, Number.NaN]) {
      expect(() => connect('http://gateway', { database: 'db', staleness })).toThrow(RangeError);
    }
  });
});
