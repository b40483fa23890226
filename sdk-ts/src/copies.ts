/**
 * The SDK's own store of records: those that answers embedded (C4) and those that own writes left (C11). It holds text,
 * so that no caller can change what another is given.
 */
import type { Decision, Policy, Reason, Target } from './decide.ts';
import { isOlder, type Session } from './session.ts';

/** Records kept. */
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

/** Why a copy may answer a read now; null where it may not. */
export function copyReason(
  copy: Copy,
  session: Session,
  target: Target,
  policy: Policy,
  decision: Decision,
  now: number,
): Reason | null {
  if (target.linearizable || !(now < copy.until) || isOlder(session, target, copy.position, copy.etag))
    return null;
  if (!copy.own) return decision.reason === 'fresh' ? 'embedded-copy' : null;
  // Bounded by time alone: acknowledged less than Δ ago. Somebody else's later write that was seen may have
  // followed one to this record (C13).
  return policy.causal && session.seen > copy.position ? null : 'own-copy';
}

/** Copies by record key. The one that was put longest ago makes room. */
export class Copies {
  readonly #byKey = new Map<string, Copy>();

  get(key: string): Copy | undefined {
    return this.#byKey.get(key);
  }

  /** Keeps the copy unless a newer one is there. */
  put(key: string, copy: Copy): void {
    const before = this.#byKey.get(key);
    if (copy.text.length > COPY_CHARACTERS_MAX || (before && before.position > copy.position)) return;
    this.#byKey.delete(key);
    this.#byKey.set(key, copy);
    const [oldest] = this.#byKey.keys();
    if (this.#byKey.size > COPIES_MAX && oldest !== undefined) this.#byKey.delete(oldest);
  }

  delete(key: string): void {
    this.#byKey.delete(key);
  }
}
