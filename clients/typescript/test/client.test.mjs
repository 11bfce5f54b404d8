import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import {
  Busy,
  Conflict,
  decisionId,
  Headway,
  HeadwayError,
  InvalidInput,
  NotAllowed,
  Unavailable,
  UnknownName,
} from "../dist/index.js";
import { network, started } from "./server.mjs";

const ARMS = ["small", "large"];
let server;
let headway;

before(async () => {
  server = await started();
  headway = new Headway(server.url);
});
after(() => server.stop());

const stored = async (task) => (await headway.status()).find((each) => each.task === task)?.decisions ?? 0;

test("a decision is made, signalled and explained", async () => {
  const described = { name: "large", features: { usd: 0.3, kind: "remote" } };
  const pick = await headway.decide("route", "Summarise this page", ["small", described], { state: { length: 3 } });
  assert.ok(ARMS.includes(pick.action));
  assert.ok(pick.propensity > 0 && pick.propensity <= 1);
  assert.equal(await headway.signal(pick.id, { reward: 0.5, solved: true }), 2);
  assert.equal(await headway.signal(pick.id, { reward: 0.5 }), 0);
  const found = await headway.explain(pick.id);
  assert.equal(found.action, pick.action);
  assert.deepEqual(found.state, { length: 3 });
  assert.equal(found.outcome.reward, 0.5);
});

test("batches of decisions and signals are atomic", async () => {
  const made = await headway.decideMany([1, 2, 3].map((n) => ({ task: "batch", text: `${n}`, candidates: ARMS })));
  assert.equal(new Set(made.map((each) => each.id)).size, 3);
  assert.equal(await headway.signals(made.map(({ id }) => ({ id, signals: { reward: 1 } }))), 3);
  const bad = { task: "batch", candidates: ["twice", "twice"] };
  await assert.rejects(headway.decideMany([{ task: "batch", candidates: ARMS }, bad]), InvalidInput);
  assert.equal(await stored("batch"), 3);
});

test("a client's id sorts by time and is stored unchanged", async () => {
  assert.ok(decisionId(1_000) < decisionId(2_000));
  assert.match(decisionId(), /^dec_[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}$/);
  const id = decisionId();
  const first = await headway.decide("mine", "one", ARMS, { id });
  assert.equal(first.id, id);
  assert.deepEqual(await headway.decide("mine", "one", ARMS, { id }), first);
  await assert.rejects(headway.decide("mine", "another", ARMS, { id }), (error) => {
    assert.ok(error instanceof Conflict);
    assert.equal(error.code, "id_conflict");
    return true;
  });
});

test("an episode with any name can be ended", async () => {
  const episode = "½ a? #1";
  await headway.decide("walk", "", ARMS, { episode });
  await headway.endEpisode("walk", episode, "truncated");
  await assert.rejects(headway.decide("walk", "", ARMS, { episode }), { code: "episode_ended" });
});

test("events report changes, and end when the loop is left", async () => {
  const names = [];
  for await (const event of headway.events()) {
    names.push(event.name);
    if (event.name === "hello") await headway.decide("watched", "", ARMS);
    if (event.name === "decisions" && names.length > 3) break;
  }
  assert.equal(names[0], "hello");
  const leaving = new AbortController();
  for await (const event of headway.events({ signal: leaving.signal })) if (event.name === "hello") leaving.abort();
});

test("only the project token changes the current policy", async () => {
  const pick = await headway.decide("change", "", ARMS);
  await assert.rejects(headway.rollback("change", { to: "uniform@0" }), (error) => {
    assert.ok(error instanceof NotAllowed);
    assert.equal(error.status, 401);
    return true;
  });
  const owner = new Headway({ url: server.url, key: server.token });
  const entry = await owner.rollback("change", { to: "rules@0", why: "a test" });
  assert.deepEqual([entry.kind, entry.policy, entry.why], ["rollback", "rules@0", "a test"]);
  const rows = await headway.policies("change");
  assert.equal(rows.find((each) => each.state === "current").policy, "rules@0");
  await assert.rejects(owner.promote("bandit@ffff", "change"), UnknownName);
  assert.ok(pick.id);
});

test("errors carry code, hint and status, never the key", async () => {
  const stranger = new Headway({ url: server.url, key: "hw_nobody-may-see-this" });
  await assert.rejects(stranger.status(), (error) => {
    assert.ok(error instanceof HeadwayError);
    assert.equal(error.status, 401);
    assert.ok(!`${error.stack} ${JSON.stringify(error)} ${JSON.stringify(stranger)}`.includes("nobody-may-see"));
    return true;
  });
  await assert.rejects(headway.decide("route", "", ARMS, { state: { x: Number.NaN } }), { code: "not_json" });
  await assert.rejects(headway.explain(`dec_${"0".repeat(32)}`), { code: "unknown_decision", status: 404 });
  await assert.rejects(new Headway("http://127.0.0.1:9").status(), { code: "no_server" });
  for (const url of ["127.0.0.1:8765", "ftp://127.0.0.1", "http://me:secret@127.0.0.1", "http://a/?key=1"]) {
    assert.throws(() => new Headway(url), { code: "bad_url" });
  }
});

test("any route can be called, typed by the document", async () => {
  const { reports } = await headway.request("GET /v1/reports", { query: { task: "route", days: 3 } });
  assert.equal(reports[0].task, "route");
  const document = await headway.request("GET /openapi.json", {});
  assert.ok(document.paths["/v1/decisions"]);
});

test("the generated types match the live server", () => {
  const script = fileURLToPath(new URL("../scripts/generate.mjs", import.meta.url));
  execFileSync(process.execPath, [script, "--check", `${server.url}/openapi.json`]);
});

test("a decision whose answer is lost is stored once", async () => {
  const between = await network(server.url);
  try {
    const lossy = new Headway({ url: between.url, wait: async () => {} });
    between.fates.push("lose answer", "lose", "deliver");
    const pick = await lossy.decide("lossy", "once", ARMS);
    assert.equal(between.seen.length, 3);
    assert.equal(await stored("lossy"), 1);
    between.fates.push("lose answer");
    await lossy.signal(pick.id, { reward: 1 });
    between.fates.push("lose answer");
    await lossy.signal(pick.id, { reward: null });
    assert.equal((await lossy.explain(pick.id)).outcome.status, "pending");
  } finally {
    await between.close();
  }
});

test("a request that would count twice is not retried", async () => {
  const between = await network(server.url);
  try {
    await headway.decide("once", "", ARMS);
    const lossy = new Headway({ url: between.url, key: server.token, wait: async () => {} });
    between.fates.push("lose answer");
    await assert.rejects(lossy.rollback("once", { to: "rules@0" }), Unavailable);
    assert.equal(between.seen.length, 1);
  } finally {
    await between.close();
  }
});

test("Retry-After is honoured up to a limit", async () => {
  const between = await network(server.url);
  try {
    const waited = [];
    const patient = new Headway({ url: between.url, wait: async (ms) => waited.push(ms), longestWaitMs: 10_000 });
    const body = JSON.stringify({ error: { code: "queue_full", message: "Full.", hint: "Later." } });
    between.fates.push({ status: 429, headers: { "retry-after": "7" }, body });
    await patient.decide("busy", "", ARMS);
    assert.deepEqual(waited, [7000]);
    between.fates.push({ status: 429, headers: { "retry-after": "11" }, body });
    await assert.rejects(patient.decide("busy", "", ARMS), (error) => {
      assert.ok(error instanceof Busy);
      assert.equal(error.retryAfterMs, 11_000);
      return true;
    });
    between.fates.push({ status: 502, headers: {}, body: "<html>" });
    await assert.rejects(patient.status(), { code: "not_headway", status: 502 });
  } finally {
    await between.close();
  }
});

test("a request that takes too long is cancelled", async () => {
  const slow = new Headway({
    url: server.url,
    timeoutMs: 5,
    retries: 0,
    fetch: (_, { signal }) => new Promise((_done, fail) => signal.addEventListener("abort", () => fail(signal.reason))),
  });
  await assert.rejects(slow.status(), { code: "timeout" });
});
