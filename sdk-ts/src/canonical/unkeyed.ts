/**
 * Why a filter has no key here: an operator that only the database decides, or an operand that cannot be read. Such a
 * request is sent as it was written, past every cache, and the gateway answers or says what is wrong with it.
 */
export class Unkeyed extends Error {
  override name = 'Unkeyed';
}
