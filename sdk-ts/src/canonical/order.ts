/**
 * One order for everything that is sorted: lists member by member, then by length; texts by their UTF-8 bytes, which is the
 * order of code points and not JavaScript's own; numbers of both kinds by what they are, exactly.
 */

// Of its own: a module that is loaded later shares nothing but types, or both would load a third.
const encoder = new TextEncoder();

/** What can be compared: at each place two values hold the same kind, or numbers that say so come before. */
export type Order = number | bigint | string | Uint8Array | readonly Order[];

/** Below 0 where a comes first, 0 where they are equal. */
export const compare = (a: Order, b: Order): number => {
  if (typeof a === 'string') return compare(encoder.encode(a), encoder.encode(b as string));
  if (typeof a !== 'object') return a < (b as number) ? -1 : +(a > (b as number));
  const other = b as readonly Order[];
  for (let i = 0; i < a.length && i < other.length; i++) {
    const difference = compare(a[i] as Order, other[i] as Order);
    if (difference) return difference;
  }
  return a.length - other.length;
};

/** In order, without what is equal. */
export const sortedSet = <T extends Order>(list: T[]): T[] =>
  list.sort(compare).filter((one, i) => !i || compare(list[i - 1] as T, one));
