/**
 * The SDK's own store of records: those that answers embedded (C4) and those that own writes left (C11). It holds text,
 * so that no caller can change what another is given.
 */
import type { Decision, Policy, Reason, Target } from './decide.ts';
import { isOlder, type Session } from './session.ts';

/** Records kept; the one put longest ago makes room. */
export const COPIES_MAX = 5_000;
/** Longer records are not kept. */
export const COPY_CHARACTERS_MAX = 65_536;

export interface Copy {
  readonly text: string;
  readonly position: bigint;
  readonly etag: string | null;
  /** The moment from which it must not be used. */
  readonly until: number;
  /** Whether an own write left it. The sketch does not know of such a copy. */
  readonly own: boolean;
}

/** By record key. */
export type Copies = Map<string, Copy>;

/** Keeps the copy unless a newer one is there. */
export function keep(copies: Copies, key: string, copy: Copy): void {
  const before = copies.get(key);
  if (copy.text.length > COPY_CHARACTERS_MAX || (before && before.position > copy.position)) return;
  copies.delete(key);
  copies.set(key, copy);
  const [oldest] = copies.keys();
  if (copies.size > COPIES_MAX) copies.delete(oldest as string);
}

/** Why a copy may answer a read now; false where it may not. */
export function copyReason(
  { own, until, position, etag }: Copy,
  session: Session,
  target: Target,
  policy: Policy,
  { reason }: Decision,
  now: number,
): Reason | false {
  if (target.linearizable || !(now < until) || isOlder(session, target, position, etag)) return false;
  if (!own) return reason === 'fresh' && 'embedded-copy';
  // Bounded by time alone: acknowledged less than Δ ago. Where something later was seen, a write to this record may
  // have come before that (C13).
  return !(policy.causal && session.seen > position) && 'own-copy';
}
