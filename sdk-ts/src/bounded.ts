/**
 * An immutable map with a bound. A few recent entries are copied on every change, the rest only when those are full, so
 * that a change costs little. What was put longest ago is given up first (to within the recent ones), and the
 * caller learns of it: forgetting must lead to more revalidation, never to less.
 */

/** Entries that are copied with every change. */
const RECENT_ENTRIES_MAX = 128;

export type Bounded<V> = readonly [recent: ReadonlyMap<string, V>, rest: ReadonlyMap<string, V>];

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
  // A map's entries have the place of their key's first occurrence and the value of its last: the young come first.
  const all = [...new Map([...young, ...rest, ...young])];
  for (const [, gone] of all.splice(entriesMax)) forget(gone);
  return [new Map(), new Map(all)];
}
