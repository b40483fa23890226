import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Decision, decide, edgeBound, isRefreshDue, type Policy, type Target } from '../src/decide.ts';
import {
  answerShown,
  isOlder,
  KNOWN_KEYS_MAX,
  keyRevalidated,
  type Session,
  START,
  sketchArrived,
  takenAt,
  writeAcknowledged,
} from '../src/session.ts';
import { contains, decodeSketch } from '../src/sketch.ts';
import { encodeSketch } from './support/sketch.ts';

const KEY = '/v1/db/c?filter=%7B%22a%22:1%7D';
const COLLECTION = '/v1/db/c';
const NOW = 1_000_000;
const DELTA = 60_000;

/** Every situation in which a read can find its session. */
const SKETCHES = ['none', 'unlisted', 'listed', 'saturated', 'old', 'edge slow', 'edge unbounded'] as const;
/** Own write in the collection: none; not in the sketch's watermark; in it; not in it, but a newer answer was shown. */
const WRITES = ['none', 'ahead', 'covered', 'shown'] as const;
const CALLS = ['plain', 'linearizable', 'unkeyed'] as const;
const SESSIONS = ['plain', 'causal', 'causal, ahead', 'Δ = 0'] as const;

interface Situation {
  readonly sketch: (typeof SKETCHES)[number];
  readonly revalidated: boolean;
  readonly write: (typeof WRITES)[number];
  readonly call: (typeof CALLS)[number];
  readonly session: (typeof SESSIONS)[number];
}

const WATERMARK = 100n;

function build({ sketch, revalidated, write, call, session: kind }: Situation): [Session, Target, Policy] {
  let session = START;
  if (sketch !== 'none') {
    const bytes = encodeSketch({
      watermark: WATERMARK,
      keys: sketch === 'unlisted' ? [] : [KEY],
      saturated: sketch === 'saturated',
      ageMs: sketch === 'old' ? 59_001 : 500,
      invalidationMs: sketch === 'edge slow' ? DELTA : sketch === 'edge unbounded' ? Infinity : 1_000,
    });
    session = sketchArrived(session, { sketch: decodeSketch(bytes), sentAt: NOW });
  }
  if (write !== 'none') session = writeAcknowledged(session, [COLLECTION], write === 'covered' ? 90n : 110n);
  if (write === 'shown') session = answerShown(session, KEY, 110n, '"x"');
  if (kind === 'causal, ahead') session = answerShown(session, '/v1/db/other/1', 120n, '"a"');
  if (revalidated) session = keyRevalidated(session, KEY, session.held);
  const target = {
    key: KEY,
    keyed: call !== 'unkeyed',
    scope: COLLECTION,
    record: false,
    linearizable: call === 'linearizable',
  };
  return [session, target, { delta: kind === 'Δ = 0' ? 0 : DELTA, causal: kind.startsWith('causal') }];
}

/** The rules once more, as a list from which the first that applies counts. */
function expected({ sketch, revalidated, write, call, session }: Situation): Decision {
  const listed = sketch === 'listed' || sketch === 'saturated';
  const causal = session.startsWith('causal');
  const seenAhead = session === 'causal, ahead' || (causal && (write === 'ahead' || write === 'shown'));
  const rules: [boolean, Decision['mode'], Decision['reason']][] = [
    [call === 'linearizable', 'reload', 'linearizable'],
    [call === 'unkeyed', 'reload', 'no-key'],
    [session === 'Δ = 0', 'reload', 'no-staleness'],
    [sketch === 'none', 'reload', 'no-sketch'],
    [sketch === 'edge slow' || sketch === 'edge unbounded', 'reload', 'edge-too-slow'],
    [sketch === 'old', 'reload', 'sketch-too-old'],
    [write === 'ahead' || (write === 'covered' && listed), 'reload', 'own-write'],
    [seenAhead, 'reload', 'ahead-of-sketch'],
    [!listed, 'default', 'fresh'],
    [revalidated, 'default', 'revalidated'],
    [causal, 'reload', sketch === 'saturated' ? 'saturated' : 'in-sketch'],
    [sketch === 'saturated', 'no-cache', 'saturated'],
    [true, 'no-cache', 'in-sketch'],
  ];
  const [, mode, reason] = rules.find(([applies]) => applies) as (typeof rules)[number];
  return { mode, reason };
}

const SITUATIONS: Situation[] = SKETCHES.flatMap((sketch) =>
  [false, true].flatMap((revalidated) =>
    WRITES.flatMap((write) =>
      CALLS.flatMap((call) => SESSIONS.map((session) => ({ sketch, revalidated, write, call, session }))),
    ),
  ),
);

describe('the decision table is total', () => {
  test.each(SKETCHES)('sketch: %s', (sketch) => {
    const rows = SITUATIONS.filter((situation) => situation.sketch === sketch);
    expect(rows.length).toBe(96);
    for (const situation of rows) {
      expect({ situation, ...decide(...build(situation), NOW) }).toEqual({
        situation,
        ...expected(situation),
      });
    }
  });
});

const arbitrary = fc.record({
  keys: fc.subarray([KEY, '/v1/db/c/1', '/v1/db/c']),
  saturated: fc.boolean(),
  ageMs: fc.nat(100_000),
  invalidationMs: fc.oneof(fc.nat(70_000), fc.constant(Infinity)),
  watermark: fc.bigInt({ min: 0n, max: 20n }),
  delta: fc.oneof(fc.nat(100_000), fc.constant(0)),
  causal: fc.boolean(),
  passed: fc.nat(100_000),
  key: fc.constantFrom(KEY, '/v1/db/c/1', '/v1/db/c'),
  written: fc.option(fc.bigInt({ min: 0n, max: 20n })),
  shown: fc.option(fc.bigInt({ min: 0n, max: 20n })),
  revalidated: fc.boolean(),
});

type Facts = typeof arbitrary extends fc.Arbitrary<infer T> ? T : never;

function session(facts: Facts): Session {
  let s = sketchArrived(START, { sketch: decodeSketch(encodeSketch(facts)), sentAt: NOW });
  if (facts.written !== null) s = writeAcknowledged(s, [COLLECTION], facts.written);
  if (facts.shown !== null) s = answerShown(s, facts.key, facts.shown, '"a"');
  return facts.revalidated ? keyRevalidated(s, facts.key, s.held) : s;
}

describe('laws of the decision', () => {
  const check = (law: (facts: Facts, s: Session, decision: Decision) => void): void =>
    fc.assert(
      fc.property(arbitrary, (facts) => {
        const s = session(facts);
        const target = { key: facts.key, keyed: true, scope: COLLECTION, record: false, linearizable: false };
        law(facts, s, decide(s, target, facts, NOW + facts.passed));
      }),
      { numRuns: 2_000 },
    );

  test('C9, C10: a key in the sketch that was not revalidated since is never read in mode default', () => {
    check((facts, s, { mode }) => {
      if (s.held && contains(s.held.sketch, facts.key) && !facts.revalidated)
        expect(mode).not.toBe('default');
    });
  });

  test("C6, C7, C9: at Δ' of age or more, a sketch allows no cache at all", () => {
    check((facts, _, { mode }) => {
      if (facts.ageMs + facts.passed >= facts.delta - facts.invalidationMs) expect(mode).toBe('reload');
    });
  });

  test('C11: no cache answers a query that an own write may have changed', () => {
    check((facts, s, { mode }) => {
      const owes = facts.written !== null && (facts.shown ?? -1n) < facts.written;
      const cleared =
        facts.watermark >= (facts.written ?? 0n) &&
        !contains((s.held as never as { sketch: never }).sketch, facts.key);
      if (owes && !cleared) expect(mode).toBe('reload');
    });
  });

  test('C13: a causal session that saw more than the sketch reads at the origin', () => {
    check((facts, s, { mode }) => {
      if (facts.causal && s.seen > facts.watermark) expect(mode).toBe('reload');
      if (facts.causal) expect(mode).not.toBe('no-cache');
    });
  });

  test('a weaker Δ never asks for more', () => {
    const cost = { default: 0, 'no-cache': 1, reload: 2 };
    check((facts, s, { mode }) => {
      const target = { key: facts.key, keyed: true, scope: COLLECTION, record: false, linearizable: false };
      const weaker = decide(s, target, { ...facts, delta: facts.delta * 2 }, NOW + facts.passed);
      expect(cost[weaker.mode]).toBeLessThanOrEqual(cost[mode]);
    });
  });
});

describe('time for a new sketch (C10)', () => {
  const held = (ageMs: number, invalidationMs = 0) =>
    sketchArrived(START, {
      sketch: decodeSketch(encodeSketch({ ageMs, invalidationMs, watermark: 5n })),
      sentAt: NOW,
    });
  const policy = { delta: 10_000, causal: false };

  test('at 0.8 Δ′ of age', () => {
    expect(isRefreshDue(held(0), policy, NOW + 7_999)).toBe(false);
    expect(isRefreshDue(held(0), policy, NOW + 8_000)).toBe(true);
    expect(isRefreshDue(held(3_000), policy, NOW + 5_000)).toBe(true);
    expect(isRefreshDue(held(0, 5_000), policy, NOW + 3_999)).toBe(false);
    expect(isRefreshDue(held(0, 5_000), policy, NOW + 4_000)).toBe(true);
  });
  test('without one, and while the edge has no bound', () => {
    expect(isRefreshDue(START, policy, NOW)).toBe(true);
    expect(isRefreshDue(held(0, Infinity), policy, NOW)).toBe(true);
  });
  test('never with Δ = 0', () => {
    expect(isRefreshDue(START, { delta: 0, causal: false }, NOW)).toBe(false);
  });
  test('C13: in a causal session as soon as something newer was seen', () => {
    const ahead = answerShown(held(0), KEY, 6n, '"a"');
    expect(isRefreshDue(ahead, { ...policy, causal: true }, NOW)).toBe(true);
    expect(isRefreshDue(ahead, policy, NOW)).toBe(false);
  });
});

describe('transitions', () => {
  const at = (ageMs: number, sentAt: number) => ({ sketch: decodeSketch(encodeSketch({ ageMs })), sentAt });

  test('C6: a sketch is as old as it says plus the time since it was asked for', () => {
    expect(takenAt(at(300, 5_000))).toBe(4_700);
    expect(edgeBound(null, 5)).toBe(5);
  });

  test('a sketch that proves less than the one held changes nothing', () => {
    const [newer, older] = [at(0, 5_000), at(400, 5_100)];
    expect(sketchArrived(sketchArrived(START, newer), older).held).toBe(newer);
    expect(sketchArrived(sketchArrived(START, older), newer).held).toBe(newer);
  });

  test('C10: what was revalidated under one sketch is not known to be fresh under the next', () => {
    const target = { key: KEY, keyed: true, scope: COLLECTION, record: false, linearizable: false };
    const listed = { sketch: decodeSketch(encodeSketch({ keys: [KEY] })), sentAt: NOW };
    const first = sketchArrived(START, listed);
    const revalidated = keyRevalidated(first, KEY, listed);
    expect(decide(revalidated, target, { delta: DELTA, causal: false }, NOW).reason).toBe('revalidated');
    const second = sketchArrived(revalidated, { ...listed, sentAt: NOW + 1 });
    expect(decide(second, target, { delta: DELTA, causal: false }, NOW + 1).reason).toBe('in-sketch');
    // An answer that was asked for under the first and comes after the second.
    const late = keyRevalidated(second, KEY, listed);
    expect(decide(late, target, { delta: DELTA, causal: false }, NOW + 1).reason).toBe('in-sketch');
  });

  test('C12: positions are compared beyond 2^53', () => {
    const target = { key: KEY, scope: COLLECTION, record: false };
    const s = answerShown(START, KEY, 2n ** 63n + 1n, '"a"');
    expect(isOlder(s, target, 2n ** 63n, '"b"', true)).toBe(true);
    expect(isOlder(s, target, 2n ** 63n, '"b"', false)).toBe(true);
    expect(isOlder(s, target, 2n ** 63n + 2n, '"b"', true)).toBe(false);
    expect(isOlder(s, target, 2n ** 63n, '"a"', true)).toBe(false); // the same content
    expect(isOlder(s, target, null, '"b"', true)).toBe(true);
  });

  test('C12: of equal positions the origin proves the newer content, a cache does not', () => {
    const target = { key: KEY, scope: COLLECTION, record: false };
    const s = answerShown(START, KEY, 7n, '"a"');
    expect(isOlder(s, target, 7n, '"b"', true)).toBe(true);
    expect(isOlder(s, target, 7n, '"b"', false)).toBe(false);
    expect(isOlder(s, target, 7n, '"a"', true)).toBe(false);
  });

  test.each([6n, 7n, null])(
    'C12: what the origin showed last at %s is remembered at the floor',
    (position) => {
      const target = { key: KEY, scope: COLLECTION, record: false };
      const s = answerShown(answerShown(START, KEY, 7n, '"a"'), KEY, position, '"b"');
      expect(isOlder(s, target, 7n, '"a"', true)).toBe(true);
      expect(isOlder(s, target, 6n, '"b"', true)).toBe(false);
      expect(isOlder(s, target, 8n, '"a"', true)).toBe(false);
      expect(s.seen).toBe(7n);
    },
  );

  test('C12: nothing that was shown and replaced comes back from a cache, whatever positions were named', () => {
    const shown = fc.tuple(fc.option(fc.bigInt({ min: 0n, max: 5n })), fc.constantFrom('a', 'b', 'c'));
    const target = { key: KEY, scope: COLLECTION, record: false };
    fc.assert(
      fc.property(fc.array(shown, { minLength: 1 }), (answers) => {
        const s = answers.reduce((at, [position, tag]) => answerShown(at, KEY, position, tag), START);
        const [, last] = answers.at(-1) as (typeof answers)[number];
        for (const [position, tag] of answers) {
          const named = position !== null;
          if (named) expect(isOlder(s, target, position, tag, true)).toBe(tag !== last);
        }
      }),
      { numRuns: 2_000 },
    );
  });

  test('an answer without a position is shown where nothing was', () => {
    const target = { key: KEY, scope: COLLECTION, record: false };
    expect(isOlder(START, target, null, '"a"', true)).toBe(false);
  });

  test('C11: a record must be as new as the own write, a query need not', () => {
    const s = answerShown(writeAcknowledged(START, ['/v1/db/c/1', COLLECTION], 10n), '/v1/db/c/1', 5n, '"a"');
    expect(isOlder(s, { key: '/v1/db/c/1', scope: '/v1/db/c/1', record: true }, 9n, '"b"', true)).toBe(true);
    expect(isOlder(s, { key: '/v1/db/c/1', scope: '/v1/db/c/1', record: true }, 9n, '"a"', true)).toBe(true);
    expect(
      isOlder(s, { key: '/v1/db/c/1?fields=a', scope: '/v1/db/c/1', record: true }, 9n, '"b"', true),
    ).toBe(true);
    expect(isOlder(s, { key: '/v1/db/c/1', scope: '/v1/db/c/1', record: true }, 10n, '"b"', true)).toBe(
      false,
    );
    expect(isOlder(s, { key: KEY, scope: COLLECTION, record: false }, 9n, '"b"', true)).toBe(false);
  });

  test('transitions leave the session they start from as it was', () => {
    const before = answerShown(START, KEY, 5n, '"a"');
    answerShown(before, KEY, 9n, '"a"');
    writeAcknowledged(before, [COLLECTION], 9n);
    expect(isOlder(before, { key: KEY, scope: COLLECTION, record: false }, 5n, '"b"', false)).toBe(false);
    expect(START.known[0].size + START.known[1].size).toBe(0);
  });

  test('what was forgotten is taken for the newest that was forgotten', () => {
    let s = writeAcknowledged(answerShown(START, KEY, 7n, '"a"'), ['/v1/db/first'], 8n);
    for (let i = 0; i < KNOWN_KEYS_MAX + 200; i++) s = answerShown(s, `/v1/db/c/${i}`, 3n, '"a"');
    expect(s.known[0].size + s.known[1].size).toBeLessThanOrEqual(KNOWN_KEYS_MAX + 128);
    expect(isOlder(s, { key: KEY, scope: COLLECTION, record: false }, 6n, '"b"', true)).toBe(true);
    // The own write of a forgotten collection is owed still.
    s = sketchArrived(s, { sketch: decodeSketch(encodeSketch({ watermark: 5n })), sentAt: NOW });
    const target = {
      key: '/v1/db/first?limit=1',
      keyed: true,
      scope: '/v1/db/first',
      record: false,
      linearizable: false,
    };
    expect(decide(s, target, { delta: DELTA, causal: false }, NOW).reason).toBe('own-write');
  });
});
