/** Failures of requests, as the gateway describes them (RFC 9457) or as the network left them. */

/** The members of problem+json that the gateway sends. */
export interface Problem {
  readonly type: string;
  readonly title: string;
  /** HTTP status; 0 where no answer came. */
  readonly status: number;
  readonly detail?: string;
  /** RFC 6901 pointer into the offending part of the input. */
  readonly pointer?: string;
}

/** A request that was refused, or that got no answer. */
export class FreshetError extends Error {
  override name = 'FreshetError';
  readonly status: number;
  /** Seconds after which to try again, where the gateway says so (429, 503). */
  readonly retryAfter: number | null;

  constructor(
    readonly problem: Problem,
    options: { cause?: unknown; retryAfter?: number | null } = {},
  ) {
    super(problem.detail ?? problem.title, 'cause' in options ? { cause: options.cause } : undefined);
    this.status = problem.status;
    this.retryAfter = options.retryAfter ?? null;
  }
}

/** No answer came, or one that cannot be read. */
export function unanswered(cause: unknown): FreshetError {
  const problem = {
    type: 'about:blank',
    title: 'No answer from the gateway',
    status: 0,
    detail: String(cause),
  };
  return new FreshetError(problem, { cause });
}

/** The error in an answer whose status is not a success. A body that is no problem+json is left out. */
export function refused(status: number, body: string, retryAfter: string | null): FreshetError {
  let problem: Partial<Problem> = {};
  try {
    problem = JSON.parse(body);
  } catch {
    // A proxy's error page: its status says enough.
  }
  const whole = { type: 'about:blank', title: `HTTP ${status}`, ...problem, status };
  return new FreshetError(whole, { retryAfter: retryAfter === null ? null : Number(retryAfter) || null });
}
