/** The order of texts: by code points, which is the order of the UTF-8 bytes and not JavaScript's own. */
export function compareText(a: string, b: string): number {
  let i = 0;
  while (i < a.length && a[i] === b[i]) i++;
  return (a.codePointAt(i) ?? -1) - (b.codePointAt(i) ?? -1);
}
