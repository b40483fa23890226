/**
 * Where a filter gets no key: an operator that only the database decides, or an operand that is malformed. The request
 * is then sent as it was written, past every cache, and the gateway answers it or says what is wrong with it. Any
 * error on the way to a canonical text means that, so what throws by itself on malformed input needs no check.
 */

/** Holds, or the filter has no key. */
export function need(holds: unknown): asserts holds {
  if (!holds) throw Error();
}
