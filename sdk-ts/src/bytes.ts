/** Bytes of texts, and words of bytes. */

const encoder = new TextEncoder();

export const utf8 = (text: string): Uint8Array => encoder.encode(text);

/** So many bytes as 64-bit words of this machine; zeros where there are no more. */
export const words = (bytes: Uint8Array, length: number): BigUint64Array<ArrayBuffer> =>
  new BigUint64Array(Uint8Array.from({ length }, (_, i) => bytes[i] as number).buffer);
