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

/** Makes one request, and of its response what `take` says. Throws a FreshetError where nothing comes of it. */
export const ask = async <T>(
  { fetch: request = fetch, base }: State,
  path: string,
  init: RequestInit,
  take: (response: Response) => Promise<T>,
): Promise<T> => {
  try {
    return await take(await request(base + path, { credentials: 'omit', ...init }));
  } catch (cause) {
    throw unanswered(cause);
  }
};

/** Sends one request. Throws a FreshetError on a failure and on any status but 2xx and 404. */
export const send = async (state: State, key: string, init: RequestInit): Promise<Answer> => {
  const sentAt = state.clock();
  const since = performance.now();
  const [{ status, ok, headers }, text] = await ask(
    state,
    key,
    init,
    async (response) => [response, await response.text()] as const,
  );
  // A header that is not there is tested as "null", which is nothing here.
  const header = (name: string): string => headers.get(name) as string;
  const found = status !== 404;
  if (found && !ok) throw refused(status, text, header('retry-after'));
  const position = header('freshet-position');
  // M: how long a client may keep the answer.
  const seconds = /(?<!no-store.*)\bmax-age=(\d+)/.exec(header('cache-control'))?.[1] ?? 0;
  // Resource Timing shows no transfer, but a body, exactly where the browser's cache answered.
  const timings = performance.getEntriesByName(new URL(state.base + key).href, 'resource');
  const timing = timings.at(-1) as PerformanceResourceTiming;
  const { transferSize, decodedBodySize } = (timing?.startTime >= since &&
    timing) as PerformanceResourceTiming;
  // How long an answer has lain in the browser's cache cannot be told, so only what came over the network counts.
  const network = transferSize || init.cache !== 'default';
  return {
    found,
    text,
    position: /^\d{1,20}$/.test(position) ? BigInt(position) : null,
    etag: headers.get('etag'),
    sentAt,
    until: sentAt + (network ? 1_000 * +seconds : 0),
    from: !transferSize && decodedBodySize ? 'browser-cache' : 'network',
  };
};
