/**
 * An immutable map with a bound. A few recent entries are copied on every change, the rest only when those are full, so
 * that a change costs little. What was written longest ago is given up first, and the caller learns of it: forgetting
 * must always lead to more revalidation, never to less.
 */

/** Entries that are copied with every change. */
const RECENT_ENTRIES_MAX = 64;

export interface Bounded<V> {
  readonly recent: ReadonlyMap<string, V>;
  readonly rest: ReadonlyMap<string, V>;
}

export function empty<V>(): Bounded<V> {
  return { recent: new Map(), rest: new Map() };
}

export function lookup<V>(map: Bounded<V>, key: string): V | undefined {
  return map.recent.get(key) ?? map.rest.get(key);
}

/** The map with `key` set; holds `entriesMax` (and a few recent ones) at most. `forget` sees what was given up. */
export function put<V>(
  map: Bounded<V>,
  key: string,
  value: V,
  entriesMax: number,
  forget: (value: V) => void = () => {},
): Bounded<V> {
  const recent = new Map(map.recent).set(key, value);
  if (recent.size <= RECENT_ENTRIES_MAX) return { recent, rest: map.rest };
  const rest = new Map(map.rest);
  for (const [k, v] of recent) {
    rest.delete(k);
    rest.set(k, v);
  }
  for (const [k, v] of rest) {
    if (rest.size <= entriesMax) break;
    rest.delete(k);
    forget(v);
  }
  return { recent: new Map(), rest };
}
