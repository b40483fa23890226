/**
 * The SDK's only clock: milliseconds that never go back and that count while the machine sleeps. Where it errs it runs
 * fast, which makes sketches look older and costs revalidations, never staleness.
 */

/** Milliseconds since some moment; never goes back. */
export type Clock = () => number;

/** What the wall clock may gain on the monotonic clock between two readings and still be called drift. */
const DRIFT_MS_MAX = 1_000;

/** Monotonic time of `performance`, moved on by the wall clock where that shows that the machine was asleep. */
export const awakeClock = (monotonic: Clock = () => performance.now(), wall: Clock = Date.now): Clock => {
  let [m, w, now] = [monotonic(), wall(), 0];
  return () => {
    const [m2, w2] = [monotonic(), wall()];
    const [elapsed, shown] = [Math.max(m2 - m, 0), w2 - w];
    now += shown > elapsed + DRIFT_MS_MAX ? shown : elapsed;
    [m, w] = [m2, w2];
    return now;
  };
};
