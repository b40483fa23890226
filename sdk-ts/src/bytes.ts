/** Bytes of texts, and bytes to be read as words of this machine. */

const encoder = new TextEncoder();

export const utf8 = (text: string): Uint8Array => encoder.encode(text);

/** The first `length` bytes in a buffer of their own, with zeros where there are no more. */
export const padded = (bytes: Uint8Array, length: number): ArrayBuffer => {
  const copy = new Uint8Array(length);
  copy.set(bytes.subarray(0, length));
  return copy.buffer;
};
