/** What the parts of one connection share. `session` is replaced, never changed. */
import type { Copies } from './copies.ts';
import type { Policy } from './decide.ts';
import type { Session } from './session.ts';
import type { Transport } from './transport.ts';

export interface State {
  session: Session;
  readonly policy: Policy;
  readonly transport: Transport;
  readonly copies: Copies;
  /** 0 … 1. */
  readonly random: () => number;
  /** Scheme and authority of the gateway, and the path it is mounted at; no slash at the end. */
  readonly base: string;
}
