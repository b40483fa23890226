/**
 * One request, one answer. Reads carry no header of their own and no credentials: a custom header would cost a
 * preflight per revalidation, and validators are the browser cache's business.
 */
import { refused, unanswered } from './problem.ts';
import type { State } from './state.ts';

/** An answer of success, or a 404. */
export interface Answer {
  readonly found: boolean;
  readonly text: string;
  /** Position of the read or write; null where the answer names none. */
  readonly position: bigint | null;
  readonly etag: string | null;
  /** When the request was sent. */
  readonly sentAt: number;
  /** The moment until which records embedded in it may be used. */
  readonly until: number;
  /** Who answered; `network` also where it cannot be told. */
  readonly from: 'memory' | 'browser-cache' | 'network';
}

/** Sends one request. Throws a FreshetError on a failure and on any status but 2xx and 404. */
export async function send({ fetch, clock, base }: State, key: string, init: RequestInit): Promise<Answer> {
  const url = base + key;
  const sentAt = clock();
  const since = performance.now();
  let response: Response;
  let text: string;
  try {
    response = await fetch(url, { credentials: 'omit', ...init });
    text = await response.text();
  } catch (error) {
    throw unanswered(error);
  }
  const { status, headers } = response;
  const header = (name: string): string => headers.get(name) ?? '';
  const found = status !== 404;
  if (found && !response.ok) throw refused(status, text, header('retry-after'));
  const position = header('freshet-position');
  // M: how long a client may keep the answer.
  const seconds = /(?<!no-store.*)\bmax-age=(\d+)/.exec(header('cache-control'))?.[1] ?? 0;
  // Resource Timing shows no transfer, but a body, exactly where the browser's cache answered.
  const timing = performance.getEntriesByName(new URL(url).href, 'resource').at(-1);
  const { startTime, transferSize, decodedBodySize } = (timing ?? {}) as PerformanceResourceTiming;
  const [transferred, decoded] = startTime >= since ? [transferSize, decodedBodySize] : [0, 0];
  // How long an answer has lain in the browser's cache cannot be told, so only what came over the network counts.
  const network = transferred || init.cache !== 'default';
  return {
    found,
    text,
    position: /^\d{1,20}$/.test(position) ? BigInt(position) : null,
    etag: headers.get('etag'),
    sentAt,
    until: network ? sentAt + 1_000 * +seconds : sentAt,
    from: !transferred && decoded ? 'browser-cache' : 'network',
  };
}
