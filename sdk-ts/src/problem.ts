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
  declare readonly problem: Problem;

  constructor(
    readonly status: number,
    title: string,
    cause?: unknown,
    members?: Partial<Problem>,
    /** Seconds after which to try again, where the gateway says so (429, 503). */
    readonly retryAfter: number | null = null,
  ) {
    const problem = { type: 'about:blank', title, ...members, status };
    super(problem.detail ?? problem.title, { cause });
    this.problem = problem;
  }
}

/** No answer came, or one that cannot be read. */
export const unanswered = (cause: unknown): FreshetError => new FreshetError(0, `No answer: ${cause}`, cause);

/** The error in an answer whose status is not a success. A body that is no problem+json is left out. */
export const refused = (status: number, body: string, retryAfter?: string | null): FreshetError => {
  let problem: Partial<Problem> | undefined;
  try {
    problem = JSON.parse(body);
  } catch {
    // A proxy's error page: its status says enough.
  }
  return new FreshetError(status, `HTTP ${status}`, undefined, problem, Number(retryAfter) || null);
};
