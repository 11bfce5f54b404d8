"""The family ranker: described candidates are told apart, and only what beats simple models is promoted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headway
from headway.encode.hashing import HashingEncoder
from headway.kits.demo.synth import synthesise
from headway.kits.next_action import architectures
from headway.kits.next_action.learner import RankerLearner
from headway.kits.next_action.linear import LinearChoice, LinearRows, MatrixModel, fit_matrix
from headway.kits.next_action.policy import Ranker, read
from headway.kits.next_action.regression import CubicModel, fit_regression, pick_regression
from headway.kits.next_action.world import Projects
from headway.nouns.errors import Damaged, HeadwayError, InvalidInput
from headway.nouns.protocols import Learned
from headway.nouns.records import Candidate, Decision, Situation
from headway.project import Project
from tests.kits.next_action.tuples import Tuples

ENCODER = HashingEncoder(256)
# The three actions of the page that the ranker was first described on.
ACTIONS = [
    {"type": "test", "description": "Add tests for config loader", "scope": "small"},
    {"type": "refactor", "description": "Rewrite the auth module", "scope": "large"},
    {"type": "fix", "description": "Fix flaky retry logic", "scope": "small", "files_affected": 2},
]


def learn(rows: int = 1200, *, world: Projects | None = None, **knobs: Any) -> Learned:
    wanted = {"architecture": "linear", **knobs}
    return RankerLearner(ENCODER).learn(Tuples(world or Projects(leak=False), rows), wanted, seed=7)


def built(learned: Learned) -> Ranker:
    return read(learned.knobs, learned.tensors, json.loads(json.dumps(learned.extra)), ENCODER)


@pytest.fixture(scope="module")
def learned() -> Learned:
    return learn()


@pytest.fixture(scope="module")
def ranker(learned: Learned) -> Ranker:
    return built(learned)


def candidates(actions: Sequence[dict[str, Any]] = ACTIONS) -> list[Candidate]:
    return [Candidate(str(action["description"]), action) for action in actions]


STATE = Situation(
    task="next-action",
    text="Too many errors.",
    state={"composite_score": 0.6, "tests_passing": 20, "tests_total": 40, "recent_deltas": [0.1, -0.02]},
    role="ada",
)


def test_different_descriptions_get_different_predictions_and_move_with_them(ranker: Ranker) -> None:
    mean = ranker.opinions((STATE,), candidates(), (0,)).mean
    assert mean is not None
    assert len(set(mean[0].tolist())) == 3
    words = [action["description"] for action in ACTIONS]
    alike = [{**ACTIONS[0], "description": word} for word in words]
    turned = [{**ACTIONS[0], "description": word} for word in words[1:] + words[:1]]
    one, other = (ranker.opinions((STATE,), candidates(actions), (0,)).mean for actions in (alike, turned))
    assert one is not None
    assert other is not None
    assert len(set(one[0].tolist())) == 3
    assert np.array_equal(np.roll(one[0], -1), other[0]), "permuting descriptions permutes predictions"


@pytest.mark.parametrize("cubes", [0.0, 0.1])
def test_a_candidate_gets_the_same_bits_alone_and_in_any_set(monkeypatch: pytest.MonkeyPatch, cubes: float) -> None:
    monkeypatch.setattr(architectures, "pick_regression", lambda *_: LinearChoice(cubes=cubes))
    ranker = built(learn(600))
    assert isinstance(ranker.regression, CubicModel if cubes else MatrixModel)
    rng = np.random.default_rng(0)
    world = Projects()
    (situation, state), *_ = world.fresh(1, rng)
    slate = [action.candidate for action in world.slate(state, 60, rng, vocabulary="prove")]
    whole, spread = ranker.predict((situation,), slate)
    for place, candidate in enumerate(slate):
        mean, deviation = ranker.predict((situation,), (candidate,))
        assert mean[0, 0] == whole[0, place]
        assert deviation[0, 0] == spread[0, place]
    backwards, _ = ranker.predict((situation, STATE), slate[::-1])
    assert np.array_equal(backwards[0, ::-1], whole[0])


def test_products_of_three_columns_are_used_where_they_explain_the_rewards() -> None:
    rng = np.random.default_rng(1)
    states, actions = rng.choice([-1.0, 1.0], size=(2, 600, 3))
    states[:, 0] = actions[:, 0] = 1.0
    three, two = states[:, 1] * actions[:, 1] * actions[:, 2], states[:, 1] * actions[:, 1]
    for reward, cubes in ((three, 0.03), (two, 0.0)):
        rows = LinearRows(states, actions, reward, np.ones(600), (0, 0))
        train, tune = rows.part(np.arange(500)), rows.part(np.arange(500, 600))
        choice = pick_regression(train, tune, rng)
        assert choice.cubes >= cubes
        tensors = fit_regression(train, replace(choice, cubes=cubes), rng)
        fields = {name: tensors[f"cubic.{name}"] for name in ("states", "actions", "dual")} if cubes else {}
        model = CubicModel(**fields, main=choice.main, cubes=cubes) if cubes else MatrixModel(tensors["linear"])
        assert ((model.rows(tune.states, tune.actions) - tune.reward) ** 2).mean() < 0.02
        assert np.array_equal(np.diag(model(tune.states, tune.actions)), model.rows(tune.states, tune.actions))
    rows = LinearRows(states, actions, three, np.ones(600), (0, 0))
    train = rows.part(np.arange(500))
    matrix = MatrixModel(fit_matrix(train, LinearChoice(cubes=0.0), rng))
    assert ((matrix.rows(tune.states, tune.actions) - three[500:]) ** 2).mean() > 0.9, "products of two cannot"


def test_damaged_products_of_three_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(architectures, "pick_regression", lambda *_: LinearChoice(cubes=0.1))
    learned = learn(600)
    for name, value in (("cubic.dual", np.zeros(3)), ("cubic.terms", np.array([np.nan, 1.0]))):
        with pytest.raises(Damaged):
            read(learned.knobs, {**learned.tensors, name: value}, learned.extra, ENCODER)


def test_the_share_of_failing_tests_counts_not_only_their_number(ranker: Ranker) -> None:
    numbers = ranker.layout.state.numbers
    assert "tests_failing_share" in numbers
    for state in ({"tests_passing": 3}, {"tests_passing": 3, "tests_total": 0}, {"tests_passing": 9, "tests_total": 3}):
        assert ranker.predict((Situation(task="next-action", state=state),), candidates())[0].shape == (1, 3)


def test_the_header_says_what_the_ranker_is(learned: Learned) -> None:
    extra = learned.extra
    assert extra["architecture"] == "linear"
    assert set(extra["tool_to_index"]) == {"config", "experiment", "feature", "fix", "refactor", "test", "…"}
    assert {"version", "embedding_dim", "hidden_dim", "num_layers", "num_heads"} <= extra.keys()
    assert 0.0 <= extra["val_accuracy"] <= 1.0
    assert 0.0 <= extra["val_accuracy_baseline"] <= 1.0
    assert "majority" in extra["notes"][0], "accuracy is never said without its baseline"


def test_learning_reads_only_the_earlier_rows_of_history(learned: Learned) -> None:
    rows = Tuples(Projects(leak=False), 1200)
    later = [row for row in rows if row.decision.at > learned.extra["until"]]
    assert 0.25 < len(later) / len(rows) < 0.35
    assert learned.trained_on["rows"] + learned.trained_on["tune_rows"] == len(rows) - len(later)
    everything = learn(400, held_back=0.0)
    assert everything.extra["until"] == 0.0


def test_it_predicts_held_out_words_better_than_simple_guesses_with_honest_intervals() -> None:
    rows = Tuples(Projects(leak=False), 2764)
    learned = RankerLearner(ENCODER).learn(rows, {"architecture": "linear"}, seed=7)
    policy = built(learned)
    held = rows.held_out(learned.extra["until"])
    reward = np.array([row.reward for row in held])
    pairs = [policy.predict((row.decision.situation,), row.decision.candidates) for row in held]
    mean, deviation = (np.array([float(pair[part][0, 0]) for pair in pairs]) for part in (0, 1))
    types = np.array([policy.types[str(row.decision.candidates[0].features["type"])] for row in held])
    assert ((mean - reward) ** 2).mean() < 0.95 * ((types - reward) ** 2).mean()
    inside = float((np.abs(mean - reward) <= 1.2815515655 * deviation).mean())
    assert 0.7 < inside < 0.9
    report = policy.report(held)[0]
    assert "majority" in report
    assert "80% intervals hold" in report


def test_few_rows_are_refused_with_a_reason_unless_forced() -> None:
    with pytest.raises(InvalidInput, match="labelled rows can be read") as error:
        learn(80)
    assert error.value.code == "too_few_rows"
    assert "--force" in error.value.hint
    forced = learn(80, force=True)
    assert "next to nothing" in forced.extra["notes"][0]
    assert built(forced).predict((STATE,), candidates())[0].shape == (1, 3)


def test_only_rows_of_a_role_are_read() -> None:
    whole, part = learn(1200), learn(1200, role="ada", least=50)
    assert 0 < part.trained_on["rows"] < 0.5 * whole.trained_on["rows"]


def test_an_unknown_field_is_refused_with_its_place(ranker: Ranker) -> None:
    with pytest.raises(InvalidInput, match=r"Candidate 1 .*'scoop'.*no training row had") as error:
        ranker.check(candidates([ACTIONS[0], {**ACTIONS[1], "scoop": "small"}]))
    assert "'scope'" in error.value.hint


@pytest.mark.parametrize(
    "change",
    [
        {"architecture": "huge"},
        {"layout": {}},
        {"type_means": {"fix": float("nan")}},
        {"until": "now"},
    ],
    ids=["architecture", "layout", "means", "until"],
)
def test_a_damaged_header_is_refused(learned: Learned, change: dict[str, Any]) -> None:
    with pytest.raises(Damaged):
        read(learned.knobs, learned.tensors, {**learned.extra, **change}, ENCODER)


def test_damaged_tensors_are_refused(learned: Learned) -> None:
    for name, value in (("linear", np.zeros((2, 2))), ("units", np.array([0.0, -1.0, 1.0]))):
        with pytest.raises(Damaged):
            read(learned.knobs, {**learned.tensors, name: value}, learned.extra, ENCODER)


# -- through a project


TOML = '[tasks.next-action]\nkind = "ranking"\nreward = { composite_delta = 1.0 }\nrange = [-0.5, 0.5]\n'
MEANING = TOML + 'encoder = "wordllama"\n'  # held-out words say something only to an encoder that knows meanings


@pytest.fixture(scope="module")
def proven(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Project, str]]:
    """A project whose linear ranker was learned from the world and proven."""
    pytest.importorskip("wordllama")
    folder = tmp_path_factory.mktemp("proven")
    (folder / "headway.toml").write_text(MEANING, "utf-8")
    with headway.open(folder) as project:
        synthesise(project, "next-action", rows=2764, seed=42, world="projects")
        ref = project.learn("next-action", architecture="linear")
        yield project, ref


def test_the_leaky_field_is_left_out_and_the_proof_is_from_later_rows(proven: tuple[Project, str]) -> None:
    project, ref = proven
    header = project.registry.header(project.registry.find(ref))
    assert header.trained_on["left_out"] == ["last_delta"]
    verdict = project.prove(ref, task="next-action")
    evidence = verdict.evidence
    assert evidence is not None
    assert evidence.kind == "heldout"
    assert verdict.state == "pass", verdict.reasons
    assert {"the mean of its type", "the mean reward"} <= evidence.values.keys()
    assert evidence.counts["not later than the training rows"] > 0
    assert evidence.counts["with a mined label"] > 0
    assert any("sign accuracy" in note and "majority" in note for note in evidence.notes)
    project.promote(ref, because=verdict, task="next-action", predicts_only=True)
    assert project.current("next-action").ref == ref


def test_a_leaky_field_moves_no_figure(tmp_path: Path) -> None:
    tensors = []
    for leak in (True, False):
        folder = tmp_path / str(leak)
        folder.mkdir()
        (folder / "headway.toml").write_text(TOML, "utf-8")
        with headway.open(folder) as project:
            decisions, signals = zip(*Projects(leak=leak).history("next-action", 600, 42, 1.7e9), strict=True)
            project.store.add(decisions, {decisions[0].config_hash: '{"encoder":""}'})
            project.store.signal(signals)
            digest = project.registry.find(project.learn("next-action", architecture="linear"))
            assert project.registry.header(digest).trained_on.get("left_out", []) == (["last_delta"] if leak else [])
            tensors.append(project.registry.load(digest, task="next-action")[1])
    with_field, without = tensors
    assert with_field.keys() == without.keys()
    assert all(np.array_equal(value, without[name]) for name, value in with_field.items())


def test_rank_and_replay_use_the_promoted_ranker(proven: tuple[Project, str]) -> None:
    project, ref = proven
    ranked = project.rank("next-action", ACTIONS, policy=ref, state=dict(STATE.state))
    assert [row.predicted for row in ranked] == sorted((row.predicted for row in ranked), reverse=True)
    alone = [project.rank("next-action", [action], policy=ref, state=dict(STATE.state))[0] for action in ACTIONS]
    assert {row.name: row.predicted for row in alone} == {row.name: row.predicted for row in ranked}
    assert all(row.half and row.advice in ("PROCEED", "NEUTRAL", "SKIP") for row in ranked)
    latest = project.latest_situation("next-action")
    assert isinstance(latest, Decision)


@pytest.mark.parametrize(
    ("offers", "state", "code"),
    [
        ([], None, "no_candidates"),
        ([f"a{n}" for n in range(10_001)], None, "too_many_candidates"),
        (["a", "a"], None, "duplicate_candidate"),
        ([{**ACTIONS[0], "colour": "red"}], None, "unknown_field"),
        (ACTIONS, {"composite_score": float("nan")}, "not_finite"),
    ],
    ids=["empty", "many", "twice", "unknown", "nan"],
)
def test_bad_candidates_are_refused_and_nothing_is_stored(
    proven: tuple[Project, str], offers: list[Any], state: dict[str, Any] | None, code: str
) -> None:
    project, ref = proven
    before = project.query.count_source("next-action", "synthetic"), len(project.query.latest("next-action", 7000))
    with pytest.raises(HeadwayError) as error:
        project.rank("next-action", offers, policy=ref, state=state)
    assert error.value.code == code
    assert before == (
        project.query.count_source("next-action", "synthetic"),
        len(project.query.latest("next-action", 7000)),
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_promoted_on_noise(tmp_path: Path, seed: int) -> None:
    (tmp_path / "headway.toml").write_text(TOML, "utf-8")
    with headway.open(tmp_path) as project:
        world = Projects(noise_only=True, leak=False)
        decisions, signals = zip(*world.history("next-action", 2764, seed, project.clock()), strict=True)
        project.store.add(decisions, {decisions[0].config_hash: '{"encoder":""}'})
        project.store.signal(signals)
        ref = project.learn("next-action", architecture="linear")
        verdict = project.prove(ref, task="next-action")
        assert verdict.state != "pass"
        assert verdict.evidence is not None
        blocking = {check.name for check in verdict.evidence.diagnostics if check.blocks and not check.ok}
        assert "rows" not in blocking, "it is the rewards that stop it, not the number of rows"
