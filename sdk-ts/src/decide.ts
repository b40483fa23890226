/**
 * How a read is made: which fetch cache mode, and why. Total and pure: no clock, no I/O. The rules are C6–C13 of the
 * coherence contract, in the order in which one overrules the next.
 */
import { type Held, knownOf, type Session, takenAt } from './session.ts';
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
  readonly delta: number;
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
  readonly linearizable: boolean | undefined;
}

/** Δ' = Δ − Δ_inv in milliseconds (C9); Δ while there is no sketch. */
export const edgeBound = (held: Held | null, delta: number): number =>
  delta - (held?.sketch.invalidationMs ?? 0);

/** The part of Δ' after which a new sketch is fetched (C10). */
const REFRESH_PART = 0.8;

/** Whether it is time for a new sketch. */
export const isRefreshDue = ({ held, seen }: Session, { delta, causal }: Policy, now: number): boolean => {
  if (!(delta > 0)) return false; // No sketch is ever used.
  if (held === null || (causal && seen > held.sketch.watermark)) return true;
  return now - takenAt(held) >= REFRESH_PART * edgeBound(held, delta);
};

const reloadReason = (
  session: Session,
  target: Target,
  { delta, causal }: Policy,
  now: number,
): Reason | false => {
  const { held, seen } = session;
  if (target.linearizable) return 'linearizable';
  if (!target.keyed) return 'no-key';
  if (!(delta > 0)) return 'no-staleness';
  if (held === null) return 'no-sketch';
  const bound = edgeBound(held, delta);
  if (!(bound > 0)) return 'edge-too-slow';
  if (!(now - takenAt(held) < bound)) return 'sketch-too-old';
  const { written } = knownOf(session, target.scope);
  const { watermark } = held.sketch;
  // Either a newer answer was shown, or the sketch knows of the write and says that it left the key unchanged.
  const owes = knownOf(session, target.key).shown < written;
  if (owes && (watermark < written || contains(held.sketch, target.key))) return 'own-write';
  return causal && seen > watermark && 'ahead-of-sketch';
};

/** How to make a read of `target` now. */
export const decide = (session: Session, target: Target, policy: Policy, now: number): Decision => {
  const reason = reloadReason(session, target, policy, now);
  if (reason) return { mode: 'reload', reason };
  const held = session.held as Held; // Without one there is a reason to reload.
  if (!contains(held.sketch, target.key)) return { mode: 'default', reason: 'fresh' };
  if (knownOf(session, target.key).under === held) return { mode: 'default', reason: 'revalidated' };
  return {
    // The edge's answer may be Δ_inv old, hence older than what a causal session has seen.
    mode: policy.causal ? 'reload' : 'no-cache',
    reason: held.sketch.saturated ? 'saturated' : 'in-sketch',
  };
};
