/**
 * What a session knows, as an immutable value, and the events that change it. No I/O and no clock: moments are
 * arguments, in the milliseconds of one monotonic clock. SPEC.md numbers the invariants.
 */
import type { Sketch } from './sketch.ts';

/** Keys and collections of which something is known. Those beyond are forgotten, the oldest first. */
export const KNOWN_KEYS_MAX = 10_000;
/** Entries that are copied with every change. */
const RECENT_KEYS_MAX = 128;

/** A sketch and when its request was sent. */
export interface Held {
  readonly sketch: Sketch;
  readonly sentAt: number;
}

/** What is known of a key, or of the path of a record or collection. −1 stands before every position. */
export interface Known {
  /** The highest position of the answers that were shown, and the tag of the last of them (C12). */
  readonly shown: bigint;
  readonly tag: string | null;
  /** Of the last own write to what has this path (C11). */
  readonly written: bigint;
  /** The sketch under which it was revalidated (C10). */
  readonly under: Held | null;
}

export interface Session {
  readonly held: Held | null;
  /**
   * A few recent entries, which are copied with every change, and the rest, which is copied when those are full. What was learnt
   * longest ago is forgotten first (to within the recent ones): that must lead to more revalidation, never to less.
   */
  readonly known: readonly [recent: ReadonlyMap<string, Known>, rest: ReadonlyMap<string, Known>];
  /** Nothing that was forgotten had been shown or written at a later position. */
  readonly forgotten: bigint;
  /** The highest position of anything shown or written (C13). */
  readonly seen: bigint;
  /** Counts own writes: a request from before one does not serve a read after it. */
  readonly writes: number;
}

export const START: Session = {
  held: null,
  known: [new Map(), new Map()],
  forgotten: -1n,
  seen: -1n,
  writes: 0,
};

export const later = (a: bigint, b: bigint): bigint => (a > b ? a : b);

/** What is known of `key`. Of one that may have been forgotten, the most that may have been known. */
export const knownOf = ({ known: [recent, rest], forgotten }: Session, key: string): Known => {
  // That it was written is assumed to be the later, so that no answer counts as showing the write.
  const written = forgotten < 0n ? forgotten : forgotten + 1n;
  return recent.get(key) ?? rest.get(key) ?? { shown: forgotten, tag: null, written, under: null };
};

const learn = (session: Session, key: string, position: bigint, news: Partial<Known>): Session => {
  let { known, forgotten } = session;
  const young = new Map(known[0]).set(key, { ...knownOf(session, key), ...news });
  known = [young, known[1]];
  if (young.size > RECENT_KEYS_MAX) {
    // A map's entries have the place of their key's first occurrence and the value of its last: the young come first.
    const all = [...new Map([...young, ...known[1], ...young])];
    for (const [, gone] of all.splice(KNOWN_KEYS_MAX)) {
      forgotten = later(forgotten, later(gone.shown, gone.written));
    }
    known = [new Map(), new Map(all)];
  }
  return { ...session, known, forgotten, seen: later(session.seen, position) };
};

/** The earliest moment at which the sketch's watermark can have been true (C6). */
export const takenAt = ({ sketch, sentAt }: Held): number => sentAt - sketch.ageMs;

/** A sketch arrived. One that proves less than what is held changes nothing. */
export const sketchArrived = (session: Session, held: Held): Session =>
  session.held && takenAt(held) < takenAt(session.held) ? session : { ...session, held };

/** An answer for `key` is shown. Its position is null where it names none. What tells it from others, `tag`, is its ETag or its text. */
export const answerShown = (session: Session, key: string, position: bigint | null, tag: string): Session => {
  // A position is a lower bound: where it is not above the one known, the content still is the newest (I10).
  const shown = later(position ?? -1n, knownOf(session, key).shown);
  return learn(session, key, shown, { shown, tag });
};

/** `key` was revalidated by a request that was sent while `under` was held (C10). */
export const keyRevalidated = (session: Session, key: string, under: Held | null): Session =>
  learn(session, key, -1n, { under });

/** A write was acknowledged at `position`; `scopes` are the paths of its records and of its collection (C11). */
export const writeAcknowledged = (session: Session, scopes: readonly string[], position: bigint): Session => {
  const after = scopes.reduce(
    (s, scope) => learn(s, scope, position, { written: later(position, knownOf(s, scope).written) }),
    session,
  );
  return { ...after, writes: session.writes + 1 };
};

/**
 * Whether an answer would take back what the session has shown, or what it wrote to this record (C11, C12). One that may be
 * a cache's, `cached`, proves nothing by naming the same position.
 */
export const isOlder = (
  session: Session,
  target: { readonly key: string; readonly scope: string; readonly record: boolean },
  position: bigint | null,
  tag: string,
  cached: boolean,
): boolean => {
  const known = knownOf(session, target.key);
  // Equal content takes nothing back: the answer is as good as the one that was shown.
  const same = known.tag === tag;
  const at = same ? known.shown : (position ?? -1n);
  return (
    at < known.shown ||
    (cached && !same && position === known.shown) ||
    (target.record && at < knownOf(session, target.scope).written)
  );
};
