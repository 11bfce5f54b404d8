-- The schema as a list of named migrations. Append only: never change a step that was released.
--
-- Integers that name things (tasks, signals, raters, keys, reward versions) are interned in `names`; candidate sets,
-- policies and configurations by their hash. Outcome status is derived, never updated: `settled` is a log in which a later
-- row replaces an earlier one. Every engine has its own words for {serial}, {int}, {float} and {bytes}.

-- 0001_experience
CREATE TABLE names (
    id {serial}, kind TEXT NOT NULL, name TEXT NOT NULL, UNIQUE (kind, name));
CREATE TABLE candidate_sets (id {serial}, hash {bytes} NOT NULL UNIQUE, body TEXT NOT NULL);
CREATE TABLE policies (id {serial}, ref TEXT NOT NULL, hash TEXT NOT NULL, UNIQUE (ref, hash));
CREATE TABLE configs (id {serial}, hash TEXT NOT NULL UNIQUE, body TEXT NOT NULL);
CREATE TABLE episodes (
    id {bytes} PRIMARY KEY, task_id {int} NOT NULL, name TEXT NOT NULL, key_id {int} NOT NULL,
    opened_at {int} NOT NULL, ended_at {int}, ending TEXT);
CREATE TABLE decisions (
    seq {serial}, id {bytes} NOT NULL UNIQUE, task_id {int} NOT NULL, episode {bytes}, step {int},
    at {int} NOT NULL, text TEXT NOT NULL, state TEXT NOT NULL, candidate_set_id {int} NOT NULL,
    probabilities {bytes} NOT NULL, action {int} NOT NULL, propensity {float} NOT NULL,
    policy_id {int} NOT NULL, seed {int} NOT NULL, config_id {int} NOT NULL, exploration_id {int} NOT NULL,
    source {int} NOT NULL,
    role_id {int} NOT NULL, key_id {int} NOT NULL, draw {bytes}, assigned_id {int}, state_seq {int} NOT NULL);
CREATE INDEX decisions_by_task ON decisions (task_id, seq);
CREATE UNIQUE INDEX decisions_by_episode ON decisions (episode, step) WHERE episode IS NOT NULL;
CREATE INDEX decisions_by_draw ON decisions (draw) WHERE draw IS NOT NULL;
CREATE TABLE signals (
    seq {serial}, subject {bytes} NOT NULL, name_id {int} NOT NULL, value {float}, label TEXT,
    rater_id {int} NOT NULL, at {int} NOT NULL, key TEXT NOT NULL, withdrawn_by {int});
CREATE UNIQUE INDEX signals_by_subject ON signals (subject, name_id, rater_id, key);
CREATE TABLE settled (
    seq {serial}, task_id {int} NOT NULL, decision {int} NOT NULL, reward {float}, status {int} NOT NULL,
    version_id {int} NOT NULL, clipped {int} NOT NULL, replaces {int}, at {int} NOT NULL);
CREATE INDEX settled_by_task ON settled (task_id, seq);
CREATE INDEX settled_by_decision ON settled (decision, seq);
CREATE UNIQUE INDEX settled_replaces ON settled (replaces) WHERE replaces IS NOT NULL;
CREATE TABLE marks (
    task_id {int} NOT NULL, name TEXT NOT NULL, value {int} NOT NULL, PRIMARY KEY (task_id, name));

-- 0002_ledger
CREATE TABLE ledger (
    seq {serial}, task_id {int} NOT NULL, n {int} NOT NULL, kind TEXT NOT NULL, policy TEXT NOT NULL,
    policy_hash TEXT NOT NULL, expects TEXT NOT NULL, who TEXT NOT NULL, why TEXT NOT NULL,
    evidence_id TEXT, detail TEXT NOT NULL, at {int} NOT NULL, UNIQUE (task_id, n));
CREATE TABLE evidence (
    id TEXT PRIMARY KEY, task_id {int} NOT NULL, policy_hash TEXT NOT NULL, at {int} NOT NULL,
    body TEXT NOT NULL);

-- 0003_keys_and_jobs
CREATE TABLE keys (
    id {serial}, name TEXT NOT NULL UNIQUE, sha256 {bytes} NOT NULL UNIQUE, scopes TEXT NOT NULL,
    created {int} NOT NULL, expires {int}, revoked {int});
CREATE TABLE jobs (
    seq {serial}, kind TEXT NOT NULL, body TEXT NOT NULL, key TEXT NOT NULL, state TEXT NOT NULL,
    worker TEXT NOT NULL, lease {int}, done {int} NOT NULL, total {int}, result TEXT, at {int} NOT NULL,
    ended {int});
CREATE INDEX jobs_by_state ON jobs (state, seq);

-- 0004_imports
-- The origin of imported decisions. `content` and `outcome` are hashes of the row, so that a repeated row is
-- recognised and a changed one is a conflict; `rest` holds the fields that only an export back needs.
CREATE TABLE imports (
    id {serial}, file TEXT NOT NULL, sha256 TEXT NOT NULL, format TEXT NOT NULL, version TEXT NOT NULL,
    at {int} NOT NULL, UNIQUE (file, sha256, format, version));
CREATE TABLE imported (
    decision {bytes} PRIMARY KEY, import_id {int} NOT NULL, line {int} NOT NULL, origin TEXT NOT NULL,
    content {bytes} NOT NULL, outcome {bytes} NOT NULL, rest TEXT);
CREATE INDEX imported_by_import ON imported (import_id, line);

-- 0005_weights
-- The weight of a reward; empty: 1. See `Settled.weight`.
ALTER TABLE settled ADD COLUMN weight {float};

-- 0006_experiences
-- Steps of callers of the prompt-mutation endpoints; the vectors are deleted once a policy is learned from them.
CREATE TABLE experiences (
    seq {serial}, task_id {int} NOT NULL, width {int} NOT NULL, state {bytes}, action {int} NOT NULL,
    reward {float} NOT NULL, next_state {bytes}, done {int} NOT NULL, log_prob {float} NOT NULL,
    value {float} NOT NULL, key_id {int} NOT NULL, at {int} NOT NULL);
CREATE INDEX experiences_by_task ON experiences (task_id, seq);

-- 0007_early_signals
-- The arrival time of a signal whose decision is not stored yet, otherwise empty. See `signals`.
ALTER TABLE signals ADD COLUMN early {int};
CREATE INDEX signals_early ON signals (early, rater_id) WHERE early IS NOT NULL;

-- 0008_used_links
-- Used one-time links to the page, as SHA-256, until they expire.
CREATE TABLE used_links (sha256 {bytes} PRIMARY KEY, until {int} NOT NULL);

-- 0009_ledger_index_and_details
-- The ledger is read by its last row of each kind, and by the rows of one policy. `details` holds what a kit
-- stores with a decision: it is deleted, copied and exported with it.
CREATE INDEX ledger_by_kind ON ledger (task_id, kind, n);
CREATE INDEX ledger_by_policy ON ledger (task_id, policy_hash, kind, n);
CREATE INDEX evidence_by_task ON evidence (task_id, at);
CREATE TABLE details (
    decision {bytes} NOT NULL, kit TEXT NOT NULL, name TEXT NOT NULL, data {bytes} NOT NULL,
    PRIMARY KEY (decision, kit, name));

-- 0010_imported_order
-- The place of an imported decision in the order in which decisions settled in the exporting store; empty once
-- it was taken into account here.
ALTER TABLE imported ADD COLUMN place {int};
CREATE INDEX imported_by_place ON imported (place) WHERE place IS NOT NULL;

-- 0011_totals
-- Totals by day and by action of the rows up to a mark (see `totals`); outcomes are counted by the row that
-- settled a decision first, and episodes by task.
CREATE TABLE totals_upto (
    task_id {int} PRIMARY KEY, decisions {int} NOT NULL, signals {int} NOT NULL, settled {int} NOT NULL);
CREATE TABLE daily_totals (
    task_id {int} NOT NULL, day {int} NOT NULL, source {int} NOT NULL, decisions {int} NOT NULL,
    repeats {int} NOT NULL, signals {int} NOT NULL, settled {int} NOT NULL, rewarded {int} NOT NULL,
    failed {int} NOT NULL, censored {int} NOT NULL, rewards {int} NOT NULL, reward_sum {float} NOT NULL,
    first_at {int}, last_at {int}, PRIMARY KEY (task_id, day, source));
CREATE TABLE action_totals (
    task_id {int} NOT NULL, candidate_set_id {int} NOT NULL, action {int} NOT NULL, decisions {int} NOT NULL,
    PRIMARY KEY (task_id, candidate_set_id, action));
CREATE INDEX settled_first ON settled (task_id, seq) WHERE replaces IS NULL;
CREATE INDEX episodes_by_task ON episodes (task_id);

-- 0012_decisions_by_candidates
-- Comparisons of two policies, and the candidates of a task, are found without reading its other decisions.
CREATE INDEX decisions_by_candidates ON decisions (task_id, candidate_set_id, seq);

-- 0013_even_pairs
-- An index of every decision made a batch of them a sixth slower; comparisons are draws with probability ½.
DROP INDEX decisions_by_candidates;
CREATE INDEX even_pairs ON decisions (task_id, seq) WHERE {even_pair};

-- 0014_units
-- What shares one outcome with others: the first decision of its request, or its episode; and the attempt or step.
-- Empty: a decision for itself, and the first one. Attempts that were linked by signals are folded (see `units`).
ALTER TABLE decisions ADD COLUMN unit {bytes};
ALTER TABLE decisions ADD COLUMN position {int};
CREATE INDEX decisions_by_unit ON decisions (unit) WHERE unit IS NOT NULL;

-- 0015_secret
-- Ids of requests that clients name are computed with a secret of the store: two random numbers among the marks.

-- 0016_outages
-- When an upstream did not answer, as the breaker of one server process saw it; see the kit proxy.
CREATE TABLE outages (
    id TEXT PRIMARY KEY, upstream TEXT NOT NULL, server TEXT NOT NULL, since {int} NOT NULL, opened {int} NOT NULL,
    ended {int}, code TEXT NOT NULL, failures {int} NOT NULL, elsewhere {int} NOT NULL, seen {int} NOT NULL,
    told {int} NOT NULL);

-- 0017_blocks
-- Columns of 65,536 numbers of decisions, by task (see `frame`): a cache, which every deletion empties.
CREATE TABLE blocks (
    task_id {int} NOT NULL, number {int} NOT NULL, name TEXT NOT NULL, hash {bytes} NOT NULL, data {bytes} NOT NULL,
    PRIMARY KEY (task_id, number, name));
