/**
 * One request, one answer. Reads carry no header of their own and no credentials: a custom header would cost a
 * preflight per revalidation, and validators are the browser cache's business.
 */
import type { Clock } from './clock.ts';
import type { Mode } from './decide.ts';
import { refused, unanswered } from './problem.ts';

/** The part of `fetch` that is used. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** A successful answer, or a record's 404. */
export interface Answer {
  readonly status: number;
  readonly text: string;
  /** Position of the read or write; null where the answer names none. */
  readonly position: bigint | null;
  readonly etag: string | null;
  readonly location: string | null;
  /** M in milliseconds: how long a client may keep the answer. */
  readonly lifetimeMs: number;
  /** When the request was sent. */
  readonly sentAt: number;
  /** Whether the browser's cache answered; null where that cannot be told. */
  readonly cached: boolean | null;
}

export interface Transport {
  readonly fetch: Fetch;
  readonly clock: Clock;
}

/** `max-age` in milliseconds; 0 for what must not be kept. */
function lifetimeMs(cacheControl: string): number {
  const seconds = /(?:^|[\s,])max-age=(\d+)/.exec(cacheControl);
  return seconds && !cacheControl.includes('no-store') ? Number(seconds[1]) * 1_000 : 0;
}

function position(header: string | null): bigint | null {
  return header !== null && /^\d{1,20}$/.test(header) ? BigInt(header) : null;
}

/** Resource Timing shows no transfer, but a body, exactly where the browser's cache answered. */
function wasCached(url: string, since: number): boolean | null {
  const entry = performance.getEntriesByName(url, 'resource').at(-1) as PerformanceResourceTiming | undefined;
  if (entry === undefined || entry.startTime < since) return null;
  return entry.transferSize > 0 ? false : entry.decodedBodySize > 0 ? true : null;
}

/** Sends one request. Throws a FreshetError on a failure and on any status but 2xx and 404. */
export async function send({ fetch, clock }: Transport, url: string, init: RequestInit): Promise<Answer> {
  const sentAt = clock();
  const started = performance.now();
  let response: Response;
  let text: string;
  try {
    response = await fetch(url, { credentials: 'omit', ...init });
    text = await response.text();
  } catch (error) {
    throw unanswered(error);
  }
  const header = (name: string): string | null => response.headers.get(name);
  if (!response.ok && response.status !== 404) throw refused(response.status, text, header('retry-after'));
  return {
    status: response.status,
    text,
    position: position(header('freshet-position')),
    etag: header('etag'),
    location: header('location'),
    lifetimeMs: lifetimeMs(header('cache-control') ?? ''),
    sentAt,
    cached: wasCached(new URL(url).href, started),
  };
}

/** The init of a read. */
export function readInit(mode: Mode): RequestInit {
  return { cache: mode };
}
