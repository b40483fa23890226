/**
 * The SDK's own store of records: those that answers embedded (C4) and those that own writes left (C11). It holds text,
 * so that no caller can change what another is given.
 */
import type { Policy, Reason, Target } from './decide.ts';
import { isOlder, type Session } from './session.ts';
import type { Answer } from './transport.ts';

/** Records kept; the one put longest ago makes room. */
export const COPIES_MAX = 5_000;
/** Longer records are not kept. */
export const COPY_CHARACTERS_MAX = 65_536;

/** A copy is an answer that is there already. */
export interface Copy extends Omit<Answer, 'sentAt'> {
  readonly position: bigint;
  /** Whether an own write left it. The sketch does not know of such a copy. */
  readonly own: boolean;
}

/** By record key. */
export type Copies = Map<string, Copy>;

/** Keeps a record, as it was at `position`, unless a newer copy is there. It must not be used from the moment `until`. */
export const keep = (
  copies: Copies,
  key: string,
  item: object,
  position: bigint | null,
  etag: string | null,
  until: number,
  own: boolean,
): void => {
  const text = JSON.stringify(item);
  const before = copies.get(key);
  if (position === null || text.length > COPY_CHARACTERS_MAX || (before && before.position > position))
    return;
  copies.delete(key);
  copies.set(key, { found: true, text, position, etag, until, own, from: 'memory' });
  const [oldest] = copies.keys();
  if (copies.size > COPIES_MAX) copies.delete(oldest as string);
};

/** Why a copy may answer a read now that would otherwise be made for `reason`; false where it may not. */
export const copyReason = (
  { own, until, position, etag, text }: Copy,
  session: Session,
  target: Target,
  { causal }: Policy,
  reason: Reason,
  now: number,
): Reason | false => {
  if (target.linearizable || !(now < until) || isOlder(session, target, position, etag ?? text, true))
    return false;
  if (!own) return reason === 'fresh' && 'embedded-copy';
  // Bounded by time alone: acknowledged less than Δ ago. Where something later was seen, a write to this record may
  // have come before that (C13).
  return !(causal && session.seen > position) && 'own-copy';
};
