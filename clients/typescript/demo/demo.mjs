// A demo of the prompt-mutation service in JavaScript.
//
//   node demo/demo.mjs            simulated: a small policy in this process answers, without a server
//   node demo/demo.mjs --full     the same episodes against a real server, which `startServer` starts in a temporary folder
//
// There are three kinds of prompts, and a different mutation helps each. The trainer sees embeddings and rewards, not the kind.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { MUTATION_TYPES, RLTrainer } from "../dist/index.js";

const full = process.argv.includes("--full");
const command = JSON.parse(process.env.HEADWAY_COMMAND ?? '["headway"]');
const best = { code: "task-decomposition", slogan: "constraint-addition", essay: "expansion" };
const subjects = ["rain", "trains", "bread", "maps", "bees", "clocks", "boats", "snow"];
const unseen = ["kites", "lamps", "rivers", "doors", "tea", "glue"]; // "kites" and "slogan" hash to the same place
const prompts = Object.keys(best).flatMap((kind) => subjects.map((about) => `Write ${kind} about ${about}.`));

// Words hashed into 32 places: the only thing that the service sees of a prompt.
function embed(prompt) {
  const vector = new Array(32).fill(0);
  for (const word of prompt.toLowerCase().match(/\w+/g) ?? []) {
    let hash = 2166136261;
    for (const letter of word) hash = Math.imul(hash ^ letter.charCodeAt(0), 16777619) >>> 0;
    vector[hash % 32] += hash & 64 ? 1 : -1;
  }
  const length = Math.hypot(...vector) || 1;
  return vector.map((value) => value / length);
}

const mutate = (prompt) => prompt; // what it would become does not matter to this reward
const kindOf = (prompt) => Object.keys(best).find((kind) => prompt.includes(kind));
const reward = ({ before, action }) => (action.mutationType === best[kindOf(before)] ? 1 : 0);

// Stands in for the server: a linear softmax policy with the score-function gradient, and the same eight answers.
function simulated() {
  const weights = MUTATION_TYPES.map(() => new Array(32).fill(0));
  let waiting = [];
  const seen = { updates: 0, episodes: 0, rewards: [] };
  const shares = (state) => {
    const scores = weights.map((row) => Math.exp(row.reduce((sum, each, at) => sum + each * state[at], 0)));
    const total = scores.reduce((sum, each) => sum + each, 0);
    return scores.map((each) => each / total);
  };
  let state = 7;
  const random = () => (state = (Math.imul(state, 1103515245) + 12345) >>> 0) / 2 ** 32;
  const answers = {
    "/health": () => ({ status: "ok" }),
    "/get_distribution": ({ embedding }) => ({ probabilities: shares(embedding), mutation_types: MUTATION_TYPES }),
    "/select_action": ({ embedding, deterministic }) => {
      const given = shares(embedding);
      let left = random();
      let action = given.findIndex((each) => (left -= each) < 0);
      if (deterministic || action < 0) action = given.indexOf(Math.max(...given));
      return { action, mutation_type: MUTATION_TYPES[action], log_prob: Math.log(given[action]), value: 0 };
    },
    "/store_experience": (step) => {
      waiting.push(step);
      seen.rewards.push(step.reward);
      seen.episodes += step.done ? 1 : 0;
      return { stored: true, buffer_size: waiting.length };
    },
    "/update": () => {
      if (waiting.length < 128) return { message: "Not enough experiences" };
      const mean = waiting.reduce((sum, each) => sum + each.reward, 0) / waiting.length;
      for (const { state: x, action, reward: earned } of waiting) {
        const given = shares(x);
        weights.forEach((row, at) => {
          const push = 0.15 * (earned - mean) * ((at === action ? 1 : 0) - given[at]);
          row.forEach((_, place) => (row[place] += push * x[place] * 4));
        });
      }
      waiting = [];
      const zero = { policy_loss: 0, value_loss: 0, entropy: 0, approx_kl: 0, clip_fraction: 0 };
      return { ...zero, learning_rate: 0.15, buffer_size: 0, update_count: ++seen.updates };
    },
    "/stats": () => ({
      total_updates: seen.updates,
      total_episodes: seen.episodes,
      avg_reward: seen.rewards.reduce((sum, each) => sum + each, 0) / Math.max(seen.rewards.length, 1),
      max_reward: Math.max(0, ...seen.rewards),
      ...{ avg_policy_loss: 0, avg_value_loss: 0, avg_entropy: 0, avg_kl: 0 },
    }),
  };
  return async (url, { body } = {}) => Response.json(answers[new URL(url).pathname](body ? JSON.parse(body) : {}));
}

const folder = full ? await mkdtemp(join(tmpdir(), "headway-demo-")) : "";
const trainer = new RLTrainer({
  ...{ embed, mutate, reward },
  ...(full ? { server: { command, folder, timeoutMs: 60_000 } } : { fetch: simulated() }),
});
try {
  if (full) await trainer.start();
  console.log(full ? `A real server over ${folder}.` : "Simulated: no server is running, nothing is stored.");
  const numEpisodes = Number(process.env.DEMO_EPISODES ?? (full ? 60 : 120));
  const result = await trainer.train(prompts, {
    ...{ numEpisodes, episodeLength: 1, updateInterval: 6 },
    onProgress: ({ episode, avgReward, update }) => {
      if (update) console.log(`episode ${episode}: reward ${avgReward.toFixed(2)}, update ${update.updateCount}`);
    },
  });
  console.log(`${result.updates} updates, best episode ${result.maxReward.toFixed(2)}.`);
  for (const [kind, right] of Object.entries(best)) {
    let share = 0;
    for (const about of unseen) {
      const { probabilities } = await trainer.rl.getActionDistribution(embed(`Write ${kind} about ${about}.`));
      share += probabilities[MUTATION_TYPES.indexOf(right)] / unseen.length;
    }
    console.log(`${kind}, subjects never seen: ${right} ${(100 * share).toFixed(0)}% (uniform: 20%)`);
  }
  const stats = await trainer.rl.getStats();
  console.log(JSON.stringify({ simulated: !full, updates: stats.totalUpdates, episodes: stats.totalEpisodes, avgReward: stats.avgReward }));
} finally {
  await trainer.stop();
  if (full) await rm(folder, { recursive: true, force: true });
}
