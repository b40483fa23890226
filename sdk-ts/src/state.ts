/** What the parts of one connection share. Values in it are replaced, never changed. */
import type { Clock } from './clock.ts';
import type { Copies } from './copies.ts';
import type { Policy } from './decide.ts';
import type { Flight } from './read.ts';
import type { Session } from './session.ts';

/** The part of `fetch` that is used. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

export interface State extends Policy {
  /** The global one where there is none. */
  readonly fetch: Fetch | undefined;
  readonly clock: Clock;
  /** 0 … 1. */
  readonly random: () => number;
  /** Scheme, authority and mount path of the gateway; no slash at the end. */
  readonly base: string;
  /** Where the sketch is. */
  readonly sketchPath: string;
  session: Session;
  readonly copies: Copies;
  /** Reads on their way, by mode and key. */
  readonly flights: Map<string, Flight>;
  /** The request for a sketch that is on its way. */
  refreshing: Promise<void> | null;
  /** No sketch is asked for before. */
  refreshAfter: number;
  /** Requests for a sketch that failed since one succeeded. */
  refreshFailures: number;
  /** Settles when the last write has. */
  lastWrite: Promise<unknown>;
}
