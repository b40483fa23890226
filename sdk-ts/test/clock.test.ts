import { expect, test } from 'vitest';
import { awakeClock } from '../src/clock.ts';

function rig(): { clock: () => number; pass: (monotonic: number, wall: number) => void } {
  let [m, w] = [5_000, 1_700_000_000_000];
  const clock = awakeClock(
    () => m,
    () => w,
  );
  return {
    clock,
    pass: (monotonic, wall) => {
      m += monotonic;
      w += wall;
    },
  };
}

test('follows the monotonic clock', () => {
  const { clock, pass } = rig();
  pass(1_500, 1_500);
  expect(clock()).toBe(1_500);
  pass(10, 300); // drift
  expect(clock()).toBe(1_510);
});

test('counts the time that the machine slept', () => {
  const { clock, pass } = rig();
  pass(20, 3_600_000);
  expect(clock()).toBe(3_600_000);
});

test('D8: never goes back with the wall clock', () => {
  const { clock, pass } = rig();
  pass(100, -3_600_000);
  expect(clock()).toBe(100);
  pass(100, 100);
  expect(clock()).toBe(200);
});
