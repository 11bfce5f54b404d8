// The only module that talks to the server. Types come from its OpenAPI document (npm run types).
import type { components } from "./schema";

type Schemas = components["schemas"];
export type Task = Schemas["TaskAnswer"];
export type Alarm = Schemas["AlarmAnswer"];
export type Experiment = Schemas["ExperimentAnswer"];
export type Report = Schemas["ReportAnswer"];
export type EvidenceRow = Schemas["EvidenceRow"];
export type Verdict = Schemas["VerdictAnswer"];
export type Estimate = Schemas["EstimateAnswer"];
export type RawEvidence = Schemas["Evidence"];
export type Line = Schemas["LineAnswer"];
export type Entry = Schemas["EntryAnswer"];
export type Policy = Schemas["PolicyRow"];
export type Recent = Schemas["RecentAnswer"];
export type Part = Schemas["PartAnswer"];
export type Mean = Schemas["MeanAnswer"];
export type TaskSettings = Schemas["SettingsAnswer"];
export type Session = Schemas["SessionAnswer"];
export type Run = Schemas["RunAnswer"];
export type Curves = Schemas["CurvesAnswer"];
export type SettingsFile = Schemas["SettingsFileAnswer"];
export type Key = Schemas["KeyAnswer"];
export type LocalModels = Schemas["LocalModelsAnswer"];
export type Checkup = Schemas["CheckupAnswer"];
export type TradeoffCurve = Schemas["TradeoffAnswer"];
export type TradeoffPoint = Schemas["TradeoffPointAnswer"];
export type WrittenWeight = Schemas["WeightAnswer"];
export type StoryEvent = Schemas["StoryEventAnswer"];
export type DecisionRow = Schemas["DecisionRow"];
export type Job = Schemas["JobAnswer"];
export type Ranking = Schemas["RankAnswer"];
export type RankedCandidate = Schemas["RankedCandidate"];
export type Predictions = Schemas["PredictionsAnswer"];
export type Prediction = Schemas["PredictionRow"];
export type Improver = Schemas["ImproverAnswer"];
export type Rounds = Schemas["RoundsAnswer"];
export type Round = Schemas["RoundAnswer"];
export type SimOverview = Schemas["SimOverviewAnswer"];
export type SimEpisode = Schemas["SimEpisodeAnswer"];
export type Reply = Schemas["ReplyRow"];
export type ReplyRating = Schemas["ReplyRating"];
export type GeneratedReply = Schemas["GenerateAnswer"];
export type Duel = Schemas["DuelAnswer"];
export type VotedDuel = Schemas["VotedAnswer"];
export type Votes = Schemas["VotesAnswer"];
export type Role = Schemas["RoleAnswer"];
export type RolePoint = Schemas["RolePoint"];
export type Raters = Schemas["RatersAnswer"];
export type Grown = Schemas["GrowAnswer"];
export type GrowWay = Schemas["GrowWay"];
export type GrowEpisode = Schemas["GrowEpisode"];

export type Outage = Schemas["Outage"];
export type Attempt = Schemas["ExplainedAttempt"];

export interface Signal {
  name: string;
  value: number | null;
  label: string;
  rater: string;
  at: number;
  seq: number;
}

/** One head of a factored decision, given the choice of the first one. */
export interface HeadDrawn {
  choice: string;
  index: number;
  propensity: number;
  probabilities: Record<string, number>;
  allowed: string[];
}

// GET /v1/decisions/{id}: an open document in the API.
export interface Explained {
  id: string;
  task: string;
  at: string;
  text: string;
  state: Record<string, unknown>;
  episode: string | null;
  step: number | null;
  role: string;
  policy: string;
  policy_hash: string;
  exploration: string;
  source: string;
  assigned: string;
  action: string;
  propensity: number;
  candidates: { name: string; probability: number; predicted?: number; std?: number }[];
  signals: Signal[];
  outcome: { status: string; reward: number | null; clipped: boolean };
  parts: Record<string, number>;
  why: string;
  confidence?: number;
  heads?: Record<string, HeadDrawn>;
  reply?: { text: string; model: string; foreign: boolean };
  request?: string;
  attempts?: Attempt[];
  served?: string;
}

/** What went wrong, in the server's own words where it had any. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint: string,
  ) {
    super(message);
  }

  get needsKey(): boolean {
    return this.status === 401 || this.code === "wrong_scope";
  }
}

interface Failed {
  error?: { code: string; message: string; hint: string };
}

function problemOf(status: number, body: unknown): Problem {
  const error = (body as Failed | null)?.error;
  return new Problem(
    status,
    error?.code ?? "unreadable",
    error?.message ?? `The server answered with status ${status}.`,
    error?.hint ?? "",
  );
}

// The cookie goes to every port of this host; what is stored here, and sent beside it, does not.
const PROOF = "headway-page";

/** Keeps the proof that a link brought along, and gives the address bar its place back. */
export function keepProof(): void {
  const [, proof] = /^#unlock=([0-9a-f]+)$/.exec(location.hash) ?? [];
  if (!proof) return;
  localStorage.setItem(PROOF, proof);
  history.replaceState(null, "", sessionStorage.getItem("place") || "#/");
  sessionStorage.removeItem("place");
}

async function fetched(path: string, options: RequestInit): Promise<Response> {
  const proof = localStorage.getItem(PROOF);
  const headers = { ...(options.headers as Record<string, string>), ...(proof ? { "x-headway-page": proof } : {}) };
  try {
    return await fetch(path, { credentials: "same-origin", ...options, headers });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new Problem(0, "offline", "The server does not answer.", "Start it again in the project's folder: headway up");
  }
}

async function call<T>(path: string, options: RequestInit): Promise<T> {
  const answer = await fetched(path, options);
  if (answer.status === 204) return undefined as T;
  const body: unknown = await answer.json().catch(() => null);
  if (answer.ok) return body as T;
  throw problemOf(answer.status, body);
}

const JSON_BODY = { "content-type": "application/json" };

export const get = <T>(path: string): Promise<T> => call<T>(path, {});

export const post = <T>(path: string, body: unknown, token?: string): Promise<T> =>
  call<T>(path, {
    method: "POST",
    body: JSON.stringify(body),
    headers: { ...JSON_BODY, ...(token ? { authorization: `Bearer ${token}` } : {}) },
  });

export const put = <T>(path: string, body: unknown): Promise<T> =>
  call<T>(path, { method: "PUT", body: JSON.stringify(body), headers: JSON_BODY });

export const remove = <T>(path: string): Promise<T> => call<T>(path, { method: "DELETE" });

/** Calls `each` with the name and the data of every event of an answer that comes in pieces, until it ends. */
export async function events(path: string, options: RequestInit, each: (name: string, data: string) => void): Promise<void> {
  const answer = await fetched(path, options);
  if (!answer.ok || !answer.body) throw problemOf(answer.status, await answer.json().catch(() => null));
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop() ?? "";
    for (const part of parts) {
      const field = (name: string): string => new RegExp(`^${name}: (.*)$`, "m").exec(part)?.[1] ?? "";
      each(field("event"), field("data"));
    }
  }
}

/** The same for the answer to a question, until `signal` aborts it. */
export async function stream<T>(path: string, body: unknown, signal: AbortSignal, each: (event: T) => void): Promise<void> {
  await events(path, { method: "POST", body: JSON.stringify(body), headers: JSON_BODY, signal }, (_, text) => {
    if (!text) return;
    const data = JSON.parse(text) as T & Failed;
    if (data.error) throw problemOf(503, data);
    each(data);
  });
}

export const segment = encodeURIComponent;
