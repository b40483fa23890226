/**
 * Where a filter gets no key: an operator that only the database decides, or an operand that is malformed. The request
 * is then sent as it was written, past every cache, and the gateway answers it or says what is wrong with it.
 */
export class Unkeyed extends Error {}

/** Holds, or the filter has no key. */
export function need(holds: unknown): asserts holds {
  if (!holds) throw new Unkeyed();
}
