/**
 * Fetches the sketch: when a read finds it due, one request at a time, less and less often while that fails. There is
 * no timer: a session that reads nothing asks nothing.
 */
import { isRefreshDue } from './decide.ts';
import { unanswered } from './problem.ts';
import { sketchArrived } from './session.ts';
import { decodeSketch } from './sketch.ts';
import type { State } from './state.ts';

/** From one request to the next, at least. */
export const REFRESH_INTERVAL_MS_MIN = 500;
/** Between attempts while they fail, at most. */
export const REFRESH_BACKOFF_MS_MAX = 30_000;
/** A request that takes longer is given up. */
export const REFRESH_TIMEOUT_MS = 10_000;

export class Refresh {
  readonly #state: State;
  readonly #url: string;
  #flight: Promise<void> | null = null;
  #notBefore = -Infinity;
  #failures = 0;

  constructor(state: State, url: string) {
    this.#state = state;
    this.#url = url;
  }

  /** Starts a request if one is due. Reads go on meanwhile as `decide` says (C7, C10). */
  kick(): void {
    const { session, policy, transport } = this.#state;
    const now = transport.clock();
    if (this.#flight !== null || now < this.#notBefore || !isRefreshDue(session, policy, now)) return;
    this.#start().catch(() => {}); // Counted in #failures; the reads show it as their reason.
  }

  /** Fetches the sketch now, after a request that is on its way. */
  async now(): Promise<void> {
    while (this.#flight !== null) await this.#flight.catch(() => {});
    await this.#start();
  }

  #start(): Promise<void> {
    this.#flight = this.#fetch().finally(() => {
      this.#flight = null;
    });
    return this.#flight;
  }

  async #fetch(): Promise<void> {
    const { transport } = this.#state;
    const sentAt = transport.clock();
    try {
      const signal = AbortSignal.timeout(REFRESH_TIMEOUT_MS);
      const response = await transport.fetch(this.#url, { credentials: 'omit', cache: 'no-store', signal });
      if (response.status !== 200) throw new Error(`HTTP ${response.status}`);
      const sketch = decodeSketch(new Uint8Array(await response.arrayBuffer()));
      this.#state.session = sketchArrived(this.#state.session, { sketch, sentAt });
      this.#failures = 0;
      this.#notBefore = sentAt + REFRESH_INTERVAL_MS_MIN;
    } catch (error) {
      const backoff = Math.min(REFRESH_INTERVAL_MS_MIN * 2 ** this.#failures++, REFRESH_BACKOFF_MS_MAX);
      // Spread over half the time, so that clients do not come back together.
      this.#notBefore = transport.clock() + backoff * (0.5 + this.#state.random() / 2);
      throw unanswered(error);
    }
  }
}
