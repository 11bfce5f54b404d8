import type {
  CandidateBody,
  DecisionAnswer,
  DecisionRequest,
  EntryAnswer,
  ExplanationAnswer,
  ImproverAnswer,
  PolicyAnswer,
  PolicyRow,
  PredictionsAnswer,
  RankAnswer,
  RankRequest,
  RoundAnswer,
  Routes,
  TaskAnswer,
} from "./api.js";
import { Busy, errorOf, HeadwayError, InvalidInput, retryAfterMs, Unavailable } from "./errors.js";
import { type HeadwayEvent, readEvents } from "./events.js";
import { decisionId } from "./ids.js";

export type Candidate = string | CandidateBody;
/** Named numbers about the result; null withdraws one. */
export type Signals = Record<string, number | boolean | null>;
export type Ask = DecisionRequest;
export type Details = Omit<DecisionRequest, "task" | "text" | "candidates">;

export interface HeadwayOptions {
  /** The server's address, without a path; http://127.0.0.1:8765 by default. */
  url?: string;
  /** A key from `headway keys`, or the project token in .headway/token; on loopback only admin verbs need one. */
  key?: string;
  /** How long one attempt may take. */
  timeoutMs?: number;
  /** How often an idempotent request without an answer is retried. */
  retries?: number;
  /** The longest `Retry-After` to wait for; a longer one is thrown as `Busy`. */
  longestWaitMs?: number;
  fetch?: typeof fetch;
  wait?: (ms: number) => Promise<void>;
}

type Method = "GET" | "POST";
type Parts<R extends keyof Routes> = Partial<Pick<Routes[R], "path" | "query" | "body">> & {
  headers?: Record<string, string>;
  /** Whether the request may be retried after its answer was lost; by default only GET. */
  repeatable?: boolean;
};

const PASSING = new Set(["stopping", "store_locked"]); // 503 codes that are temporary

/**
 * The verbs of a Headway project, over HTTP.
 *
 *     const headway = new Headway();
 *     const pick = await headway.decide("route", "Summarise this page", ["small", "large"]);
 *     await headway.signal(pick.id, { reward: 1 });
 */
export class Headway {
  readonly url: string;
  readonly #options: Required<Omit<HeadwayOptions, "url" | "key">>;
  readonly #key: string | undefined;
  readonly #warned = new Set<string>();

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

  /** Choose one of the candidates; it is durably logged when this resolves. The same `id` or `idempotency_key` gives the same answer. */
  decide(task: string, text = "", candidates?: Candidate[], details: Details = {}): Promise<DecisionAnswer> {
    const body = named({ ...details, task, text, ...(candidates && { candidates }) });
    return this.request("POST /v1/decisions", { body, repeatable: true });
  }

  /** Up to 1,000 decisions at once: all of them are stored, or none. */
  async decideMany(asks: Ask[]): Promise<DecisionAnswer[]> {
    const decisions = asks.map(named);
    return (await this.request("POST /v1/decisions/batch", { body: { decisions }, repeatable: true })).decisions;
  }

  /** Send signals about a decision or an episode. Resolves to the number of new signals. */
  signal(id: string, signals: Signals, { label = "", key = "" } = {}): Promise<number> {
    return this.signals([{ id, signals, label, key }]);
  }

  /** Signals about up to 1,000 decisions or episodes: all are stored, or none. */
  async signals(items: { id: string; signals: Signals; label?: string; key?: string }[]): Promise<number> {
    const signals = items.map(({ id, signals: named, label = "", key = "" }) => ({
      subject: id,
      signals: named,
      label,
      // Withdrawing twice is an error, so a retry needs a key that identifies it.
      key: key || (Object.values(named).includes(null) ? `client-${decisionId()}` : ""),
    }));
    const answer = await this.request("POST /v1/signals", { body: { signals }, repeatable: true });
    for (const warning of answer.warnings ?? []) this.#warnOnce(warning);
    return answer.new;
  }

  #warnOnce(warning: string): void {
    if (this.#warned.has(warning) || this.#warned.size >= 1000) return;
    this.#warned.add(warning);
    console.warn(`headway: ${warning}`);
  }

  /** End an episode: no decision of it follows. */
  endEpisode(task: string, episode: string, ending: "terminated" | "truncated" = "terminated"): Promise<void> {
    const path = { task, episode };
    return this.request("POST /v1/tasks/{task}/episodes/{episode}/end", { path, body: { ending }, repeatable: true });
  }

  /** Who decided, why, with which probabilities, and the outcome. */
  explain(id: string): Promise<ExplanationAnswer> {
    return this.request("GET /v1/decisions/{decision}", { path: { decision: id } });
  }

  /**
   * Candidates in order of predicted reward, with 80% intervals and advice; nothing is logged. Without a state, a
   * ranking task takes that of its latest decision, which `state_of` names.
   */
  rank(task: string, candidates?: Candidate[], details: Omit<RankRequest, "candidates"> = {}): Promise<RankAnswer> {
    const body = { ...details, ...(candidates && { candidates }) };
    return this.request("POST /v1/tasks/{task}/rank", { path: { task }, body, repeatable: true });
  }

  /** Predicted rewards of the latest decisions beside their outcomes, and the calibration over time. */
  predictions(task: string, query: { policy?: string; limit?: number } = {}): Promise<PredictionsAnswer> {
    return this.request("GET /v1/tasks/{task}/predictions", { path: { task }, query });
  }

  /** Every improver: what it improves, its rounds by verdict, and the branch with what was kept. */
  async improvers(): Promise<ImproverAnswer[]> {
    return (await this.request("GET /v1/improve", {})).improvers;
  }

  /** The latest rounds of an improver, the oldest first. */
  async rounds(improver: string, query: { limit?: number } = {}): Promise<RoundAnswer[]> {
    return (await this.request("GET /v1/improve/{name}/rounds", { path: { name: improver }, query })).rounds;
  }

  /** Every task: current policy, waiting candidates, counts, next step. */
  async status(): Promise<TaskAnswer[]> {
    return (await this.request("GET /v1/tasks", {})).tasks;
  }

  /** Every policy in the ledger, with its state. */
  async policies(task?: string): Promise<PolicyRow[]> {
    return (await this.request("GET /v1/policies", { query: task === undefined ? {} : { task } })).policies;
  }

  /** The header of a policy: family, training data, baselines. */
  policy(reference: string): Promise<PolicyAnswer> {
    return this.request("GET /v1/policies/{policy}", { path: { policy: reference } });
  }

  /**
   * Make a policy current on its latest evidence; `GateRefused` if that does not justify it. Needs an admin key.
   * `trustKeys`: keys whose ratings alone may decide it. `accept`: what else the evidence may rest on: probabilities
   * that a client sent (`trust_claims`), or predictions of held-out rows (`predicts_only`). `at_once`: without steps.
   */
  promote(
    policy: string,
    task?: string,
    trustKeys: string[] = [],
    accept: { trust_claims?: boolean; predicts_only?: boolean; at_once?: boolean } = {},
  ): Promise<EntryAnswer> {
    const trusted = trustKeys.length ? { trust_keys: trustKeys } : {};
    const body = { ...(task === undefined ? {} : { task }), ...trusted, ...accept };
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
      const answer = await this.#fetch("GET", "/health", {}, undefined, timeoutMs);
      return answer.status === 200 && (JSON.parse(answer.text) as { status?: string }).status === "ok";
    } catch {
      return false;
    }
  }

  /** Live events, until the server stops or you leave the loop (or abort the signal). */
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
      let retryMs: number | undefined;
      let failure: HeadwayError;
      try {
        const answer = await this.#fetch(method, target, parts.headers ?? {}, body, this.#options.timeoutMs);
        if (answer.status < 300) return decoded(answer.text, answer.headers) as Routes[R]["answer"];
        retryMs = retryAfterMs(answer.headers);
        failure = errorOf(answer.status, answer.text, answer.headers);
      } catch (error) {
        failure = ours(error);
      }
      const passing = failure.status === 0 || PASSING.has(failure.code);
      const again = failure instanceof Busy || (failure instanceof Unavailable && passing && repeatable);
      const wait = retryMs ?? 100 * 2 ** attempt * (0.5 + Math.random() / 2);
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
  let address: URL;
  try {
    address = new URL(url);
  } catch (cause) {
    throw badUrl(cause);
  }
  if (!/^https?:$/.test(address.protocol) || address.username || address.password || address.search || address.hash) {
    throw badUrl();
  }
  return address.href.replace(/\/+$/, "");
}

function badUrl(cause?: unknown): InvalidInput {
  const hint = "Write http://127.0.0.1:8765; put a key into `key`, not into the address.";
  return new InvalidInput("This is not the address of a server.", { code: "bad_url", hint, cause });
}

/** With an id of its own, so that a retry counts once, unless its name or its place in a request names it already. */
function named(ask: DecisionRequest): DecisionRequest {
  return ask.idempotency_key == null && ask.unit == null ? { ...ask, id: ask.id ?? decisionId() } : ask;
}

function encoded(body: unknown): string {
  return JSON.stringify(body, (name: string, value: unknown) => {
    if (typeof value === "number" && !Number.isFinite(value)) {
      const hint = "Omit a value that is not known.";
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
    const hint = "Raise `timeoutMs`, or check the server's log.";
    return new Unavailable("The server did not answer in time.", { code: "timeout", hint, cause: error });
  }
  const hint = "Start it in the project's folder: headway serve";
  return new Unavailable("The server cannot be reached.", { code: "no_server", hint, cause: error });
}
