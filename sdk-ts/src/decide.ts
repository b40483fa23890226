/**
 * How a read is made: which fetch cache mode, and why. Total and pure: no clock, no I/O. The rules are C6–C13 of the
 * coherence contract, in the order in which one overrules the next.
 */
import { lookup } from './bounded.ts';
import { type Held, type Session, takenAt, writtenPosition } from './session.ts';
import { contains } from './sketch.ts';

/** Fetch cache modes. `no-cache` revalidates at the nearest shared cache, `reload` at the origin (C9). */
export type Mode = 'default' | 'no-cache' | 'reload';

/** Why a read is made the way it is. */
export type Reason =
  /** default: no stale copy of it exists, as of less than Δ' ago. */
  | 'fresh'
  /** default: in the sketch, and revalidated since that was taken (C10). */
  | 'revalidated'
  /** default: the record as the session's own write left it, or as an answer embedded it. */
  | 'own-copy'
  | 'embedded-copy'
  /** no-cache, and reload in a causal session: a stale copy may exist (C9). */
  | 'in-sketch'
  /** The same; the server lost its state and calls everything stale (C8). */
  | 'saturated'
  /** reload: the gateway alone can tell the key. */
  | 'no-key'
  /** reload: asked for with the call. */
  | 'linearizable'
  /** reload: Δ is 0. */
  | 'no-staleness'
  /** reload: there is no sketch yet (C7). */
  | 'no-sketch'
  /** reload: purging the edge takes Δ or longer, or has no bound (C9). */
  | 'edge-too-slow'
  /** reload: the sketch is older than Δ' (C7). */
  | 'sketch-too-old'
  /** reload: own write that the answer may lack (C11). */
  | 'own-write'
  /** reload: the session saw something newer than the sketch's watermark (C13). */
  | 'ahead-of-sketch'
  /** reload: the first answer was older than one already shown (C12). */
  | 'older-answer';

export interface Decision {
  readonly mode: Mode;
  readonly reason: Reason;
}

/** What a session was opened with. */
export interface Policy {
  /** Δ in milliseconds. */
  readonly stalenessMs: number;
  readonly causal: boolean;
}

/** What is read. */
export interface Target {
  readonly key: string;
  /** Whether `key` is the resource's canonical key. */
  readonly keyed: boolean;
  /** The path of the record, or of the collection for queries and counts: what an own write of it touches. */
  readonly scope: string;
  readonly record: boolean;
  readonly linearizable: boolean;
}

/** Δ' = Δ − Δ_inv in milliseconds (C9); Δ while there is no sketch. */
export function edgeBound(held: Held | null, policy: Policy): number {
  return policy.stalenessMs - (held?.sketch.invalidationMs ?? 0);
}

/** The part of Δ' after which a new sketch is fetched (C10). */
const REFRESH_PART = 0.8;

/** Whether it is time for a new sketch. */
export function isRefreshDue(session: Session, policy: Policy, now: number): boolean {
  const { held, seen } = session;
  if (policy.stalenessMs <= 0) return false; // No sketch is ever used.
  if (held === null || (policy.causal && seen > held.sketch.watermark)) return true;
  return now - takenAt(held) >= REFRESH_PART * edgeBound(held, policy);
}

/** How to make a read of `target` now. */
export function decide(session: Session, target: Target, policy: Policy, now: number): Decision {
  const reload = (reason: Reason): Decision => ({ mode: 'reload', reason });
  const { held } = session;
  if (target.linearizable) return reload('linearizable');
  if (!target.keyed) return reload('no-key');
  if (!(policy.stalenessMs > 0)) return reload('no-staleness');
  if (held === null) return reload('no-sketch');
  const bound = edgeBound(held, policy);
  if (!(bound > 0)) return reload('edge-too-slow');
  if (!(now - takenAt(held) < bound)) return reload('sketch-too-old');

  const { sketch } = held;
  const listed = contains(sketch, target.key);
  const written = writtenPosition(session, target.scope);
  // A newer answer was seen, or the sketch knows of the write and calls the key unchanged by it.
  const ownWriteShown = (lookup(session.shown, target.key)?.position ?? -1n) >= written;
  if (!ownWriteShown && (listed || sketch.watermark < written)) return reload('own-write');
  if (policy.causal && session.seen > sketch.watermark) return reload('ahead-of-sketch');
  if (!listed) return { mode: 'default', reason: 'fresh' };
  if (lookup(session.revalidated, target.key)) return { mode: 'default', reason: 'revalidated' };
  // The edge's answer may be Δ_inv old, hence older than what a causal session has seen.
  return {
    mode: policy.causal ? 'reload' : 'no-cache',
    reason: sketch.saturated ? 'saturated' : 'in-sketch',
  };
}
