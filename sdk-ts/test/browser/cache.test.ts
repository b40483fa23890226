/** The facts about a browser's cache that the SDK relies on, and the SDK on top of them. */
import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { Gateway } from '../support/gateway.ts';
import { type Harness, launch } from './harness.ts';

let gateway: Gateway;
let harness: Harness;
let page: Page;

beforeAll(async () => {
  gateway = await Gateway.start();
  harness = await launch({ gateway: gateway.url });
});
afterAll(async () => {
  await harness?.stop();
  await gateway?.stop();
});

beforeEach(async () => {
  gateway.records.clear();
  gateway.caches.clear();
  gateway.sketch = {};
  gateway.sketchStatus = 200;
  gateway.set('1', { a: 1 });
  page = await harness.fresh();
  gateway.drain();
});
afterEach(() => page.context().close());

/** Reads `/v1/db/c/1` with plain fetch. */
function plainFetch(
  cache: RequestCache,
): Promise<{ text: string; etag: string | null; transferSize: number }> {
  return page.evaluate(async (mode) => {
    const url = `${window.gateway}/v1/db/c/1`;
    performance.clearResourceTimings();
    const response = await fetch(url, { cache: mode, credentials: 'omit' });
    const text = await response.text();
    const entry = performance.getEntriesByName(url).at(-1) as PerformanceResourceTiming;
    return { text, etag: response.headers.get('etag'), transferSize: entry.transferSize };
  }, cache);
}

describe('the browser', () => {
  test('default: the second read is answered by its own cache', async () => {
    expect((await plainFetch('default')).transferSize).toBeGreaterThan(0);
    expect((await plainFetch('default')).transferSize).toBe(0);
    expect(gateway.drain()).toEqual(['GET /v1/db/c/1']);
  });

  test('no-cache: revalidates, the validator and max-age=0 are its own; a 304 shows as the stored answer', async () => {
    const first = await plainFetch('default');
    const second = await plainFetch('no-cache');
    const { headers } = gateway.log.at(-1) ?? {};
    expect(headers?.['if-none-match']).toBe(first.etag);
    expect(headers?.['cache-control']).toBe('max-age=0');
    expect(second.text).toBe(first.text);
    expect(second.transferSize).toBeGreaterThan(0);
  });

  test('reload: asks past caches, without a validator, and replaces the stored answer', async () => {
    await plainFetch('default');
    gateway.set('1', { a: 2 });
    await plainFetch('reload');
    const { headers } = gateway.log.at(-1) ?? {};
    expect(headers?.['if-none-match']).toBeUndefined();
    expect(headers?.['cache-control']).toBe('no-cache');
    gateway.drain();
    expect(JSON.parse((await plainFetch('default')).text)).toEqual({ _id: '1', a: 2 });
    expect(gateway.drain()).toEqual([]);
  });

  test('no read of any mode needs a preflight', async () => {
    const methods: string[] = [];
    page.on('request', (request) => methods.push(request.method()));
    for (const mode of ['default', 'no-cache', 'reload'] as const) await plainFetch(mode);
    expect(methods).toEqual(['GET', 'GET', 'GET']);
  });
});

/** Opens a session in the page as `window.db`. */
async function connect(options: { staleness?: number; causal?: boolean } = {}): Promise<void> {
  await page.evaluate(async (o) => {
    const db = window.sdk.connect(window.gateway, { database: 'db', ...o });
    await db.refresh();
    Object.assign(window, { db });
  }, options);
}

interface Got {
  readonly item: unknown;
  readonly mode: string;
  readonly reason: string;
  readonly from: string;
  readonly position: string;
}

function get(id: string): Promise<Got> {
  return page.evaluate(async (i) => {
    const { db } = window as unknown as { db: import('../../src/index.ts').Database };
    const { item, meta } = await db.collection('c').get(i);
    return { item, mode: meta.mode, reason: meta.reason, from: meta.from, position: String(meta.position) };
  }, id);
}

function find(
  query: object,
): Promise<{ items: unknown[]; mode: string; reason: string; from: string; key: string }> {
  return page.evaluate(async (q) => {
    const { db } = window as unknown as { db: import('../../src/index.ts').Database };
    const { items, meta } = await db.collection('c').find(q);
    return { items, mode: meta.mode, reason: meta.reason, from: meta.from, key: meta.key };
  }, query);
}

describe('the SDK in the browser', () => {
  test('a fresh key is answered by the browser’s cache, which the answer says', async () => {
    await connect();
    expect(await get('1')).toMatchObject({ item: { _id: '1', a: 1 }, from: 'network', reason: 'fresh' });
    gateway.drain();
    expect(await get('1')).toMatchObject({
      item: { _id: '1', a: 1 },
      from: 'browser-cache',
      reason: 'fresh',
    });
    expect(gateway.drain()).toEqual([]);
  });

  test('C9: a key in the sketch is revalidated, whatever the browser holds', async () => {
    await connect();
    await get('1');
    gateway.set('1', { a: 2 });
    expect(await get('1')).toMatchObject({ item: { a: 1 }, from: 'browser-cache' }); // within Δ
    gateway.sketch = { keys: ['/v1/db/c/1'] };
    await page.evaluate(() => (window as unknown as { db: { refresh(): Promise<void> } }).db.refresh());
    expect(await get('1')).toMatchObject({ item: { a: 2 }, mode: 'no-cache', from: 'network' });
    // C10: and the browser holds the new answer now.
    expect(await get('1')).toMatchObject({
      item: { a: 2 },
      mode: 'default',
      reason: 'revalidated',
      from: 'browser-cache',
    });
  });

  test('C7: when the sketch cannot be had, what the browser holds is not used', async () => {
    await connect({ staleness: 0.4 });
    await get('1');
    gateway.set('1', { a: 2 });
    gateway.sketchStatus = 503;
    await expect.poll(async () => (await get('1')).mode, { timeout: 10_000 }).toBe('reload');
    expect((await get('1')).item).toEqual({ _id: '1', a: 2 });
  });

  test('C11: a query does not miss an own write', async () => {
    await connect();
    await find({});
    await find({});
    await page.evaluate(async () => {
      const { db } = window as unknown as { db: import('../../src/index.ts').Database };
      await db.collection('c').insert({ _id: '2', b: 1 });
    });
    const { items, mode, reason } = await find({});
    expect([items.length, mode, reason]).toEqual([2, 'reload', 'own-write']);
    expect(await find({})).toMatchObject({ mode: 'default', from: 'browser-cache' });
  });

  test('C12: an older answer of another cache is not shown', async () => {
    await connect();
    await get('1');
    gateway.set('1', { a: 2 });
    gateway.sketch = { keys: ['/v1/db/c/1'] };
    await page.evaluate(() => (window as unknown as { db: { refresh(): Promise<void> } }).db.refresh());
    expect((await get('1')).item).toMatchObject({ a: 2 });
    gateway.caches.set('/v1/db/c/1', ({ headers }) =>
      headers['cache-control'] === 'no-cache' ? undefined : { body: { _id: '1', a: 1 }, position: 101n },
    );
    await page.evaluate(() => (window as unknown as { db: { refresh(): Promise<void> } }).db.refresh());
    expect(await get('1')).toMatchObject({ item: { a: 2 }, reason: 'older-answer' });
  });

  test('C4: records of a query’s answer are read without a request', async () => {
    await connect();
    await find({ limit: 7 });
    gateway.drain();
    expect(await get('1')).toMatchObject({
      item: { _id: '1', a: 1 },
      from: 'memory',
      reason: 'embedded-copy',
    });
    expect(gateway.drain()).toEqual([]);
  });

  test('the browser asks for the key itself', async () => {
    await connect();
    const { key } = await find({ filter: { b: { $in: [2, 1] }, a: 'ü / & + "' }, sort: ['-a'], limit: 5 });
    expect(gateway.drain()).toEqual([`GET ${key}`]);
  });

  test('no read of the SDK needs a preflight', async () => {
    const methods: string[] = [];
    page.on('request', (request) => methods.push(request.method()));
    await connect();
    gateway.sketch = { saturated: true };
    await page.evaluate(() => (window as unknown as { db: { refresh(): Promise<void> } }).db.refresh());
    await get('1');
    await find({ filter: { a: 1 } });
    expect(methods.every((method) => method === 'GET')).toBe(true);
  });
});
