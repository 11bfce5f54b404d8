/** An error of the server: a stable `code`, a message, and a hint about what to do next. */
export class HeadwayError extends Error {
  readonly code: string;
  readonly hint: string;
  /** The HTTP status; 0 without an answer. */
  readonly status: number;

  constructor(message: string, { code, hint = "", status = 0, cause }: ErrorParts) {
    super(hint ? `${message} ${hint}` : message, cause === undefined ? undefined : { cause });
    this.name = new.target.name;
    this.code = code;
    this.hint = hint;
    this.status = status;
  }
}

export interface ErrorParts {
  code: string;
  hint?: string;
  status?: number;
  cause?: unknown;
}

/** Invalid input; nothing was stored. */
export class InvalidInput extends HeadwayError {}

/** An unknown name. */
export class UnknownName extends InvalidInput {}

/** The family that would learn this is not installed (code `family_missing`). */
export class FamilyMissing extends UnknownName {}

/** A conflict with stored data. */
export class Conflict extends HeadwayError {}

/** The evidence does not justify a promotion. */
export class GateRefused extends Conflict {}

/** No key, a wrong one, or one without the scope; or the wrong host. */
export class NotAllowed extends HeadwayError {}

/** Not available now; nothing was lost. */
export class Unavailable extends HeadwayError {}

/** Too much is queued; try again after `retryAfterMs`. */
export class Busy extends Unavailable {
  readonly retryAfterMs: number;

  constructor(message: string, parts: ErrorParts & { retryAfterMs: number }) {
    super(message, parts);
    this.retryAfterMs = parts.retryAfterMs;
  }
}

/** The error for an HTTP answer. */
export function errorOf(status: number, body: string, headers: Headers): HeadwayError {
  let code = "not_headway";
  let message = `The server answered ${status} with a body that is not Headway's.`;
  let hint = "Check the address: it is that of `headway serve`, without a path.";
  try {
    const { error } = JSON.parse(body) as { error: { code: string; message: string; hint?: string } };
    if (typeof error.code === "string" && typeof error.message === "string") {
      ({ code, message } = error);
      hint = error.hint ?? "";
    }
  } catch {
    // a proxy or another program answered
  }
  const parts = { code, hint, status };
  if (code === "gate_refused") return new GateRefused(message, parts);
  if (code === "family_missing") return new FamilyMissing(message, parts);
  if (status === 429) return new Busy(message, { ...parts, retryAfterMs: retryAfterMs(headers) ?? 1000 });
  if (status === 401 || status === 403) return new NotAllowed(message, parts);
  if (status === 404) return new UnknownName(message, parts);
  if (status === 409) return new Conflict(message, parts);
  if (status === 503) return new Unavailable(message, parts);
  if (status >= 400 && status < 500) return new InvalidInput(message, parts);
  return new HeadwayError(message, parts);
}

/** The time of `Retry-After`, which is in seconds or a date. */
export function retryAfterMs(headers: Headers): number | undefined {
  const text = headers.get("retry-after")?.trim() ?? "";
  if (/^\d+$/.test(text)) return Number(text) * 1000;
  const date = Date.parse(text);
  return Number.isNaN(date) ? undefined : Math.max(0, date - Date.now());
}
