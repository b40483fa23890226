/**
 * Chromium + SDK → Varnish → gateway → MongoDB + Redis, nothing faked: where each answer comes from, and how a write by
 * a foreign program reaches a page that had the answer in its own cache.
 */
import type { Collection } from 'mongodb';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Database } from '../../src/index.ts';
import { contains, decodeSketch } from '../../src/sketch.ts';
import { type Chain, startChain } from './chain.ts';
import { type Harness, launch } from './harness.ts';

/** Within this everything asynchronous must have happened; each wait ends as soon as its condition holds. */
const PATIENCE = { timeout: 30_000, interval: 50 } as const;

let chain: Chain;
let harness: Harness;

beforeAll(async () => {
  chain = await startChain();
  harness = await launch({ gateway: chain.varnish });
  await itemsOf(chain).insertMany([
    { _id: 'anvil', kind: 'tool', price: 40 },
    { _id: 'bolt', kind: 'part', price: 1 },
    { _id: 'crowbar', kind: 'tool', price: 15 },
  ]);
  // C8: this Redis was empty, so whether older copies exist is not known; the sketch is saturated until none can.
  await expect
    .poll(async () => (await chain.readyz()).pipeline.saturated, { timeout: 60_000, interval: 250 })
    .toBe(false);
}, 120_000);
afterAll(async () => {
  await harness?.stop();
  await chain?.stop();
}, 60_000);

/** A page with a session, and what its reads tell. */
async function open(): Promise<Page> {
  const page = await harness.fresh();
  await page.evaluate(async (database) => {
    const db = window.sdk.connect(window.gateway, { database });
    await db.refresh();
    Object.assign(window, { db });
  }, chain.database);
  return page;
}

interface Found {
  readonly ids: string[];
  readonly mode: string;
  readonly reason: string;
  readonly from: string;
  readonly key: string;
  readonly transferSize: number;
}

function findTools(page: Page): Promise<Found> {
  return page.evaluate(async () => {
    const { db } = window as unknown as { db: Database };
    performance.clearResourceTimings();
    const { items, meta } = await db.collection('items').find({ filter: { kind: 'tool' }, sort: ['price'] });
    const timing = performance
      .getEntriesByName(window.gateway + meta.key)
      .at(-1) as PerformanceResourceTiming;
    return {
      ids: items.map((item) => String((item as { _id: unknown })._id)),
      mode: meta.mode,
      reason: meta.reason,
      from: meta.from ?? '',
      key: meta.key,
      transferSize: timing.transferSize,
    };
  });
}

/** What the hops have counted so far. */
async function counted(): Promise<{ varnish: number; hits: number; gateway: number }> {
  return {
    varnish: chain.varnishCounter('MAIN.client_req'),
    hits: chain.varnishCounter('MAIN.cache_hit'),
    gateway: await chain.metric('freshet_requests_total', 'route="collection"'),
  };
}

test('a page’s own cache, then Varnish, then the gateway answer; a foreign write reaches the page', async () => {
  const page = await open();
  const before = await counted();

  // The first read goes all the way.
  const first = await findTools(page);
  expect(first).toMatchObject({ ids: ['crowbar', 'anvil'], mode: 'default', from: 'network' });
  expect(first.transferSize).toBeGreaterThan(0);
  const afterFirst = await counted();
  expect(afterFirst).toEqual({ varnish: before.varnish + 1, hits: before.hits, gateway: before.gateway + 1 });

  // The second is the browser's: no request reaches Varnish.
  const second = await findTools(page);
  expect(second).toMatchObject({ ids: ['crowbar', 'anvil'], mode: 'default', from: 'browser-cache' });
  expect(second.transferSize).toBe(0);
  expect(await counted()).toEqual(afterFirst);

  // Another page, with an empty cache: Varnish has it, no request reaches the gateway.
  const other = await open();
  const beforeOther = await counted();
  expect(await findTools(other)).toMatchObject({ ids: ['crowbar', 'anvil'], from: 'network' });
  expect(await counted()).toEqual({
    varnish: beforeOther.varnish + 1,
    hits: beforeOther.hits + 1,
    gateway: beforeOther.gateway,
  });

  // A foreign program writes; the event is matched, and the query's key enters the sketch.
  const events = await chain.metric('freshet_invalidation_events_total');
  const adds = await chain.metric('freshet_invalidation_notifications_total', 'effect="add"');
  await itemsOf(chain).insertOne(
    { _id: 'drill', kind: 'tool', price: 90 },
    { writeConcern: { w: 'majority' } },
  );
  await expect
    .poll(() => chain.metric('freshet_invalidation_events_total'), PATIENCE)
    .toBeGreaterThan(events);
  await expect.poll(() => sketchHas(first.key), PATIENCE).toBe(true);
  expect(await chain.metric('freshet_invalidation_notifications_total', 'effect="add"')).toBeGreaterThan(
    adds,
  );

  // Until it refreshes its sketch, the page may go on with what it has: that is what its bound allows.
  expect(await findTools(page)).toMatchObject({ ids: ['crowbar', 'anvil'], from: 'browser-cache' });

  // Varnish's copy was purged: the next request through it is a miss that the gateway answers with the new document.
  await expect.poll(async () => (await chain.readyz()).pipeline.purges_pending, PATIENCE).toBe(0);
  const beforePurged = await counted();
  const purged = await fetch(chain.varnish + first.key);
  const { items: now } = (await purged.json()) as { items: { _id: string }[] };
  expect(now.map(({ _id }) => _id)).toEqual(['crowbar', 'anvil', 'drill']);
  expect(await counted()).toEqual({
    varnish: beforePurged.varnish + 1,
    hits: beforePurged.hits,
    gateway: beforePurged.gateway + 1,
  });

  // After its next sketch refresh the page revalidates and shows the new document.
  await page.evaluate(() => (window as unknown as { db: Database }).db.refresh());
  const beforeRevalidation = await counted();
  const revalidated = await findTools(page);
  expect(revalidated).toMatchObject({
    ids: ['crowbar', 'anvil', 'drill'],
    mode: 'no-cache',
    from: 'network',
  });
  expect(revalidated.transferSize).toBeGreaterThan(0);
  expect((await counted()).varnish).toBe(beforeRevalidation.varnish + 1);

  // C10: and what it revalidated is in its own cache again.
  const last = await counted();
  expect(await findTools(page)).toMatchObject({ ids: ['crowbar', 'anvil', 'drill'], from: 'browser-cache' });
  expect(await counted()).toEqual(last);
}, 120_000);

function itemsOf({ foreign, database }: Chain): Collection<{ _id: string; kind: string; price: number }> {
  return foreign.db(database).collection('items');
}

async function sketchHas(key: string): Promise<boolean> {
  const response = await fetch(`${chain.gateway}/v1/${chain.database}/_sketch?collections=items`);
  const sketch = decodeSketch(new Uint8Array(await response.arrayBuffer()));
  return !sketch.saturated && contains(sketch, key);
}
