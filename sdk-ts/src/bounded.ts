/**
 * An immutable map with a bound. A few recent entries are copied on every change, the rest only when those are full, so
 * that a change costs little. What was put longest ago is given up first, and the caller learns of it: forgetting
 * must lead to more revalidation, never to less.
 */

/** Entries that are copied with every change. */
const RECENT_ENTRIES_MAX = 128;

export type Bounded<V> = readonly [recent: ReadonlyMap<string, V>, rest: ReadonlyMap<string, V>];

export function empty<V>(): Bounded<V> {
  return [new Map(), new Map()];
}

export function lookup<V>([recent, rest]: Bounded<V>, key: string): V | undefined {
  return recent.get(key) ?? rest.get(key);
}

/** The map with `key` set; holds `entriesMax` and a few recent ones at most. `forget` sees what was given up. */
export function put<V>(
  [recent, rest]: Bounded<V>,
  key: string,
  value: V,
  entriesMax: number,
  forget: (value: V) => void,
): Bounded<V> {
  const young = new Map(recent).set(key, value);
  if (young.size <= RECENT_ENTRIES_MAX) return [young, rest];
  const all = new Map(rest);
  for (const [k, v] of young) {
    all.delete(k); // What was put again comes last.
    all.set(k, v);
  }
  for (const [k, v] of all) {
    if (all.size <= entriesMax) break;
    all.delete(k);
    forget(v);
  }
  return [new Map(), all];
}
