import type {
  CandidateBody,
  DecisionAnswer,
  DecisionRequest,
  EntryAnswer,
  PolicyRow,
  Routes,
  TaskAnswer,
} from "./api.js";
import { Busy, errorOf, HeadwayError, InvalidInput, retryAfterMs, Unavailable } from "./errors.js";
import { type HeadwayEvent, readEvents } from "./events.js";
import { decisionId } from "./ids.js";

export type Candidate = string | CandidateBody;
/** Named numbers about how it went; null takes one back. */
export type Signals = Record<string, number | boolean | null>;
export type Ask = DecisionRequest;
export type Details = Omit<DecisionRequest, "task" | "text" | "candidates">;

export interface HeadwayOptions {
  /** The server's address, without a path; http://127.0.0.1:8765 by default. */
  url?: string;
  /** A key of `headway keys`, or the project token of .headway/token; on this machine only admin verbs need one. */
  key?: string;
  /** How long one attempt may take. */
  timeoutMs?: number;
  /** How often a request that got no answer is sent again, where that cannot count twice. */
  retries?: number;
  /** The longest `Retry-After` that is waited for; a longer one is thrown as `Busy`. */
  longestWaitMs?: number;
  fetch?: typeof fetch;
  wait?: (ms: number) => Promise<void>;
}

type Method = "GET" | "POST";
type Parts<R extends keyof Routes> = Partial<Pick<Routes[R], "path" | "query" | "body">> & {
  headers?: Record<string, string>;
  /** Whether it may be sent again after its answer got lost; by default GET may. */
  repeatable?: boolean;
};

const PASSING = new Set(["stopping", "store_locked"]); // codes of 503 that go away by themselves

/**
 * The verbs of a Headway project, spoken to its server.
 *
 *     const headway = new Headway();
 *     const pick = await headway.decide("route", "Summarise this page", ["small", "large"]);
 *     await headway.signal(pick.id, { reward: 1 });
 */
export class Headway {
  readonly url: string;
  readonly #options: Required<Omit<HeadwayOptions, "url" | "key">>;
  readonly #key: string | undefined;

  constructor(options: HeadwayOptions | string = {}) {
    const given = typeof options === "string" ? { url: options } : options;
    this.url = checkedUrl(given.url ?? "http://127.0.0.1:8765");
    this.#key = given.key;
    this.#options = {
      timeoutMs: given.timeoutMs ?? 30_000,
      retries: given.retries ?? 3,
      longestWaitMs: given.longestWaitMs ?? 30_000,
      fetch: given.fetch ?? ((...values) => globalThis.fetch(...values)),
      wait: given.wait ?? ((ms) => new Promise((done) => setTimeout(done, ms))),
    };
  }

  /** Choose one of the candidates; it is durably logged when this resolves. The same `id` gives the same answer. */
  decide(task: string, text = "", candidates?: Candidate[], details: Details = {}): Promise<DecisionAnswer> {
    const body = { ...details, task, text, id: details.id ?? decisionId(), ...(candidates && { candidates }) };
    return this.request("POST /v1/decisions", { body, repeatable: true });
  }

  /** Up to 1,000 decisions at once: all of them are stored, or none. */
  async decideMany(asks: Ask[]): Promise<DecisionAnswer[]> {
    const decisions = asks.map((each) => ({ ...each, id: each.id ?? decisionId() }));
    return (await this.request("POST /v1/decisions/batch", { body: { decisions }, repeatable: true })).decisions;
  }

  /** Say how a decision or an episode went. Resolves to how many signals were new. */
  signal(id: string, signals: Signals, { label = "", key = "" } = {}): Promise<number> {
    return this.signals([{ id, signals, label, key }]);
  }

  /** Signals about up to 1,000 decisions or episodes: all are stored, or none. */
  async signals(items: { id: string; signals: Signals; label?: string; key?: string }[]): Promise<number> {
    const signals = items.map(({ id, signals: named, label = "", key = "" }) => ({
      subject: id,
      signals: named,
      label,
      // What is taken back twice is an error, so that a repetition needs a key to be known by.
      key: key || (Object.values(named).includes(null) ? `client-${decisionId()}` : ""),
    }));
    return (await this.request("POST /v1/signals", { body: { signals }, repeatable: true })).new;
  }

  /** No decision of this episode comes any more. */
  endEpisode(task: string, episode: string, ending: "terminated" | "truncated" = "terminated"): Promise<void> {
    const path = { task, episode };
    return this.request("POST /v1/tasks/{task}/episodes/{episode}/end", { path, body: { ending }, repeatable: true });
  }

  /** Who decided, why, with which probabilities, and how it went. */
  explain(id: string): Promise<Record<string, unknown>> {
    return this.request("GET /v1/decisions/{decision}", { path: { decision: id } });
  }

  /** Every task: who is current, what waits, how much there is. */
  async status(): Promise<TaskAnswer[]> {
    return (await this.request("GET /v1/tasks", {})).tasks;
  }

  /** Every policy that the ledger names, and where it stands. */
  async policies(task?: string): Promise<PolicyRow[]> {
    return (await this.request("GET /v1/policies", { query: task === undefined ? {} : { task } })).policies;
  }

  /** The header of a policy: what it is, what it was trained on, beside which baselines. */
  policy(reference: string): Promise<Record<string, unknown>> {
    return this.request("GET /v1/policies/{policy}", { path: { policy: reference } });
  }

  /**
   * Make a policy current on its latest evidence; `GateRefused` if that does not carry it. Needs an admin key.
   * `trustKeys`: whose ratings alone may decide it.
   */
  promote(policy: string, task?: string, trustKeys: string[] = []): Promise<EntryAnswer> {
    const body = { ...(task === undefined ? {} : { task }), ...(trustKeys.length ? { trust_keys: trustKeys } : {}) };
    return this.request("POST /v1/policies/{policy}/promote", { path: { policy }, body });
  }

  /** Make the previous policy (or `to`) current again. Needs an admin key. */
  rollback(task: string, { to, why = "" }: { to?: string; why?: string } = {}): Promise<EntryAnswer> {
    const body = to === undefined ? { why } : { why, to };
    return this.request("POST /v1/tasks/{task}/rollback", { path: { task }, body });
  }

  /** Whether a server answers at the address. */
  async healthy(timeoutMs = 2000): Promise<boolean> {
    try {
      const found = await this.#fetch("GET", "/health", {}, undefined, timeoutMs);
      return found.status === 200 && (JSON.parse(found.text) as { status?: string }).status === "ok";
    } catch {
      return false;
    }
  }

  /** What happens, as it happens, until the server stops or you leave the loop (or abort the signal). */
  async *events({ signal }: { signal?: AbortSignal } = {}): AsyncGenerator<HeadwayEvent, void, undefined> {
    const leaving = new AbortController();
    const leave = () => leaving.abort();
    signal?.addEventListener("abort", leave);
    if (signal?.aborted) leave();
    try {
      const headers = { ...this.#headers(), accept: "text/event-stream" };
      const answer = await this.#options.fetch(`${this.url}/v1/events`, { headers, signal: leaving.signal });
      if (!answer.ok || !answer.body) throw errorOf(answer.status, await answer.text(), answer.headers);
      yield* readEvents(answer.body);
    } catch (error) {
      if (signal?.aborted) return;
      throw ours(error);
    } finally {
      leave();
      signal?.removeEventListener("abort", leave);
    }
  }

  /** Any route of the server, typed by its OpenAPI document: `request("GET /v1/reports", { query: { days: 7 } })`. */
  async request<R extends keyof Routes>(route: R, parts: Parts<R>): Promise<Routes[R]["answer"]> {
    const [method, pattern] = route.split(" ") as [Method, string];
    const values = (parts.path ?? {}) as Record<string, string>;
    const path = pattern.replace(/{(\w+)}/g, (_, name: string) => encodeURIComponent(values[name] ?? ""));
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(parts.query ?? {})) if (value !== undefined) query.set(name, `${value}`);
    const body = parts.body === undefined ? undefined : encoded(parts.body);
    const target = `${query}` ? `${path}?${query}` : path;
    const repeatable = parts.repeatable ?? method === "GET";
    for (let attempt = 0; ; attempt++) {
      let told: number | undefined;
      let failure: HeadwayError;
      try {
        const found = await this.#fetch(method, target, parts.headers ?? {}, body, this.#options.timeoutMs);
        if (found.status < 300) return decoded(found.text, found.headers) as Routes[R]["answer"];
        told = retryAfterMs(found.headers);
        failure = errorOf(found.status, found.text, found.headers);
      } catch (error) {
        failure = ours(error);
      }
      const passing = failure.status === 0 || PASSING.has(failure.code);
      const again = failure instanceof Busy || (failure instanceof Unavailable && passing && repeatable);
      const wait = told ?? 100 * 2 ** attempt * (0.5 + Math.random() / 2);
      if (!again || attempt >= this.#options.retries || wait > this.#options.longestWaitMs) throw failure;
      await this.#options.wait(wait);
    }
  }

  #headers(): Record<string, string> {
    return this.#key === undefined ? {} : { authorization: `Bearer ${this.#key}` };
  }

  async #fetch(
    method: Method,
    path: string,
    more: Record<string, string>,
    body: string | undefined,
    timeoutMs: number,
  ): Promise<{ status: number; headers: Headers; text: string }> {
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), timeoutMs);
    try {
      const answer = await this.#options.fetch(this.url + path, {
        method,
        headers: {
          accept: "application/json",
          ...(body === undefined ? {} : { "content-type": "application/json" }),
          ...this.#headers(),
          ...more,
        },
        ...(body === undefined ? {} : { body }),
        redirect: "error",
        signal: late.signal,
      });
      return { status: answer.status, headers: answer.headers, text: await answer.text() };
    } finally {
      clearTimeout(timer);
    }
  }
}

function checkedUrl(url: string): string {
  let found: URL;
  try {
    found = new URL(url);
  } catch (cause) {
    throw badUrl(cause);
  }
  if (!/^https?:$/.test(found.protocol) || found.username || found.password || found.search || found.hash) {
    throw badUrl();
  }
  return found.href.replace(/\/+$/, "");
}

function badUrl(cause?: unknown): InvalidInput {
  const hint = "Write http://127.0.0.1:8765; a key goes into `key`, never into the address.";
  return new InvalidInput("This is not the address of a server.", { code: "bad_url", hint, cause });
}

function encoded(body: unknown): string {
  return JSON.stringify(body, (name: string, value: unknown) => {
    if (typeof value === "number" && !Number.isFinite(value)) {
      const hint = "Leave a value out when it is not known.";
      throw new InvalidInput(`${JSON.stringify(name)} is ${value}, expected a finite number.`, { code: "not_json", hint });
    }
    return value;
  });
}

function decoded(text: string, headers: Headers): unknown {
  if (text === "") return undefined;
  if (!headers.get("content-type")?.startsWith("application/json")) return text;
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new HeadwayError("The server's answer is not JSON.", { code: "not_headway", cause });
  }
}

function ours(error: unknown): HeadwayError {
  if (error instanceof HeadwayError) return error;
  if (error instanceof Error && error.name === "AbortError") {
    const hint = "Raise `timeoutMs`, or look at the server's log.";
    return new Unavailable("The server did not answer in time.", { code: "timeout", hint, cause: error });
  }
  const hint = "Start it in the project's folder: headway serve";
  return new Unavailable("The server cannot be reached.", { code: "no_server", hint, cause: error });
}
