/**
 * What a session knows, as an immutable value, and the events that change it. No I/O and no clock: moments are
 * arguments, in the milliseconds of one monotonic clock. SPEC.md numbers the invariants.
 */
import { type Bounded, empty, lookup, put } from './bounded.ts';
import type { Sketch } from './sketch.ts';

/** Keys whose last shown answer is remembered (C12). */
export const SHOWN_KEYS_MAX = 20_000;
/** Records and collections whose own writes are remembered (C11). */
export const WRITTEN_SCOPES_MAX = 10_000;
/** Keys that were revalidated since the sketch was taken (C10). */
export const REVALIDATED_KEYS_MAX = 20_000;

/** A sketch and when its request was sent. */
export interface Held {
  readonly sketch: Sketch;
  readonly sentAt: number;
}

/** The newest answer shown for a key. */
export interface Shown {
  readonly position: bigint;
  readonly etag: string | null;
}

export interface Session {
  readonly held: Held | null;
  /** Keys revalidated since `held` arrived. */
  readonly revalidated: Bounded<true>;
  readonly shown: Bounded<Shown>;
  /** No key that was forgotten had been shown at a later position. */
  readonly shownForgotten: bigint;
  /** Position of the last own write, by record path and by collection path. */
  readonly written: Bounded<bigint>;
  /** No scope that was forgotten had been written at a later position. */
  readonly writtenForgotten: bigint;
  /** The highest position of anything shown or written (C13). */
  readonly seen: bigint;
  /** Counts own writes: an answer asked for before one does not serve a read after it. */
  readonly writes: number;
}

export const START: Session = {
  held: null,
  revalidated: empty(),
  shown: empty(),
  shownForgotten: -1n,
  written: empty(),
  writtenForgotten: -1n,
  seen: -1n,
  writes: 0,
};

const later = (a: bigint, b: bigint): bigint => (a > b ? a : b);

/** The moment, on this clock, at which the sketch's watermark was true at the latest it can be proved (C6). */
export function takenAt({ sketch, sentAt }: Held): number {
  return sentAt - sketch.ageMs;
}

/** A sketch arrived. One that proves less than what is held changes nothing. */
export function sketchArrived(session: Session, held: Held): Session {
  if (session.held !== null && takenAt(held) < takenAt(session.held)) return session;
  return { ...session, held, revalidated: empty() };
}

/** An answer for `key` is shown. `position` is null where the answer names none. */
export function answerShown(
  session: Session,
  key: string,
  position: bigint | null,
  etag: string | null,
): Session {
  if (position === null) return session;
  let shownForgotten = session.shownForgotten;
  const before = lookup(session.shown, key);
  const newest = before !== undefined && before.position > position ? before : { position, etag };
  const shown = put(session.shown, key, newest, SHOWN_KEYS_MAX, (gone) => {
    shownForgotten = later(shownForgotten, gone.position);
  });
  return { ...session, shown, shownForgotten, seen: later(session.seen, position) };
}

/** `key` was revalidated by a request that was sent while `under` was held (C10). */
export function keyRevalidated(session: Session, key: string, under: Held | null): Session {
  // A newer sketch may know of a change that this answer does not.
  if (under === null || under !== session.held) return session;
  return { ...session, revalidated: put(session.revalidated, key, true, REVALIDATED_KEYS_MAX) };
}

/** A write was acknowledged at `position`; `scopes` are the paths of its records and of its collection (C11). */
export function writeAcknowledged(session: Session, scopes: readonly string[], position: bigint): Session {
  let { written, writtenForgotten } = session;
  for (const scope of scopes) {
    const newest = later(position, lookup(written, scope) ?? -1n);
    written = put(written, scope, newest, WRITTEN_SCOPES_MAX, (gone) => {
      writtenForgotten = later(writtenForgotten, gone);
    });
  }
  const seen = later(session.seen, position);
  return { ...session, written, writtenForgotten, seen, writes: session.writes + 1 };
}

/** The position of the last own write in `scope`; where that was forgotten, one at or after it. −1 for none. */
export function writtenPosition(session: Session, scope: string): bigint {
  return lookup(session.written, scope) ?? session.writtenForgotten;
}

/** Whether an answer would take back what the session has shown, or what it wrote to this record (C11, C12). */
export function isOlder(
  session: Session,
  target: { readonly key: string; readonly scope: string; readonly record: boolean },
  position: bigint | null,
  etag: string | null,
): boolean {
  const shown = lookup(session.shown, target.key);
  // Equal content takes nothing back: the answer is as good as the one that was shown.
  const at = shown !== undefined && etag !== null && shown.etag === etag ? shown.position : (position ?? -1n);
  const written = target.record ? writtenPosition(session, target.scope) : -1n;
  return at < later(shown?.position ?? session.shownForgotten, written);
}
