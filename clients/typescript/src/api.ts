// Written by scripts/generate.mjs from the server's OpenAPI document; do not edit.

export type Empty = Record<string, never>;

/** The outcomes of what is served have changed: what, where and since when. `rows`: before and after it. */
export interface AlarmAnswer {
  task: string;
  stream: string;
  action: string;
  segment: string;
  since: string;
  from_decision: number;
  before: number;
  after: number;
  rows: [number, number];
  explore: number;
  policy: string;
  at: string;
  seq: number;
  ended: string;
  ended_at: string | null;
  key: string;
  text: string;
}

/** Consecutive decisions up to number `upto`; `explored` is the probability of all but the most likely action. */
export interface BucketAnswer {
  upto: number;
  at: string;
  policy: string;
  decisions: number;
  reward: MeanAnswer;
  explored: number;
}

/** The quality of some predictions, in order of time; None: nothing to compare. */
export interface CalibrationWindow {
  first: number;
  last: number;
  predicted: number;
  sign_accuracy: number | null;
  majority: number | null;
  coverage: number | null;
  error: number | null;
}

export interface CanaryRequest {
  share: number;
  task?: string | null;
}

/** A candidate with its probability then; `predicted` and `std` only if the policy predicts them. */
export interface CandidateAnswer {
  name: string;
  probability: number | null;
  predicted?: number;
  std?: number;
}

/** A candidate with features: text and numbers. */
export interface CandidateBody {
  name: string;
  features?: Record<string, boolean | number | string | number[]>;
}

export interface CheckupAnswer {
  ok: boolean;
  checks: FindingAnswer[];
}

/** Decisions whose probabilities a client sent, and the rule's result on those alone that Headway drew. */
export interface Claims {
  rows: number;
  drawn: number;
  statistic: number;
  statistic_worse: number;
}

/** What the reply should have said (edit), or what is wrong with it (critique). */
export interface CommentRequest {
  kind: "critique" | "edit";
  /** The situation to decide in, as text. */
  text: string;
}

/** The numbers of a run over `x`; nested names are joined by dots, and null means that no line had the number. */
export interface CurvesAnswer {
  run: RunAnswer;
  x_name: string;
  x: number[];
  series: Record<string, (number | null)[]>;
  lines: number;
  lines_per_point: number;
}

export interface Day {
  day: string;
  decisions: number;
  signals: number;
  rewarded: number;
  reward: number | null;
}

/** A decision; it is durably logged before the answer is sent. `heads` and `step` only where an action has heads. */
export interface DecisionAnswer {
  id: string;
  action: string;
  propensity: number;
  policy: string;
  heads?: Record<string, HeadAnswer>;
  step?: number | null;
}

export interface DecisionBatch {
  decisions: DecisionRequest[];
}

/** A decision to make. The client cannot choose the policy or the probability. */
export interface DecisionRequest {
  /** A kind of decision; created on first use unless headway.toml declares tasks. */
  task: string;
  /** The situation to decide in, as text. */
  text?: string;
  candidates?: (string | CandidateBody)[] | null;
  state?: Record<string, boolean | number | string | number[]> | null;
  episode?: string | null;
  step?: number | null;
  role?: string;
  id?: string | null;
  idempotency_key?: string | null;
  unit?: string | null;
  position?: number | null;
  masks?: Record<string, (boolean | string)[] | Record<string, (boolean | string)[]>> | null;
}

export interface DecisionRow {
  id: string;
  task: string;
  at: string;
  text: string;
  action: string;
  propensity: number;
  policy: string;
  episode: string | null;
  step: number | null;
  source: string;
  status: string;
  reward: number | null;
}

export interface DecisionRows {
  decisions: DecisionRow[];
  next: number | null;
  looked: number;
}

export interface DecisionsAnswer {
  decisions: DecisionAnswer[];
}

/** One check of the data. `blocks`: if it fails, there is no verdict on this data. */
export interface Diagnostic {
  name: string;
  value: number;
  limit: number;
  ok: boolean;
  blocks: boolean;
  message: string;
  cure: string;
}

export interface DistributionAnswer {
  probabilities: number[];
  mutation_types: string[];
}

export interface DistributionRequest {
  embedding: number[];
}

/** One head of a stored decision: its choice, and what it was drawn from, given the choice of the first head. */
export interface DrawnHead {
  choice: string;
  index: number;
  propensity: number;
  probabilities: Record<string, number>;
  allowed: string[];
}

/** Two replies to a held-out question. Which policy wrote which is answered after the vote. */
export interface DuelAnswer {
  id: string;
  task: string;
  candidate: string;
  against: string;
  question: string;
  left: string;
  right: string;
}

/** Whom to compare: by default the newest candidate and the current policy. */
export interface DuelRequest {
  policy?: string | null;
  against?: string | null;
}

/** Which reply is better. */
export interface DuelVote {
  preferred: "left" | "neither" | "right";
}

export interface EndRequest {
  ending?: "terminated" | "truncated";
}

/** One row of the ledger: a policy's new state, when, why, and on which evidence. */
export interface EntryAnswer {
  task: string;
  kind: string;
  policy: string;
  policy_hash: string;
  who: string;
  why: string;
  detail: Record<string, unknown>;
  at: string;
  n: number;
  seq: number;
  evidence: string | null;
}

/** One action: its probability, what it cost, and what the policy knew afterwards. */
export interface EpisodeStep {
  action: string;
  probability: number;
  cost: number;
  draft: string;
  check: string;
}

export interface ErrorBody {
  error: ErrorDetail;
}

/** What happened, under a stable code, and what to do next. */
export interface ErrorDetail {
  code: string;
  message: string;
  hint?: string;
  reasons?: string[];
}

/** A number with its interval and the amount of data behind it. */
export interface Estimate {
  value: number;
  low: number;
  high: number;
  n: number;
  ess: number;
  method: string;
  level: number;
}

export interface EstimateAnswer {
  value: number;
  low: number;
  high: number;
  n: number;
  ess: number;
}

/** The input of the gate. The same data hash and policies give equal evidence. */
export interface Evidence {
  task: string;
  kind: string;
  candidate: string;
  candidate_hash: string;
  against: string;
  against_hash: string;
  n: number;
  difference: Estimate;
  values: Record<string, Estimate>;
  statistic: number;
  threshold: number;
  rule: string;
  alpha: number;
  challenger: number;
  promotions: number;
  diagnostics: Diagnostic[];
  guards: Guard[];
  counts: Record<string, number>;
  needed: number | null;
  plan: Plan | null;
  curve: [number, number, number, number][];
  reward_version: string;
  data_hash: string;
  seed: number;
  id: string;
  margin: number;
  statistic_worse: number;
  bounds: [number, number] | null;
  ended: boolean;
  command: string;
  notes: string[];
  raters: RaterShare[];
  trusted: string[];
  config_hash: string;
  behaviour: string;
  declared: Record<string, string>;
  threshold_worse: number | null;
  unchecked: string[];
  prospect: Prospect | null;
  test: string;
  waiting: Waiting | null;
  claims: Claims | null;
  final_s: number;
  seen_s: number;
}

export interface EvidenceRow {
  id: string;
  task: string;
  policy_hash: string;
  at: string;
  candidate: string;
  against: string;
  kind: string;
  n: number;
  state: string;
  word: string;
  text: string;
  bounds: [number, number] | null;
  value: number | null;
  low: number | null;
  high: number | null;
}

export interface EvidencesAnswer {
  evidence: EvidenceRow[];
}

export interface ExperienceRequest {
  state: number[];
  action: number;
  reward: number;
  next_state: number[];
  done: boolean;
  log_prob: number;
  value: number;
}

/** A candidate that gets a share of the traffic until its test ends; `ended` is empty while it runs. */
export interface ExperimentAnswer {
  task: string;
  policy: string;
  policy_hash: string;
  against: string;
  share: number;
  since: string;
  who: string;
  from_decision: number;
  decisions: number;
  uplift: number | null;
  most: number;
  ended: string;
  ended_at: string | null;
  forecast: VerdictForecast | null;
  waiting: number;
  unit: string;
  verdict: string | null;
  difference: number | null;
  interval: [number, number] | null;
  running: boolean;
  progress: number | null;
}

export interface ExperimentRequest {
  policy?: string | null;
  share?: number | null;
}

export interface ExperimentsAnswer {
  experiments: ExperimentAnswer[];
}

/** One call of a request: where it went, how it ended, and what it took. */
export interface ExplainedAttempt {
  id: string;
  upstream: string;
  at: string;
  propensity: number | null;
  status: string;
  code: string;
  http_status?: number;
  latency_s?: number;
  first_token_s?: number;
  prompt_tokens?: number;
  completion_tokens?: number;
  cached_tokens?: number;
  cost_usd?: number;
  left_out: string[];
}

/** How a decision was made: policy, reason, probabilities and outcome. */
export interface ExplanationAnswer {
  id: string;
  task: string;
  at: string;
  text: string;
  state: Record<string, boolean | number | string | number[]>;
  episode: string | null;
  step: number | null;
  role: string;
  policy: string;
  policy_hash: string;
  exploration: string;
  source: string;
  draw: string;
  assigned: string;
  action: string;
  propensity: number | null;
  candidates: CandidateAnswer[];
  signals: SignalAnswer[];
  outcome: OutcomeAnswer;
  parts: Record<string, number>;
  why: string;
  heads?: Record<string, DrawnHead>;
  reply?: ReplyText;
  request?: string;
  attempts?: ExplainedAttempt[];
  served?: string;
  confidence: number | null;
}

/** One check; `ok` is null where it only informs. */
export interface FindingAnswer {
  name: string;
  found: string;
  ok: boolean | null;
  cure: string;
}

/** A reply. Rate it by its id: POST /v1/decisions/{id}/signals {"stars": 5}. */
export interface GenerateAnswer {
  id: string;
  task: string;
  text: string;
  policy: string;
  propensity: number;
  finish: string;
  prompt_tokens: number;
  completion_tokens: number;
  dropped_turns: number;
  latency_s: number;
  seed: number;
}

/** What to answer: a prompt, or a conversation. What is omitted comes from the task's settings. */
export interface GenerateRequest {
  /** The situation to decide in, as text. */
  prompt?: string;
  messages?: GenerateTurn[];
  task?: string;
  episode?: string | null;
  role?: string;
  max_tokens?: number | null;
  temperature?: number | null;
  top_p?: number | null;
  stop?: string[];
  seed?: number | null;
  stream?: boolean;
}

/** One message of the conversation. */
export interface GenerateTurn {
  role: "assistant" | "system" | "user";
  /** The situation to decide in, as text. */
  content: string;
}

/** The policies of a task that were evaluated on held-out hosts, newest first, and one evaluation; null: none. */
export interface GrowAnswer {
  task: string;
  evaluated: string[];
  evaluation: GrowEvaluation | null;
}

/** One host from start to end: its slots, its validation accuracy, and the operation of each epoch. */
export interface GrowEpisode {
  slots: SlotLane[];
  accuracy: number[];
  operations: string[];
}

/** One `headway grow evaluate`: ways on the same hosts, the learned one first, and some of its episodes. */
export interface GrowEvaluation {
  task: string;
  policies: string[];
  at: string;
  hosts: number;
  seed: number;
  source: string;
  ways: GrowWay[];
  episodes: GrowEpisode[];
}

/** A way of growing on held-out hosts: means, the 95% interval of `net`, and the first way's lead over it. */
export interface GrowWay {
  way: string;
  policies: number;
  net: number;
  low: number;
  high: number;
  test_accuracy: number;
  rent: number;
  parameters: number;
  behind: number;
  behind_low: number;
  behind_high: number;
}

/** A metric that must not get worse by more than its tolerance (cost, latency, failures, a segment). */
export interface Guard {
  name: string;
  difference: Estimate;
  tolerance: number;
  ok: boolean;
  message: string;
  undecided: boolean;
  needed: number | null;
  cure: string;
}

export interface GuardAnswer {
  tolerance: number;
  direction: string;
  range: [number, number] | null;
}

/** One head of an action: its choice, and what it was drawn from, given the choice of the first head. */
export interface HeadAnswer {
  choice: string;
  index: number;
  propensity: number;
  probabilities: Record<string, number>;
  allowed: string[];
}

export interface Health {
  status: "ok";
}

/** An improver of headway.toml: what it improves, and how far it is. */
export interface ImproverAnswer {
  name: string;
  scope: string;
  metric: string;
  direction: string;
  task: string;
  runs: number;
  rounds: number;
  verdicts: Record<string, number>;
  branch: string;
  ended: string;
}

export interface ImproversAnswer {
  improvers: ImproverAnswer[];
}

/** Work of a worker: queued, running, done or failed. */
export interface JobAnswer {
  job: number;
  kind: string;
  state: string;
  done: number;
  total: number | null;
  result: unknown;
  at: string;
  ended: string | null;
}

export interface JobsAnswer {
  jobs: JobAnswer[];
}

/** A key without its secret. */
export interface KeyAnswer {
  name: string;
  scopes: string[];
  created: string;
  expires: string | null;
  revoked: string | null;
  valid: boolean;
}

export interface KeysAnswer {
  keys: KeyAnswer[];
}

/** One kit, and the names that it adds. `problem`: why it, or a route of it, cannot be used. */
export interface KitAnswer {
  name: string;
  summary: string;
  built_in: boolean;
  problem?: string;
  kinds?: string[];
  families?: string[];
  worlds?: string[];
  encoders?: string[];
  formats?: string[];
  evidence?: string[];
  commands?: string[];
}

export interface KitsAnswer {
  kits: KitAnswer[];
}

/** A model that can be fetched by its name. */
export interface KnownModel {
  name: string;
  about: string;
  licence: string;
}

export interface LearnRequest {
  family?: string | null;
  seed?: number | null;
}

export interface LearnedAnswer {
  policy: string;
  text: string;
}

export interface LedgerAnswer {
  ledger: EntryAnswer[];
}

/** A row of a verdict's tables: name, value, whether it passed, and the remedy. */
export interface LineAnswer {
  name: string;
  text: string;
  ok: boolean;
  estimate: EstimateAnswer | null;
  cure: string;
}

export interface LinkAnswer {
  path: string;
}

export interface LoadRequest {
  path: string;
}

/** A model in the cache; `problem` is empty if it is intact. */
export interface LocalModel {
  name: string;
  kind: string;
  bytes: number;
  source: Record<string, string>;
  added: string;
  problem: string;
}

export interface LocalModelsAnswer {
  cache: string;
  models: LocalModel[];
  not_here: KnownModel[];
}

/** The mean of n values with its normal 95% interval; null without values. */
export interface MeanAnswer {
  n: number;
  value: number | null;
  low: number | null;
  high: number | null;
}

/** A number with its 95% interval. */
export interface MeasureAnswer {
  value: number;
  low: number;
  high: number;
}

/** A model as OpenAI's and Anthropic's SDKs read it. */
export interface Model {
  id: string;
  object?: string;
  type?: string;
  created?: number;
  created_at?: string;
  owned_by: string;
  display_name: string;
}

/** All models at once: there are never more pages. */
export interface Models {
  object?: string;
  data: Model[];
  has_more?: boolean;
  first_id: string | null;
  last_id: string | null;
}

/** A name inside the registry, never a path. */
export interface NamedRequest {
  path?: string | null;
}

/** The next command for a task, the reason, and the evidence behind it. */
export interface NextStepAnswer {
  verb: string;
  command: string;
  why: string;
  evidence: string | null;
}

export type Nothing = Record<string, never>;

/** An upstream that did not answer, as its breaker saw it: who, since when, until when, and what it led to. */
export interface Outage {
  upstream: string;
  since: string;
  opened: string;
  until: string | null;
  code: string;
  failures: number;
  elsewhere: number;
  text: string;
}

/** The reward of a decision, from its signals under one reward version. */
export interface OutcomeAnswer {
  status: string;
  reward: number | null;
  clipped: boolean;
}

/** One action or policy: its count, mean reward and signals. */
export interface PartAnswer {
  name: string;
  decisions: number;
  share: number;
  reward: MeanAnswer;
  signals: Record<string, MeanAnswer>;
}

/** A registered test: the number of decisions, fixed in advance. */
export interface Plan {
  horizon: number;
  uplift: number;
  power: number;
  alpha: number;
  margin: number;
  from_seq: number;
  from_decision: number | null;
}

export interface PoliciesAnswer {
  policies: PolicyRow[];
}

/** The header of a policy, with its reference and hash. */
export interface PolicyAnswer {
  task: string;
  family: string;
  kind: string;
  encoder: string;
  knobs: Record<string, unknown>;
  tensors: TensorSpec[];
  parameters: number;
  trained_on: Record<string, unknown>;
  split: Record<string, unknown>;
  metrics: Record<string, number>;
  baselines: Record<string, number>;
  seed: number;
  versions: Record<string, string>;
  parent: string | null;
  extra: Record<string, unknown>;
  format: number;
  policy: string;
  policy_hash: string;
}

export interface PolicyRow {
  policy: string;
  policy_hash: string;
  task: string;
  state: string;
  at: string;
  name: string;
  does: string;
}

/** A decision: the predicted reward of its action with an 80% interval, and the reward that came. */
export interface PredictionRow {
  decision: string;
  at: string;
  action: string;
  policy: string;
  origin: string;
  predicted: number;
  low: number | null;
  high: number | null;
  reward: number;
}

/** Predictions of the latest decisions, the oldest first, and how good they were over time. */
export interface PredictionsAnswer {
  task: string;
  predictions: PredictionRow[];
  windows: CalibrationWindow[];
  overall: CalibrationWindow | null;
  decisions: number;
  left_out: Record<string, number>;
}

/** A run of `headway sim run` on the file. */
export interface ProblemRun {
  solver: string;
  results: string;
  done: number;
  of: number;
  passed: number;
  running: boolean;
}

export interface PromoteRequest {
  task?: string | null;
  trust_keys?: string[];
  trust_claims?: boolean;
  predicts_only?: boolean;
  at_once?: boolean;
  why?: string;
}

/** What a test can still show: the largest difference that is likely, and the decisions that would show it. */
export interface Prospect {
  likely: number;
  needed: number | null;
  most: number;
}

/** A promotion that takes over the traffic in steps. */
export interface RampState {
  task: string;
  policy: string;
  against: string;
  shares: number[];
  step: number;
  share: number;
  since: string;
  decisions: number;
  counted: number;
  least: number;
  held: string;
  unit: string;
  text: string;
}

/** Candidates, the best first. `state_of`: the decision whose state was assumed. */
export interface RankAnswer {
  task: string;
  policy: string;
  ranking: RankedCandidate[];
  state_of: string | null;
}

/** What to rank. Without a state, a ranking task takes that of its latest decision. */
export interface RankRequest {
  candidates?: (string | CandidateBody)[] | null;
  /** The situation to decide in, as text. */
  text?: string;
  state?: Record<string, boolean | number | string | number[]> | null;
  role?: string;
  policy?: string | null;
}

/** A candidate with its predicted reward; the interval holds 80% of rewards if the policy is calibrated. */
export interface RankedCandidate {
  name: string;
  predicted: number;
  std: number | null;
  low: number | null;
  high: number | null;
  advice: string;
  features: Record<string, unknown>;
}

/** A signal that several raters gave. `compared`: their ratings differ, so habits can be told. */
export interface RatedSignalAnswer {
  signal: string;
  items: number;
  mean: number;
  compared: boolean;
  raters: RaterAnswer[];
}

/** One rater: bias in the signal's unit, noise as a standard deviation, the probability of a reversed scale. */
export interface RaterAnswer {
  rater: string;
  ratings: number;
  bias: number;
  bias_std: number;
  noise: number;
  scale: number;
  scale_std: number;
  reversed: number;
}

/** One rater's share of an evidence, and the rule's result without its ratings. A decision with several raters counts for each of them, so shares may add up to more than 1. Without a rater, decisions that others rated too keep the others' reward, and decisions that only it rated carry no information. */
export interface RaterShare {
  name: string;
  rows: number;
  share: number;
  uplift: number | null;
  own: boolean;
  others: number;
  statistic: number;
  threshold: number;
  statistic_worse: number;
  threshold_worse: number;
  region: string;
  members: string[];
}

export interface RatersAnswer {
  task: string;
  consensus: boolean;
  signals: RatedSignalAnswer[];
}

/** 1 to 5 stars, or + and - as thumbs; it replaces the caller's earlier mark. */
export interface RatingRequest {
  mark: string;
}

export interface RecentAnswer {
  task: string;
  decisions: number;
  window: number;
  trend: BucketAnswer[];
  actions: PartAnswer[];
  policies: PartAnswer[];
  signals: string[];
}

/** Replies of a task, the newest first. */
export interface RepliesAnswer {
  replies: ReplyRow[];
}

/** What the caller said about a reply. */
export interface ReplyRating {
  stars?: number | null;
  thumb?: number | null;
  edit?: string;
  critique?: string;
}

/** A reply with the prompt that it answers. `rated`: by anybody. */
export interface ReplyRow {
  id: string;
  at: string;
  episode: string | null;
  policy: string;
  prompt: string;
  text: string;
  model: string;
  foreign: boolean;
  finish: string;
  tokens: number;
  latency_s: number;
  dropped_turns: number;
  rated: boolean;
  raters: number;
  mine: ReplyRating;
}

/** What was answered, as far as it was kept; `foreign`: by an upstream. */
export interface ReplyText {
  text: string;
  model: string;
  foreign: boolean;
}

export interface ReportAnswer {
  task: string;
  decisions: number;
  signals: number;
  episodes: number;
  outcomes: Record<string, number>;
  sources: Record<string, number>;
  actions: Record<string, number>;
  first: string | null;
  last: string | null;
  days: Day[];
}

export interface ReportsAnswer {
  reports: ReportAnswer[];
}

/** A reply task: its latest replies as a whole and over time, the oldest first. */
export interface RoleAnswer {
  task: string;
  current: string;
  replies: number;
  rated: number;
  whole: RolePoint | null;
  trend: RolePoint[];
}

/** Consecutive replies of a role: means of their reward, tokens and seconds. */
export interface RolePoint {
  at: string;
  replies: number;
  reward: number | null;
  tokens: number | null;
  latency_s: number | null;
}

export interface RolesAnswer {
  roles: RoleAnswer[];
}

export interface RollbackRequest {
  to?: string | null;
  why?: string;
}

/** A round: the proposal, the prediction before it, both measurements, the verdict and its reason. */
export interface RoundAnswer {
  run: string;
  round: number;
  proposal: string;
  type: string;
  verdict: string;
  why: string;
  code: string;
  decision: string;
  propensity: number;
  predicted: number | null;
  low: number | null;
  high: number | null;
  pairs: number;
  before: number | null;
  after: number | null;
  gain: number | null;
  reward: number | null;
  commit: string;
}

/** The latest rounds of an improver, over all runs, the oldest first. */
export interface RoundsAnswer {
  improver: ImproverAnswer;
  rounds: RoundAnswer[];
}

/** One training run: running, stopped, done or interrupted. */
export interface RunAnswer {
  run: string;
  state: string;
  task: string;
  family: string;
  world: string;
  seed: number | null;
  policy: string;
  command: string;
  started: string;
  updated: string;
}

export interface RunsAnswer {
  runs: RunAnswer[];
}

export interface SelectAnswer {
  action: number;
  mutation_type: string;
  log_prob: number;
  value: number;
}

export interface SelectRequest {
  embedding: number[];
  deterministic?: boolean;
}

/** The caller: the name of the key, and its scopes. */
export interface SessionAnswer {
  key: string;
  scopes: string[];
  project: string;
  synthetic: boolean;
}

/** The settings of a task that the page shows; `reward` is empty if a function computes it. */
export interface SettingsAnswer {
  task: string;
  kind: string;
  family: string;
  actions: string[];
  reward: Record<string, TermAnswer>;
  reward_function: string | null;
  required: string[];
  range: [number, number];
  explore: string;
  explore_value: number;
  floor: number;
  retrain_after: number;
  promote: string;
  canary: number;
  gate: string;
  margin: number;
  guards: Record<string, GuardAnswer>;
}

export interface SettingsFileAnswer {
  file: string | null;
  lines: SettingsLine[];
}

/** A line of headway.toml; `table` is the one that it belongs to. Secrets are redacted. */
export interface SettingsLine {
  line: number;
  table: string;
  text: string;
}

/** A named number (or label) about how a decision or an episode went, from one rater. */
export interface SignalAnswer {
  subject: string;
  name: string;
  value: number | null;
  label: string;
  rater: string;
  key: string;
  at: number;
  seq: number;
}

export interface SignalBatch {
  signals: SignalItem[];
  /** Decisions may not have arrived yet; their signals wait for them. */
  early?: boolean;
}

/** Signals about one decision or episode. */
export interface SignalItem {
  subject: string;
  signals: Record<string, boolean | number | null>;
  label?: string;
  /** Repeating the key counts once. */
  key?: string;
}

export interface SignalsAnswer {
  new: number;
  /** Signals that nothing reads, one sentence each. */
  warnings?: string[];
}

/** One episode of a policy on a held-out problem. */
export interface SimEpisodeAnswer {
  task: string;
  policy: string;
  problem: string;
  number: number;
  of: number;
  statement: string;
  steps: EpisodeStep[];
  solved: boolean;
  value: number;
}

/** The problem file that policies of a task practised on; empty if none did. */
export interface SimOverviewAnswer {
  task: string;
  file: string;
  problems: number;
  rates: SolveRate[];
  runs: ProblemRun[];
}

/** A slot over the epochs of an episode; a value per epoch each, `blueprints` are empty where there is no seed. */
export interface SlotLane {
  slot: string;
  stages: string[];
  blueprints: string[];
  alphas: number[];
  contributions: number[];
}

/** The share of first drafts that pass. */
export interface SolveRate {
  family: string;
  solver: string;
  rate: number;
  problems: number;
  held_out: boolean;
}

/** A mean with its 95% interval. */
export interface SpanAnswer {
  value: number;
  low: number;
  high: number;
}

/** `avg_reward` and `max_reward` are of the stored steps; losses, entropy and KL are means over the updates. */
export interface StatsAnswer {
  total_updates: number;
  total_episodes: number;
  avg_reward: number;
  max_reward: number;
  avg_policy_loss: number;
  avg_value_loss: number;
  avg_entropy: number;
  avg_kl: number;
}

export interface StopRequest {
  why?: string;
}

export interface StoredAnswer {
  stored: boolean;
  buffer_size: number;
}

/** The events of a task, oldest first. */
export interface StoryAnswer {
  task: string;
  events: StoryEventAnswer[];
}

/** One event: when, what, and who did it; `kind` says what of. */
export interface StoryEventAnswer {
  at: string;
  kind: string;
  text: string;
  who: string;
  policy: string | null;
  evidence: string | null;
  word: string | null;
}

/** One task: its current policy, candidate and counts. */
export interface TaskAnswer {
  task: string;
  kind: string;
  family: string;
  current: string;
  current_hash: string;
  canary: string | null;
  experiment: ExperimentAnswer | null;
  candidates: string[];
  decisions: number;
  signals: number;
  outcomes: Record<string, number>;
  sources: Record<string, number>;
  until_retrain: number;
  evidence: string | null;
  next: NextStepAnswer;
  kit_missing: string | null;
  alarms: AlarmAnswer[];
  outages: Outage[];
  warnings: string[];
  verdict: TaskVerdictAnswer | null;
  unit: string;
  units: number;
  ramp: RampState | null;
  worth: WorthAnswer | null;
}

/** The verdict on a task's candidate: better, worse, too early, no difference or cannot tell, and one sentence. */
export interface TaskVerdictAnswer {
  word: string;
  text: string;
  candidate: string;
  against: string;
  more: number | null;
  forecast: VerdictForecast | null;
  evidence: string;
}

export interface TasksAnswer {
  tasks: TaskAnswer[];
}

export interface TensorSpec {
  name: string;
  dtype: string;
  shape: number[];
}

export interface TermAnswer {
  weight: number;
  transform: string;
  low: number | null;
  high: number | null;
}

export interface TradeoffAnswer {
  task: string;
  quality: string;
  cost: string;
  decisions: number;
  points: TradeoffPointAnswer[];
  constants: Record<string, TradeoffPointAnswer>;
}

/** One policy; `weight` is what a unit of cost is worth in units of quality; null: the cheapest. */
export interface TradeoffPointAnswer {
  weight: number | null;
  quality: SpanAnswer;
  cost: SpanAnswer;
  shares: Record<string, number>;
}

/** A verdict as text, with its evidence. `fresh`: it compares with the present current policy. */
export interface VerdictAnswer {
  id: string;
  task: string;
  candidate: string;
  candidate_hash: string;
  against: string;
  against_hash: string;
  state: string;
  word: string;
  headline: string;
  summary: string;
  reasons: string[];
  hint: string;
  difference: EstimateAnswer | null;
  estimated: boolean;
  bounds: [number, number] | null;
  needed: number | null;
  forecast: VerdictForecast | null;
  n: number;
  margin: number;
  kind: string;
  unit: string;
  earned: string;
  method: string;
  values: LineAnswer[];
  checks: LineAnswer[];
  guards: LineAnswer[];
  counts: [string, string][];
  notes: string[];
  recompute: [string, string][];
  curve: ([number, number | null, number | null, number | null])[];
  current: boolean;
  fresh: boolean;
  next: NextStepAnswer;
}

/** How many more of what a test counts bring a verdict, most likely, and how long that takes at the present rate. */
export interface VerdictForecast {
  low: number;
  high: number | null;
  soon: boolean;
  unit: string;
  per_day: number | null;
  open: number;
  until: string | null;
  text: string;
}

/** Which policy wrote which reply, under which decision the vote is stored, and the votes so far. */
export interface VotedAnswer {
  decision: string;
  left: string;
  right: string;
  votes: VotesAnswer;
}

/** The votes on two policies, and the e-value after each of them; the gate passes at `passes_at`. */
export interface VotesAnswer {
  task: string;
  candidate: string;
  against: string;
  wins: number;
  losses: number;
  ties: number;
  e_value: number;
  passes_at: number;
  votes: number[];
  e_values: number[];
}

/** Decisions after the maturity mark: they count in a test once nearly all outcomes of their time are in. */
export interface Waiting {
  decisions: number;
  open: number;
  counting: number;
  until: number;
  final_s: number;
}

/** What was written where. It counts once the programs that decide are started again. */
export interface WeightAnswer {
  file: string;
  line: number;
  signal: string;
  before: number | null;
  after: number;
  next: string;
}

export interface WeightRequest {
  signal: string;
  weight: number;
}

/** What a task saves per 1,000 requests, and how much quality it keeps, against always taking one action. Quality is the reward without its cost terms. `saved` is negative if the task costs more. `ratio` is None where the quality of `against` is not clearly above 0; `gap` is then the difference. `cost` is the signal that counts the money, `cost_known` the share of decisions that have it. */
export interface WorthAnswer {
  state: string;
  text: string;
  policy: string;
  promoted: boolean;
  against: string;
  unit: string;
  cost: string;
  saved: MeasureAnswer | null;
  ratio: MeasureAnswer | null;
  gap: MeasureAnswer | null;
  decisions: number;
  cost_known: number;
  since: string | null;
  requests: number;
  saved_since: number | null;
  weight: string;
}

/** Every route: what is in its path, its query and its body, and what it answers. */
export interface Routes {
  /** The same, as a step of an episode. */
  "POST /e/{episode}/v1/chat/completions": { path: { episode: string }; query: Empty; body: unknown; answer: Record<string, unknown> };
  /** The same, as a step of an episode. */
  "POST /e/{episode}/v1/messages": { path: { episode: string }; query: { beta?: boolean }; body: unknown; answer: Record<string, unknown> };
  /** The same, under an episode's base URL. */
  "GET /e/{episode}/v1/models": { path: { episode: string }; query: { limit?: number; after_id?: string; before_id?: string }; body: undefined; answer: Models };
  /** The same, as a step of an episode. */
  "POST /e/{episode}/v1/responses": { path: { episode: string }; query: Empty; body: unknown; answer: Record<string, unknown> };
  /** A reply of a task's local model; with `stream`, server-sent events with `text`, and the whole at the end. */
  "POST /generate": { path: Empty; query: Empty; body: GenerateRequest; answer: GenerateAnswer };
  /** The probability of each mutation. */
  "POST /get_distribution": { path: Empty; query: Empty; body: DistributionRequest; answer: DistributionAnswer };
  /** Whether the server answers, and can write: 503 with the reason while the store refuses writes. */
  "GET /health": { path: Empty; query: Empty; body: undefined; answer: Health };
  /** Make a kept policy current. */
  "POST /load": { path: Empty; query: Empty; body: LoadRequest; answer: Record<string, unknown> };
  /** Counters in Prometheus' text format. */
  "GET /metrics": { path: Empty; query: Empty; body: undefined; answer: string };
  /** Trades a one-time code for the page's cookie. */
  "GET /open": { path: Empty; query: { code: string }; body: undefined; answer: void };
  /** This document. */
  "GET /openapi.json": { path: Empty; query: Empty; body: undefined; answer: Record<string, unknown> };
  /** Keep the present policy under a name. */
  "POST /save": { path: Empty; query: Empty; body?: NamedRequest; answer: Record<string, unknown> };
  /** Choose one of the five mutations for an embedded prompt. */
  "POST /select_action": { path: Empty; query: Empty; body: SelectRequest; answer: SelectAnswer };
  /** How learning went so far. */
  "GET /stats": { path: Empty; query: Empty; body: undefined; answer: StatsAnswer };
  /** Keep one step for the next update. */
  "POST /store_experience": { path: Empty; query: Empty; body: ExperienceRequest; answer: StoredAnswer };
  /** Learn from the stored steps: a worker does, and the answer waits for it. Reading goes on meanwhile. */
  "POST /update": { path: Empty; query: Empty; body?: Nothing; answer: Record<string, unknown> };
  /** OpenAI's chat completions; `model: "headway/TASK"` decides among upstreams, and `id` is the decision's id. */
  "POST /v1/chat/completions": { path: Empty; query: Empty; body: unknown; answer: Record<string, unknown> };
  /** Decisions that match, newest first, in pages. */
  "GET /v1/decisions": { path: Empty; query: { task?: string; text?: string; action?: string; policy?: string; status?: "censored" | "failed" | "pending" | "rewarded"; reward_from?: number; reward_to?: number; since?: string; until?: string; before?: number; limit?: number }; body: undefined; answer: DecisionRows };
  /** Choose one of the candidates; 201: decided and durably logged; 200: this id was decided before. */
  "POST /v1/decisions": { path: Empty; query: Empty; body: DecisionRequest; answer: DecisionAnswer };
  /** Decide up to 1,000 at once: all of them are stored, or none. */
  "POST /v1/decisions/batch": { path: Empty; query: Empty; body: DecisionBatch; answer: DecisionsAnswer };
  /** How a decision was made: policy, reason, probabilities and outcome. */
  "GET /v1/decisions/{decision}": { path: { decision: string }; query: Empty; body: undefined; answer: ExplanationAnswer };
  /** Store the better text of a reply, or a critique; the caller's last one of each kind counts. */
  "POST /v1/decisions/{decision}/comments": { path: { decision: string }; query: Empty; body: CommentRequest; answer: ReplyRating };
  /** Withdraw everything that the caller said about a reply: marks, edit and critique. */
  "DELETE /v1/decisions/{decision}/rating": { path: { decision: string }; query: Empty; body: undefined; answer: ReplyRating };
  /** Rate a reply with one mark. */
  "PUT /v1/decisions/{decision}/rating": { path: { decision: string }; query: Empty; body: RatingRequest; answer: ReplyRating };
  /** Named numbers about a decision; null withdraws one. With an `Idempotency-Key` a repeated request counts once. */
  "POST /v1/decisions/{decision}/signals": { path: { decision: string }; query: { early?: boolean }; body: Record<string, boolean | number | null>; answer: void };
  /** What `headway doctor --quick` finds, or `headway doctor` if it is to be thorough: in a process of its own. */
  "GET /v1/doctor": { path: Empty; query: { thorough?: boolean }; body: undefined; answer: CheckupAnswer };
  /** Server-sent events: hello, decisions, signals, ledger, progress, missed, stopping. */
  "GET /v1/events": { path: Empty; query: Empty; body: undefined; answer: string };
  /** All evidence, newest first. */
  "GET /v1/evidence": { path: Empty; query: { task?: string; limit?: number }; body: undefined; answer: EvidencesAnswer };
  /** Everything that the gate judges. */
  "GET /v1/evidence/{evidence}": { path: { evidence: string }; query: Empty; body: undefined; answer: Evidence };
  /** The gate's verdict on evidence under the present rules, as text. */
  "GET /v1/evidence/{evidence}/verdict": { path: { evidence: string }; query: Empty; body: undefined; answer: VerdictAnswer };
  /** The running experiment of each task, or else its last one: progress, expected end and verdict so far. */
  "GET /v1/experiments": { path: Empty; query: { task?: string }; body: undefined; answer: ExperimentsAnswer };
  /** A coding agent's event after a shell command; whether tests passed or a change was kept becomes a signal. */
  "POST /v1/hooks/{task}": { path: { task: string }; query: Empty; body: unknown; answer: Record<string, unknown> };
  /** The improvers of this project. */
  "GET /v1/improve": { path: Empty; query: Empty; body: undefined; answer: ImproversAnswer };
  /** The rounds of an improver: kept, reverted, failed and refused proposals, with the reason of each. */
  "GET /v1/improve/{name}/rounds": { path: { name: string }; query: { limit?: number }; body: undefined; answer: RoundsAnswer };
  /** The latest jobs, newest first. */
  "GET /v1/jobs": { path: Empty; query: Empty; body: undefined; answer: JobsAnswer };
  /** One job. */
  "GET /v1/jobs/{job}": { path: { job: string }; query: Empty; body: undefined; answer: JobAnswer };
  /** The keys of this project, without their secrets. */
  "GET /v1/keys": { path: Empty; query: Empty; body: undefined; answer: KeysAnswer };
  /** The kits in use, and those that cannot be used with the reason. */
  "GET /v1/kits": { path: Empty; query: Empty; body: undefined; answer: KitsAnswer };
  /** Every change of the live policy, oldest first. */
  "GET /v1/ledger": { path: Empty; query: { task?: string }; body: undefined; answer: LedgerAnswer };
  /** A path that opens the page once, within ten minutes. */
  "POST /v1/links": { path: Empty; query: Empty; body?: Record<string, null>; answer: LinkAnswer };
  /** The models on this machine, and known ones that are not here. */
  "GET /v1/local_models": { path: Empty; query: Empty; body: undefined; answer: LocalModelsAnswer };
  /** OTLP log records: the events gen_ai.evaluation.result become signals, others are left out. */
  "POST /v1/logs": { path: Empty; query: Empty; body: unknown; answer: Record<string, unknown> };
  /** Anthropic's messages; `model: "headway/TASK"` decides among upstreams, and `id` is the decision's id. */
  "POST /v1/messages": { path: Empty; query: { beta?: boolean }; body: unknown; answer: Record<string, unknown> };
  /** Every task that decides among upstreams, as `headway/TASK`, and every upstream. */
  "GET /v1/models": { path: Empty; query: { limit?: number; after_id?: string; before_id?: string }; body: undefined; answer: Models };
  /** One task. */
  "GET /v1/models/headway/{task}": { path: { task: string }; query: Empty; body: undefined; answer: Model };
  /** One upstream. */
  "GET /v1/models/{model}": { path: { model: string }; query: Empty; body: undefined; answer: Model };
  /** Every policy in the ledger, and its state: candidate, shadow, canary, current or retired. */
  "GET /v1/policies": { path: Empty; query: { task?: string }; body: undefined; answer: PoliciesAnswer };
  /** The header of a policy: its family, training data and baselines. */
  "GET /v1/policies/{policy}": { path: { policy: string }; query: Empty; body: undefined; answer: PolicyAnswer };
  /** Let a candidate decide for a share of the traffic; 0 ends it. */
  "POST /v1/policies/{policy}/canary": { path: { policy: string }; query: Empty; body: CanaryRequest; answer: EntryAnswer };
  /** Make a policy current on its latest evidence; 409 `gate_refused` if the evidence does not suffice. */
  "POST /v1/policies/{policy}/promote": { path: { policy: string }; query: Empty; body?: PromoteRequest; answer: EntryAnswer };
  /** Counts, outcomes and mean reward per task, in total and by day (UTC). */
  "GET /v1/reports": { path: Empty; query: { task?: string; days?: number }; body: undefined; answer: ReportsAnswer };
  /** OpenAI's responses, routed the same way; `previous_response_id` takes a decision's id. */
  "POST /v1/responses": { path: Empty; query: Empty; body: unknown; answer: Record<string, unknown> };
  /** Reward, length and time of the latest replies of every reply task. */
  "GET /v1/roles": { path: Empty; query: { window?: number; points?: number }; body: undefined; answer: RolesAnswer };
  /** Training runs of this project, newest first. */
  "GET /v1/runs": { path: Empty; query: Empty; body: undefined; answer: RunsAnswer };
  /** The curves of a run: every number that it wrote, averaged into at most `points` points. */
  "GET /v1/runs/{run}/metrics": { path: { run: string }; query: { points?: number }; body: undefined; answer: CurvesAnswer };
  /** Ask a running run to stop after its next update; it writes a snapshot, and `command` continues it. */
  "POST /v1/runs/{run}/stop": { path: { run: string }; query: Empty; body?: Record<string, null>; answer: RunAnswer };
  /** The caller and its scopes. */
  "GET /v1/session": { path: Empty; query: Empty; body: undefined; answer: SessionAnswer };
  /** The lines of headway.toml. */
  "GET /v1/settings": { path: Empty; query: Empty; body: undefined; answer: SettingsFileAnswer };
  /** Signals about up to 1,000 decisions or episodes: all are stored, or none. `new` counts changes. */
  "POST /v1/signals": { path: Empty; query: Empty; body: SignalBatch; answer: SignalsAnswer };
  /** Every task of the project. */
  "GET /v1/tasks": { path: Empty; query: Empty; body: undefined; answer: TasksAnswer };
  /** One task. */
  "GET /v1/tasks/{task}": { path: { task: string }; query: Empty; body: undefined; answer: TaskAnswer };
  /** Two replies to a held-out question, one of each policy, in an order that is not disclosed before the vote. */
  "POST /v1/tasks/{task}/duels": { path: { task: string }; query: Empty; body?: DuelRequest; answer: DuelAnswer };
  /** Store which reply is better; the answer says who wrote them. A comparison takes one vote. */
  "POST /v1/tasks/{task}/duels/{duel}/vote": { path: { task: string; duel: string }; query: Empty; body: DuelVote; answer: VotedAnswer };
  /** End an episode: it accepts no more decisions. */
  "POST /v1/tasks/{task}/episodes/{episode}/end": { path: { task: string; episode: string }; query: Empty; body?: EndRequest; answer: void };
  /** Named numbers about a whole episode. The header `Headway-Warning` names a signal that nothing reads. */
  "POST /v1/tasks/{task}/episodes/{episode}/signals": { path: { task: string; episode: string }; query: Empty; body: Record<string, boolean | number | null>; answer: void };
  /** Let a candidate decide on a share of the traffic until its test ends; a running experiment stays as it is. */
  "POST /v1/tasks/{task}/experiment": { path: { task: string }; query: Empty; body?: ExperimentRequest; answer: EntryAnswer };
  /** End the running experiment; the current policy decides alone again. */
  "POST /v1/tasks/{task}/experiment/stop": { path: { task: string }; query: Empty; body?: StopRequest; answer: EntryAnswer };
  /** Ways of growing on held-out hosts, and episodes step by step, as the last evaluation of a policy stored them. */
  "GET /v1/tasks/{task}/grow": { path: { task: string }; query: { policy?: string }; body: undefined; answer: GrowAnswer };
  /** Request a new candidate from a worker; the job shows its progress. */
  "POST /v1/tasks/{task}/learn": { path: { task: string }; query: Empty; body?: LearnRequest; answer: JobAnswer };
  /** Which word, role or field best explains what a policy prefers, in one sentence. */
  "GET /v1/tasks/{task}/learned": { path: { task: string }; query: { policy?: string }; body: undefined; answer: LearnedAnswer };
  /** Predicted rewards of a task's latest decisions beside their outcomes, and the calibration over time. */
  "GET /v1/tasks/{task}/predictions": { path: { task: string }; query: { policy?: string; limit?: number }; body: undefined; answer: PredictionsAnswer };
  /** Candidates in order of predicted reward, with 80% intervals; nothing is logged. */
  "POST /v1/tasks/{task}/rank": { path: { task: string }; query: Empty; body: RankRequest; answer: RankAnswer };
  /** For each signal with several raters: the bias, noise and scale of each; the same as `headway rewards analyze`. */
  "GET /v1/tasks/{task}/raters": { path: { task: string }; query: Empty; body: undefined; answer: RatersAnswer };
  /** A summary of the latest decisions of a task: the trend of its reward, its actions and its policies. */
  "GET /v1/tasks/{task}/recent": { path: { task: string }; query: { window?: number; points?: number }; body: undefined; answer: RecentAnswer };
  /** The latest replies of a task with the caller's ratings; `unrated`: those that nobody has rated. */
  "GET /v1/tasks/{task}/replies": { path: { task: string }; query: { limit?: number; unrated?: boolean }; body: undefined; answer: RepliesAnswer };
  /** Make the previous policy (or `to`) current again, or end a promotion on its way; always allowed. */
  "POST /v1/tasks/{task}/rollback": { path: { task: string }; query: Empty; body?: RollbackRequest; answer: EntryAnswer };
  /** How a task is set up. */
  "GET /v1/tasks/{task}/settings": { path: { task: string }; query: Empty; body: undefined; answer: SettingsAnswer };
  /** Solve rates by family and solver of a task's problem file, and the runs on it. */
  "GET /v1/tasks/{task}/sim": { path: { task: string }; query: Empty; body: undefined; answer: SimOverviewAnswer };
  /** A policy of the task on a held-out problem, step by step; nothing is logged. */
  "GET /v1/tasks/{task}/sim/episode": { path: { task: string }; query: { number?: number; policy?: string }; body: undefined; answer: SimEpisodeAnswer };
  /** What happened to a task, oldest first: learned, proven, promoted, tried, taken back, changed, deleted. */
  "GET /v1/tasks/{task}/story": { path: { task: string }; query: Empty; body: undefined; answer: StoryAnswer };
  /** The curve from the best answer to the cheapest, on the newest decisions; computed in a process of its own. */
  "GET /v1/tasks/{task}/tradeoff": { path: { task: string }; query: Empty; body: undefined; answer: TradeoffAnswer };
  /** The votes on two policies so far; by default on the newest candidate and the current policy. */
  "GET /v1/tasks/{task}/votes": { path: { task: string }; query: { policy?: string; against?: string }; body: undefined; answer: VotesAnswer };
  /** Write the weight of a signal into the task's reward in headway.toml; nothing else in the file changes. */
  "POST /v1/tasks/{task}/weight": { path: { task: string }; query: Empty; body: WeightRequest; answer: WeightAnswer };
  /** OTLP spans: calls of models become decisions, evaluations become signals. */
  "POST /v1/traces": { path: Empty; query: Empty; body: unknown; answer: Record<string, unknown> };
}
