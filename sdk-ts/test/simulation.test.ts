/**
 * The promise of the coherence contract, read by read, against a model that knows the true history. Whatever order of writes,
 * reads, waiting, late purges, lagging, failing and late sketches there is: Δ-atomicity, read-your-writes, monotonic reads,
 * linearizable reads, causal consistency.
 */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type Collection, connect } from '../src/index.ts';
import { COLLECTION, IDS, INVALIDATION, World } from './support/world.ts';

const id = fc.constantFrom(...IDS);
const step = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant('get' as const), id, linearizable: fc.boolean() }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant('read' as const), id }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('find' as const) }) },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant('foreign' as const), id, delay: fc.nat(INVALIDATION) }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('own' as const), id, delay: fc.nat(INVALIDATION) }) },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('pass' as const),
      ms: fc.oneof(fc.nat(300), fc.nat(4_000), fc.nat(30_000)),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('sketch' as const),
      up: fc.boolean(),
      lag: fc.oneof(fc.nat(300), fc.nat(6_000)),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('hold' as const) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('release' as const) }) },
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** What the session has seen and written, as the promise speaks of it. */
class Witness {
  readonly shown = new Map<string, number>();
  readonly written = new Map<string, number>();
  seen = 0;
  readonly reasons = new Map<string, number>();

  constructor(
    readonly world: World,
    readonly delta: number,
    readonly causal: boolean,
  ) {}

  /** `scope` is a record's id, null for the whole collection; `version` the position of its last write in the answer. */
  check(scope: string | null, version: number, started: number, linearizable: boolean): void {
    const { world } = this;
    const name = scope ?? '*';
    const about = `${name} at version ${version} of ${world.position}, read at ${started}`;
    expect(world.ended(scope, version), `Δ-atomic: ${about}`).toBeGreaterThanOrEqual(started - this.delta);
    expect(version, `reads own writes: ${about}`).toBeGreaterThanOrEqual(this.written.get(name) ?? 0);
    expect(version, `monotonic: ${about}`).toBeGreaterThanOrEqual(this.shown.get(name) ?? 0);
    if (linearizable) expect(version, `linearizable: ${about}`).toBe(world.last(scope));
    if (this.causal) expect(version, `causal: ${about}`).toBeGreaterThanOrEqual(world.last(scope, this.seen));
    this.shown.set(name, version);
  }

  wrote(scope: string, position: number): void {
    for (const name of [scope, '*']) this.written.set(name, position);
    this.seen = Math.max(this.seen, position);
  }

  count(reason: string): void {
    this.reasons.set(reason, (this.reasons.get(reason) ?? 0) + 1);
  }
}

interface Versioned {
  readonly _id: string;
  readonly v: number;
}

async function read(witness: Witness, c: Collection, name: string, linearizable: boolean): Promise<void> {
  const started = witness.world.now;
  const { item, meta } = await c.get(name, { linearizable });
  const { v } = item as unknown as Versioned;
  witness.check(name, v, started, linearizable);
  witness.seen = Math.max(witness.seen, v);
  witness.count(meta.reason);
}

async function find(witness: Witness, c: Collection): Promise<void> {
  const started = witness.world.now;
  const { items, meta } = await c.find();
  const versions = items as unknown as Versioned[];
  const newest = Math.max(...versions.map(({ v }) => v));
  for (const { _id, v } of versions)
    expect(v, 'one state of the collection').toBe(witness.world.last(_id, newest));
  witness.check(null, newest, started, false);
  witness.seen = Math.max(witness.seen, newest);
  witness.count(meta.reason);
}

async function perform(
  step: Step,
  witness: Witness,
  c: Collection,
  release: { now: () => void },
): Promise<void> {
  const { world } = witness;
  switch (step.do) {
    case 'get':
      return read(witness, c, step.id, step.linearizable);
    case 'read':
      return read(witness, c, step.id, false);
    case 'find':
      return find(witness, c);
    case 'foreign':
      world.purgeDelay = step.delay;
      world.write(step.id);
      return;
    case 'own': {
      world.purgeDelay = step.delay;
      const { meta } = await c.put(step.id, {});
      return witness.wrote(step.id, Number(meta.position));
    }
    case 'pass':
      return world.pass(step.ms);
    case 'sketch':
      world.sketchUp = step.up;
      world.lag = step.lag;
      return;
    case 'hold':
      release.now();
      world.gate = new Promise((resolve) => {
        release.now = resolve;
      });
      return;
    case 'release':
      return release.now();
  }
}

async function run(steps: readonly Step[], delta: number, causal: boolean): Promise<Witness> {
  const world = new World();
  const db = connect('http://gateway', {
    database: 'db',
    staleness: delta / 1_000,
    causal,
    clock: () => world.now,
    fetch: world.fetch,
    random: () => 0,
  });
  await db.refresh();
  const witness = new Witness(world, delta, causal);
  const release = { now: (): void => {} };
  for (const one of steps) {
    await perform(one, witness, db.collection('c'), release);
    await settle();
  }
  release.now();
  return witness;
}

test.each([
  { causal: false, delta: 5_000 },
  { causal: false, delta: 60_000 },
  { causal: false, delta: 1_500 },
  { causal: false, delta: 0 },
  { causal: true, delta: 5_000 },
  { causal: true, delta: 60_000 },
])('the promise holds: Δ = $delta ms, causal: $causal', async ({ delta, causal }) => {
  const reasons = new Map<string, number>();
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60, size: 'max' }), async (steps) => {
      const witness = await run(steps, delta, causal);
      for (const [reason, n] of witness.reasons) reasons.set(reason, (reasons.get(reason) ?? 0) + n);
    }),
    { numRuns: 150 },
  );
  // The runs went through the caches, and through what forbids them.
  const met = [...reasons.keys()];
  if (delta === 0) expect(met.sort()).toEqual(['linearizable', 'no-staleness']);
  else expect(met).toEqual(expect.arrayContaining(['fresh', 'own-write', 'sketch-too-old', 'linearizable']));
  if (delta === 60_000 && !causal) {
    expect(met).toEqual(expect.arrayContaining(['in-sketch', 'revalidated', 'own-copy', 'embedded-copy']));
  }
  if (causal) expect(met).toContain('ahead-of-sketch');
});

test('the model has stale copies: a browser without the SDK shows what is too old', async () => {
  const world = new World();
  const url = `http://gateway${COLLECTION}/r0`;
  await world.fetch(url, { cache: 'default' });
  world.write('r0');
  world.pass(6_000);
  const { v } = (await (await world.fetch(url, { cache: 'default' })).json()) as Versioned;
  expect(world.ended('r0', v)).toBeLessThan(world.now - 5_000);
});
