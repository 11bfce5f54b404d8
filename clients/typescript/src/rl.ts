import { Headway, type HeadwayOptions } from "./client.js";
import { FamilyMissing, InvalidInput, UnknownName } from "./errors.js";
import { type ServerOptions, ServerProcess } from "./server.js";

/** The five ways to change a prompt, in the order of their numbers. */
export const MUTATION_TYPES = [
  "try-catch-style",
  "context-reduction",
  "expansion",
  "constraint-addition",
  "task-decomposition",
] as const;
export type MutationType = (typeof MUTATION_TYPES)[number];

export interface RLAction {
  action: number;
  mutationType: string;
  logProb: number;
  value: number;
}

export interface TrainingExperience {
  state: number[];
  action: number;
  reward: number;
  nextState: number[];
  done: boolean;
  logProb: number;
  value: number;
}

export interface UpdateResult {
  policyLoss: number;
  valueLoss: number;
  entropy: number;
  approxKl: number;
  clipFraction: number;
  learningRate: number;
  bufferSize: number;
  updateCount: number;
}

export interface Stats {
  totalUpdates: number;
  totalEpisodes: number;
  avgReward: number;
  maxReward: number;
  avgPolicyLoss: number;
  avgValueLoss: number;
  avgEntropy: number;
  avgKl: number;
}

/** The reward of a changed prompt: run it and check the answer. */
export type RewardModel = (step: { before: string; after: string; action: RLAction }) => number | Promise<number>;

export interface RLOptions extends HeadwayOptions {
  /** Turns a prompt into the vector that the server's encoder expects. */
  embed?: (prompt: string) => number[] | Promise<number[]>;
  /** Changes a prompt; needed to collect experience. */
  mutate?: (prompt: string, mutationType: string) => string | Promise<string>;
  reward?: RewardModel;
  /** How `startServer` starts one; Node only. */
  server?: ServerOptions;
}

export interface Step {
  before: string;
  after: string;
  action: RLAction;
  reward: number;
  done: boolean;
}

export interface Episode {
  steps: Step[];
  totalReward: number;
  avgReward: number;
}

/** The prompt-mutation service, over its eight endpoints. */
export class RLInterface {
  readonly #options: RLOptions;
  #client: Headway;
  #server: ServerProcess | undefined;
  #reward: RewardModel | undefined;

  constructor(options: RLOptions = {}) {
    this.#options = options;
    this.#client = new Headway(options);
    this.#reward = options.reward;
  }

  /** The client for everything else: decide, signal, promote. */
  get client(): Headway {
    return this.#client;
  }

  /** Starts a server with the loop that learns, and connects to it; rejects if it is not healthy in time. */
  async startServer(options: ServerOptions = {}): Promise<void> {
    if (this.#server) return;
    this.#server = await ServerProcess.start({ learning: true, ...this.#options.server, ...options });
    const { url, token } = this.#server;
    this.#client = new Headway({ ...this.#options, url, key: this.#options.key ?? token });
  }

  /** Stops the server that `startServer` started, and no other. */
  async stopServer(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    await server?.stop();
  }

  checkHealth(): Promise<boolean> {
    return this.#client.healthy();
  }

  async getActionDistribution(embedding: number[]): Promise<{ probabilities: number[]; mutationTypes: string[] }> {
    const answer = await this.#client.request("POST /get_distribution", { body: { embedding }, repeatable: true });
    return { probabilities: answer.probabilities, mutationTypes: answer.mutation_types };
  }

  async selectAction(embedding: number[], deterministic = false): Promise<RLAction> {
    const answer = await this.#client.request("POST /select_action", { body: { embedding, deterministic } });
    return { action: answer.action, mutationType: answer.mutation_type, logProb: answer.log_prob, value: answer.value };
  }

  async selectMutation(prompt: string, deterministic = false): Promise<RLAction> {
    return this.selectAction(await this.#embed(prompt), deterministic);
  }

  async storeExperience(experience: TrainingExperience): Promise<{ stored: boolean; bufferSize: number }> {
    const { nextState, logProb, ...same } = experience;
    const body = { ...same, next_state: nextState, log_prob: logProb };
    const answer = await this.#client.request("POST /store_experience", { body });
    return { stored: answer.stored, bufferSize: answer.buffer_size };
  }

  /** One step: choose a mutation, apply it, judge the result, store the experience. */
  async collectExperience(prompt: string, done = false): Promise<Step> {
    const { mutate } = this.#options;
    if (!mutate) throw missing("mutate", "a function (prompt, mutationType) → prompt");
    if (!this.#reward) throw missing("reward", "a reward model; or call setRewardModel");
    const state = await this.#embed(prompt);
    const action = await this.selectAction(state);
    const after = await mutate(prompt, action.mutationType);
    const reward = await this.#reward({ before: prompt, after, action });
    const nextState = await this.#embed(after);
    const { logProb, value } = action;
    await this.storeExperience({ state, action: action.action, reward, nextState, done, logProb, value });
    return { before: prompt, after, action, reward, done };
  }

  /** Learn from the stored experience; null if there is not enough. */
  async update(): Promise<UpdateResult | null> {
    const answer = await this.#client.request("POST /update", { body: {} });
    if (!("policy_loss" in answer)) return null;
    return camel<UpdateResult>(answer);
  }

  async getStats(): Promise<Stats> {
    return camel<Stats>({ ...(await this.#client.request("GET /stats", {})) });
  }

  /** Up to `maxSteps` mutations of each prompt, one after another. */
  async trainEpisode(prompts: string[], maxSteps = 5): Promise<Episode> {
    const steps: Step[] = [];
    for (const prompt of prompts) {
      let now = prompt;
      for (let at = 0; at < maxSteps; at++) {
        const step = await this.collectExperience(now, at === maxSteps - 1);
        steps.push(step);
        now = step.after;
      }
    }
    const totalReward = steps.reduce((sum, step) => sum + step.reward, 0);
    return { steps, totalReward, avgReward: steps.length ? totalReward / steps.length : 0 };
  }

  /** Save the current policy under a name in the registry (not a path). */
  async saveCheckpoint(name?: string): Promise<void> {
    await this.#client.request("POST /save", { body: name === undefined ? {} : { path: name } });
  }

  /** Make a saved policy current; false if there is none of that name. Needs an admin key. */
  async loadCheckpoint(name: string): Promise<boolean> {
    try {
      await this.#client.request("POST /load", { body: { path: name } });
      return true;
    } catch (error) {
      if (error instanceof UnknownName && !(error instanceof FamilyMissing)) return false;
      throw error;
    }
  }

  setRewardModel(model: RewardModel): void {
    this.#reward = model;
  }

  async #embed(prompt: string): Promise<number[]> {
    const { embed } = this.#options;
    if (!embed) throw missing("embed", "a function prompt → vector of the width that the server's encoder has");
    return embed(prompt);
  }
}

export interface TrainOptions {
  numEpisodes?: number;
  /** Mutations of each prompt in an episode. */
  episodeLength?: number;
  /** Episodes between two updates. */
  updateInterval?: number;
  onProgress?: (progress: Progress) => void;
}

export interface Progress {
  episode: number;
  numEpisodes: number;
  avgReward: number;
  update: UpdateResult | null;
}

export interface TrainResult {
  episodes: number;
  updates: number;
  avgReward: number;
  maxReward: number;
}

/** Alternates episodes and updates. */
export class RLTrainer {
  readonly rl: RLInterface;
  #stopped = false;

  constructor(options: RLOptions = {}) {
    this.rl = new RLInterface(options);
  }

  start(options: ServerOptions = {}): Promise<void> {
    this.#stopped = false;
    return this.rl.startServer(options);
  }

  /** Ends training after the current episode, and stops the server that `start` started. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.rl.stopServer();
  }

  async train(prompts: string[], options: TrainOptions = {}): Promise<TrainResult> {
    const { numEpisodes = 100, episodeLength = 5, updateInterval = 10, onProgress } = options;
    let updates = 0;
    const rewards: number[] = [];
    for (let episode = 1; episode <= numEpisodes && !this.#stopped; episode++) {
      const { avgReward } = await this.rl.trainEpisode(prompts, episodeLength);
      rewards.push(avgReward);
      const due = episode % updateInterval === 0 || episode === numEpisodes;
      const update = due && !this.#stopped ? await this.rl.update() : null;
      if (update) updates++;
      onProgress?.({ episode, numEpisodes, avgReward, update });
    }
    const sum = rewards.reduce((total, reward) => total + reward, 0);
    return {
      episodes: rewards.length,
      updates,
      avgReward: rewards.length ? sum / rewards.length : 0,
      maxReward: rewards.length ? Math.max(...rewards) : 0,
    };
  }
}

function missing(name: string, what: string): InvalidInput {
  return new InvalidInput(`This needs the option \`${name}\`: ${what}.`, { code: `no_${name}` });
}

/** policy_loss → policyLoss. */
function camel<T>(body: Record<string, unknown>): T {
  const pairs = Object.entries(body).map(([name, value]) => [
    name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase()),
    value,
  ]);
  return Object.fromEntries(pairs) as T;
}
