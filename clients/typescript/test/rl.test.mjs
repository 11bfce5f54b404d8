import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";

import { InvalidInput, MUTATION_TYPES, RLInterface, RLTrainer, Unavailable } from "../dist/index.js";
import { command, project } from "./server.mjs";

const run = promisify(execFile);
const VECTOR = [0.1, -0.2, 0.3];
const STEP = { state: VECTOR, action: 2, reward: 1, nextState: VECTOR, done: false, logProb: -1.6, value: 0.1 };

test("startServer starts a real server, and stopServer stops it", async () => {
  const { folder, remove } = await project();
  const rl = new RLInterface({ server: { command, folder, timeoutMs: 60_000 } });
  try {
    await rl.startServer();
    assert.equal(await rl.checkHealth(), true);
    const pick = await rl.client.decide("route", "Summarise", ["small", "large"]);
    assert.equal(await rl.client.signal(pick.id, { reward: 1 }), 1);
    const uniform = { probabilities: [0.2, 0.2, 0.2, 0.2, 0.2], mutationTypes: [...MUTATION_TYPES] };
    assert.deepEqual(await rl.getActionDistribution(VECTOR), uniform);
    assert.equal(await rl.update(), null);
    assert.equal(await rl.loadCheckpoint("first"), false);
    await assert.rejects(rl.saveCheckpoint("first"), { code: "policy_missing" });
    await assert.rejects(rl.storeExperience({ ...STEP, reward: NaN }), InvalidInput);
    assert.deepEqual(await rl.storeExperience(STEP), { stored: true, bufferSize: 1 });
    await assert.rejects(rl.storeExperience({ ...STEP, state: [1] }), { code: "bad_shape" });
    await assert.rejects(rl.storeExperience({ ...STEP, action: 9 }), InvalidInput);
  } finally {
    await rl.stopServer();
    await remove();
  }
  assert.equal(await rl.checkHealth(), false);
});

test("a trainer trains a real server over HTTP, and checkpoints are names", { timeout: 180_000 }, async () => {
  const { folder, remove } = await project();
  const words = ["alpha", "beta", "gamma", "delta"];
  const embed = (prompt) => words.map((word) => (prompt.includes(word) ? 1 : 0.1));
  const trainer = new RLTrainer({ embed, mutate: (prompt) => prompt, server: { command, folder, timeoutMs: 120_000 } });
  // The right mutation has the number of the word's place.
  trainer.rl.setRewardModel(({ before, action }) => (action.action === words.findIndex((word) => before.includes(word)) ? 1 : 0));
  const right = async () => {
    const found = await Promise.all(words.map((word) => trainer.rl.getActionDistribution(embed(word))));
    return found.reduce((sum, each, at) => sum + each.probabilities[at], 0) / words.length;
  };
  try {
    await trainer.start();
    const prompts = words.flatMap((word) => Array.from({ length: 8 }, (_, at) => `${word} ${at}`));
    const seen = [];
    const options = { numEpisodes: 8, episodeLength: 1, updateInterval: 4, onProgress: (each) => seen.push(each.update?.updateCount) };
    const result = await trainer.train(prompts, options);
    assert.equal(result.updates, 2);
    assert.deepEqual(seen.filter(Boolean), [1, 2]);
    assert.ok((await right()) > 0.21, `the right mutations got ${await right()}`);
    const stats = await trainer.rl.getStats();
    assert.equal(stats.totalUpdates, 2);
    assert.equal(stats.totalEpisodes, 256);
    assert.equal(stats.maxReward, 1);
    assert.ok(stats.avgEntropy > 0 && stats.avgKl >= 0);
    await trainer.rl.saveCheckpoint("second");
    const kept = await trainer.rl.getActionDistribution(embed("alpha"));
    await trainer.train(prompts, { numEpisodes: 4, episodeLength: 1, updateInterval: 4 });
    assert.notDeepEqual(await trainer.rl.getActionDistribution(embed("alpha")), kept);
    assert.equal(await trainer.rl.loadCheckpoint("second"), true);
    assert.deepEqual(await trainer.rl.getActionDistribution(embed("alpha")), kept);
  } finally {
    await trainer.stop();
    await remove();
  }
});

test("the demo runs simulated, without a server", async () => {
  const { stdout } = await run(process.execPath, ["demo/demo.mjs"], { cwd: new URL("..", import.meta.url) });
  const told = JSON.parse(stdout.trim().split("\n").at(-1));
  assert.equal(told.simulated, true);
  assert.ok(told.avgReward > 0.6, stdout);
});

test("the demo runs against a server that it starts", { timeout: 180_000 }, async () => {
  const env = { ...process.env, HEADWAY_COMMAND: JSON.stringify(command), DEMO_EPISODES: "6" };
  const { stdout } = await run(process.execPath, ["demo/demo.mjs", "--full"], { cwd: new URL("..", import.meta.url), env });
  const told = JSON.parse(stdout.trim().split("\n").at(-1));
  assert.deepEqual({ ...told, avgReward: 0 }, { simulated: false, updates: 1, episodes: 144, avgReward: 0 });
});

test("startServer fails if the server is not healthy in time, and leaves nothing behind", async () => {
  const note = await project();
  const pid = join(note.folder, "pid");
  const script = `require("fs").writeFileSync(${JSON.stringify(pid)}, String(process.pid)); setTimeout(() => {}, 60000)`;
  const silent = new RLInterface({ server: { command: [process.execPath, "-e", script, "--"] } });
  await assert.rejects(silent.startServer({ timeoutMs: 2000 }), (error) => {
    assert.ok(error instanceof Unavailable);
    assert.equal(error.code, "not_healthy");
    return true;
  });
  const left = Number(await readFile(pid, "utf8"));
  const gone = () => {
    try {
      return !process.kill(left, 0);
    } catch {
      return true;
    }
  };
  while (!gone()) await new Promise((done) => setTimeout(done, 10));
  await note.remove();
  const absent = new RLInterface({ server: { command: ["no-such-program-of-headway"] } });
  await assert.rejects(absent.startServer(), { code: "not_started" });
  const { folder, remove } = await project('[tasks.route]\nno_such_key = 1\n');
  const broken = new RLInterface({ server: { command, folder, timeoutMs: 60_000 } });
  await assert.rejects(broken.startServer(), (error) => {
    assert.equal(error.code, "not_started");
    assert.match(error.hint, /no_such_key/);
    return true;
  });
  await remove();
});

// A service that answers like the eight endpoints, and records the requests.
async function service() {
  const stored = [];
  const answers = {
    "/health": () => ({ status: "ok" }),
    "/select_action": ({ embedding }) => ({ action: 3, mutation_type: MUTATION_TYPES[3], log_prob: -0.98, value: embedding[0] }),
    "/get_distribution": () => ({ probabilities: [0.1, 0.2, 0.3, 0.2, 0.2], mutation_types: MUTATION_TYPES }),
    "/store_experience": (body) => ({ stored: true, buffer_size: stored.push(body) }),
    "/update": () =>
      stored.length < 8
        ? { message: "Not enough experiences" }
        : { policy_loss: 0.1, value_loss: 0.2, entropy: 1.5, approx_kl: 0, clip_fraction: 0, learning_rate: 3e-4, buffer_size: 0, update_count: 1 },
    "/stats": () => ({ total_updates: 1, total_episodes: 2, avg_reward: 0.5, max_reward: 1, avg_policy_loss: 0.1, avg_value_loss: 0.2, avg_entropy: 1.5, avg_kl: 0 }),
    "/save": () => ({ saved: true }),
    "/load": ({ path }) => (path === "first" ? { loaded: true } : undefined),
  };
  const http = createServer(async (request, response) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    const found = answers[request.url](text ? JSON.parse(text) : {});
    const error = { error: { code: "unknown_policy", message: "No such name.", hint: "" } };
    response.writeHead(found ? 200 : 404, { "content-type": "application/json" }).end(JSON.stringify(found ?? error));
  });
  await new Promise((done) => http.listen(0, "127.0.0.1", done));
  const close = () => {
    http.closeAllConnections();
    return new Promise((done) => http.close(done));
  };
  return { url: `http://127.0.0.1:${http.address().port}`, stored, close };
}

test("the methods of the service send and read its bodies", async () => {
  const { url, stored, close } = await service();
  try {
    const rl = new RLInterface({ url, embed: (prompt) => [prompt.length, 1] });
    const action = { action: 3, mutationType: "constraint-addition", logProb: -0.98, value: 5 };
    assert.deepEqual(await rl.selectMutation("hello"), action);
    assert.equal((await rl.getActionDistribution(VECTOR)).mutationTypes.length, 5);
    assert.deepEqual(await rl.storeExperience(STEP), { stored: true, bufferSize: 1 });
    assert.deepEqual(stored[0], { state: VECTOR, action: 2, reward: 1, next_state: VECTOR, done: false, log_prob: -1.6, value: 0.1 });
    assert.equal(await rl.update(), null);
    assert.equal((await rl.getStats()).avgPolicyLoss, 0.1);
    await rl.saveCheckpoint("first");
    assert.equal(await rl.loadCheckpoint("first"), true);
    assert.equal(await rl.loadCheckpoint("second"), false);
    await assert.rejects(rl.collectExperience("hello"), { code: "no_mutate" });
    await assert.rejects(new RLInterface({ url }).selectMutation("hello"), { code: "no_embed" });
  } finally {
    await close();
  }
});

test("a trainer runs episodes, updates between them and reports progress", async () => {
  const { url, stored, close } = await service();
  try {
    const trainer = new RLTrainer({ url, embed: (prompt) => [prompt.length], mutate: (prompt, kind) => `${prompt} ${kind}` });
    trainer.rl.setRewardModel(({ before, after }) => (after.length > before.length ? 1 : 0));
    const seen = [];
    const options = { numEpisodes: 4, episodeLength: 2, updateInterval: 2, onProgress: (each) => seen.push(each) };
    const found = await trainer.train(["a", "bb"], options);
    assert.deepEqual(found, { episodes: 4, updates: 2, avgReward: 1, maxReward: 1 });
    assert.deepEqual(stored.map((each) => each.done).slice(0, 4), [false, true, false, true]);
    assert.equal(stored.length, 16);
    assert.deepEqual(seen.map((each) => each.update !== null), [false, true, false, true]);
    const early = await trainer.train(["a"], { numEpisodes: 9, onProgress: () => void trainer.stop() });
    assert.equal(early.episodes, 1);
  } finally {
    await close();
  }
});
