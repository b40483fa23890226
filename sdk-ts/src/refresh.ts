/**
 * Fetches the sketch: when a read finds it due, one request at a time, less and less often while that fails. There is
 * no timer: a session that reads nothing asks nothing.
 */
import { isRefreshDue } from './decide.ts';
import { sketchArrived } from './session.ts';
import { decodeSketch } from './sketch.ts';
import type { State } from './state.ts';
import { ask } from './transport.ts';

/** From one request to the next, at least. */
export const REFRESH_INTERVAL_MS_MIN = 500;
/** Between attempts while they fail, at most. */
export const REFRESH_BACKOFF_MS_MAX = 30_000;
/** A request that takes longer is given up. */
export const REFRESH_TIMEOUT_MS = 10_000;

const fetchSketch = async (state: State): Promise<void> => {
  const sentAt = state.clock();
  try {
    const signal = AbortSignal.timeout(REFRESH_TIMEOUT_MS);
    const sketch = await ask(state, state.sketchPath, { cache: 'no-store', signal }, async (response) => {
      if (!response.ok) throw Error(`HTTP ${response.status}`);
      return decodeSketch(new Uint8Array(await response.arrayBuffer()));
    });
    state.session = sketchArrived(state.session, { sketch, sentAt });
    state.refreshFailures = 0;
    state.refreshAfter = sentAt + REFRESH_INTERVAL_MS_MIN;
  } catch (error) {
    const backoff = Math.min(REFRESH_INTERVAL_MS_MIN * 2 ** state.refreshFailures++, REFRESH_BACKOFF_MS_MAX);
    // Spread over half the time, so that clients do not come back together.
    state.refreshAfter = state.clock() + backoff * (0.5 + state.random() / 2);
    throw error;
  }
};

const start = (state: State): Promise<void> => {
  const attempt = fetchSketch(state);
  const done = (): void => {
    state.refreshing = null;
  };
  state.refreshing = attempt.then(done, done);
  return attempt;
};

/** Starts a request if one is due. Reads go on meanwhile as `decide` says (C7, C10), and show a failure as their reason. */
export const refreshIfDue = (state: State): void => {
  const now = state.clock();
  if (!state.refreshing && now >= state.refreshAfter && isRefreshDue(state.session, state, now)) start(state);
};

/** Fetches the sketch now, after a request that is on its way. */
export const refresh = async (state: State): Promise<void> => {
  while (state.refreshing) await state.refreshing;
  return start(state);
};
