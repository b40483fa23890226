/** What values of every type are made of. */
import type { Order } from './order.ts';

/** A value's order, by its type and within that, and canonical text. Values of equal order are ordered by their text. */
export type Value = readonly [order: readonly [rank: number, within: Order], text: string];

/** Ranks of types, as MongoDB's `canonicalizeBSONType` orders them. */
export const NUMBER = 10;
export const OBJECT = 20;
export const BINARY = 30;
export const REGEX = 50;

/**
 * Holds, or the filter has no key: an operator that only the database decides, or an operand that is malformed. The request
 * is then sent as it was written, past every cache, and the gateway answers it or says what is wrong with it. Any
 * error on the way to a canonical text means that, so what throws by itself on malformed input needs no check.
 */
export const need: (holds: unknown) => asserts holds = (holds) => {
  if (!holds) throw Error();
};

/** A value whose text is plain JSON; within its type it is ordered by that, if nothing else is said. */
export const leaf = (rank: number, json: unknown, within?: Order): Value => {
  const text = JSON.stringify(json);
  return [[rank, within ?? text], text];
};
