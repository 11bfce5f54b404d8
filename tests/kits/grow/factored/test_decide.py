"""Factored tasks: heads with their probabilities, memory as a fold over what is stored, and exact replays."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import headway
from headway.kits.grow.factored.memory import EpisodeMemories, memories
from headway.nouns.errors import Conflict, GateRefused, HeadwayError
from headway.nouns.wire import document
from headway.observe.erase import DeletionFilter
from headway.project import Project
from tests.kits.grow.factored.tally_kit import PLAN, STATE, learned, publish, tally_site

__all__ = ["tally_site"]


@pytest.fixture
def plan(tmp_path: Path, tally_site: Path) -> Iterator[Callable[..., Project]]:
    """`plan()` opens a project with the factored task `plan`; all are closed afterwards."""
    (tmp_path / "headway.toml").write_text(PLAN)
    projects: list[Project] = []

    def open_one(**more: Any) -> Project:
        projects.append(headway.open(tmp_path, environ={}, **more))
        return projects[-1]

    yield open_one
    for project in projects:
        project.close()


def walk(project: Project, episode: str, steps: int, first: int = 0) -> list[Any]:
    return [
        project.decide(
            "plan", episode=episode, state={"observation": [math.sin(step), 0.25 * step], "indices": [step % 3]}
        )
        for step in range(first, first + steps)
    ]


def test_a_factored_task_decides_from_the_first_request(plan: Callable[..., Project]) -> None:
    project = plan(seed=3)
    seen = set()
    for _ in range(120):
        pick = project.decide("plan", state={"difficulty": 0.4})
        heads = project.heads(pick.id)
        assert pick.policy == "uniform@0"
        assert ",".join(f"{head.name}={head.choice}" for head in heads) == pick.action
        assert math.prod(head.propensity for head in heads) == pick.propensity
        for head in heads:
            allowed = [head.probabilities[choice] for choice in head.allowed]
            assert allowed == [1 / len(allowed)] * len(allowed)
            assert sum(head.probabilities.values()) == pytest.approx(1.0, abs=1e-12)
        seen.add(pick.action)
        assert "RETRY,model=small" not in pick.action  # masked in the settings
    names = {
        f"op=ANSWER,model={model},effort={effort}"
        for model in ("small", "large")
        for effort in ("low", "medium", "high")
    }
    assert seen == names | {"op=STOP", "op=RETRY,model=large"}


def test_masks_of_a_request_and_of_the_settings_hold_together(plan: Callable[..., Project]) -> None:
    project = plan(seed=5)
    for _ in range(30):
        pick = project.decide("plan", masks={"op": ["RETRY"], "model": {"ANSWER": ["small"]}})
        assert (pick.action, pick.propensity) == ("op=RETRY,model=large", 1.0)
        picked = project.decide(
            "plan", masks={"op": [True, False, False], "model": {"ANSWER": ["small"]}, "effort": ["low"]}
        )
        assert picked.action == "op=ANSWER,model=small,effort=low"
    heads = {head.name: head for head in project.heads(picked.id)}
    assert heads["op"].allowed == ("ANSWER",)
    assert heads["effort"].probabilities == {"low": 1.0, "medium": 0.0, "high": 0.0}


def test_memory_is_a_fold_over_the_stored_observations(plan: Callable[..., Project]) -> None:
    """A kept memory, one rebuilt in a new process and one rebuilt by replay have the same bits."""
    project = plan()
    learned(project)
    walk(project, "a", 6)
    (kept, *_) = memories(project).of("plan", "a")
    other = plan()  # another process: it keeps nothing
    walk(other, "a", 1, first=6)
    walk(project, "a", 1, first=7)  # the first process meets a step that it did not decide
    (after, *_) = memories(project).of("plan", "a")
    expected = [0.0, 0.0]
    for step in range(8):
        expected = [0.5 * expected[0] + math.sin(step) + step % 3, 0.5 * expected[1] + 0.25 * step + step % 3]
        if step == 5:
            assert kept.memory.tolist() == [expected]
    assert after.memory.tolist() == [expected]
    for decision in project.query.decisions("plan"):
        replay = project.replay(decision.id)
        assert replay.exact is True, replay


def test_the_cache_of_memories_is_bounded_and_only_costs_time(plan: Callable[..., Project]) -> None:
    project = plan(seed=1)
    learned(project)
    project.kept["grow"] = EpisodeMemories(most=2)
    for step in range(4):
        for episode in ("a", "b", "c"):
            walk(project, episode, 1, first=step)
            assert len(memories(project)) <= 2
    assert all(project.replay(decision.id).exact for decision in project.query.decisions("plan"))


def test_an_episode_keeps_the_policy_that_it_started_with(plan: Callable[..., Project]) -> None:
    project = plan()
    first = learned(project, weight=1.0)
    walk(project, "old", 2)
    second = learned(project, weight=-3.0)
    assert first != second
    assert [pick.policy for pick in walk(project, "old", 2, first=2)] == [first] * 2
    assert {pick.policy for pick in walk(project, "new", 2)} == {second}
    other = plan()
    assert walk(other, "old", 1, first=4)[0].policy == first
    assert all(other.replay(decision.id).exact for decision in other.query.decisions("plan"))


def test_an_episode_that_began_with_the_uniform_policy_stays_with_it(plan: Callable[..., Project]) -> None:
    project = plan()
    project.decide("plan", episode="a", state={"difficulty": 1.0})
    learned(project)
    assert project.decide("plan", episode="a", state={"difficulty": 1.0}).policy == "uniform@0"


def test_a_repeated_step_is_a_conflict_and_a_gap_is_refused(plan: Callable[..., Project]) -> None:
    project = plan()
    learned(project)
    assert [pick.situation.step for pick in walk(project, "a", 3)] == [0, 1, 2]
    for step, code, says in (
        (1, "step_conflict", "next step is 3"),
        (4, "bad_step", "next step of the episode 'a' is 3"),
    ):
        with pytest.raises(HeadwayError) as caught:
            project.decide("plan", episode="a", step=step, state=STATE)
        assert caught.value.code == code
        assert says in str(caught.value)
    assert project.decide("plan", episode="a", step=3, state=STATE).situation.step == 3
    with pytest.raises(HeadwayError, match="next step of the episode 'b' is 0"):
        project.decide("plan", episode="b", step=2, state=STATE)
    assert project.query.counts("plan").decisions == 4


def test_concurrent_requests_of_one_episode_are_one_sequence(plan: Callable[..., Project]) -> None:
    project = plan()
    learned(project)
    with ThreadPoolExecutor(4) as pool:
        picks = [
            *pool.map(
                lambda n: project.decide("plan", episode="a", state={"observation": [n, -n], "indices": [n % 3]}),
                range(12),
            )
        ]
    assert sorted(pick.situation.step for pick in picks) == list(range(12))
    assert all(project.replay(pick.id).exact for pick in picks)


def test_the_same_id_is_the_same_decision(plan: Callable[..., Project]) -> None:
    project = plan()
    learned(project)
    mine = "0197c1f2-a3b4-7000-a1b2-c3d4e5f60718"
    masks = {"model": ["small"], "op": ["ANSWER", "STOP"]}
    first = project.decide("plan", id=mine, episode="a", state=STATE, masks=masks)
    assert project.decide("plan", id=mine, episode="a", state=STATE, masks=masks) == first
    for change in ({"masks": None}, {"state": {**STATE, "indices": [1]}}, {"episode": "b"}):
        with pytest.raises(Conflict) as caught:
            project.decide("plan", **{"id": mine, "episode": "a", "state": STATE, "masks": masks, **change})
        assert caught.value.code == "id_conflict"
    assert project.query.counts("plan").decisions == 1


BAD: list[tuple[dict[str, Any], str, int, str]] = [
    ({"masks": {"modell": ["small"]}}, "unknown_head", 404, "masks.modell"),
    ({"masks": {"model": ["smal"]}}, "unknown_choice", 404, "masks.model"),
    ({"masks": {"model": {"ANSWR": ["small"]}}}, "unknown_choice", 404, "masks.model.ANSWR"),
    ({"masks": {"model": [True]}}, "bad_mask", 422, "masks.model"),
    ({"masks": {"model": "small"}}, "bad_mask", 422, "masks.model"),
    ({"masks": {"model": [0.5]}}, "bad_mask", 422, "masks.model"),
    ({"masks": {"op": {"ANSWER": ["STOP"]}}}, "bad_mask", 422, "masks.op"),
    ({"masks": ["op"]}, "bad_mask", 422, "masks is a list"),
    ({"masks": {"op": []}}, "nothing_allowed", 422, "masks.op"),
    ({"masks": {"effort": []}}, "nothing_allowed", 422, "masks.effort"),
    ({"masks": {"model": {"RETRY": ["small"]}}}, "nothing_allowed", 422, "masks.model"),
    (
        {"state": {"observation": [0.5], "indices": [0]}},
        "bad_observation",
        422,
        "state.observation has 1 numbers, expected 2",
    ),
    ({"state": {"observation": [0.5, 1.0], "indices": [3]}}, "bad_observation", 422, "state.indices[0] is 3"),
    ({"state": {"observation": [0.5, 1.0], "indices": [0.5]}}, "bad_observation", 422, "state.indices[0] is 0.5"),
    ({"state": {"observation": [0.5, 1.0]}}, "bad_observation", 422, "state.indices has 0"),
    ({"state": {}}, "bad_observation", 422, "state.observation has 0"),
    ({"state": {"observation": "text", "indices": [0]}}, "bad_observation", 422, "state.observation is text"),
    ({"state": {"observation": [math.nan, 0.0], "indices": [0]}}, "not_finite", 422, "observation"),
    ({"candidates": ["a", "b"]}, "bad_candidates", 422, "heads"),
    ({"step": -1}, "bad_step", 422, "-1"),
]


def test_bad_input_is_refused_with_its_place_and_nothing_is_stored(plan: Callable[..., Project]) -> None:
    project = plan()
    learned(project)
    for change, code, status, place in BAD:
        with pytest.raises(HeadwayError) as caught:
            project.decide("plan", **{"episode": "a", "state": STATE, **change})
        assert (caught.value.code, caught.value.status) == (code, status), change
        assert place in caught.value.message
    assert project.query.counts("plan").decisions == 0
    assert project.decide("plan", episode="a", state=STATE).situation.step == 0


def test_masks_are_for_tasks_of_several_heads(tmp_path: Path) -> None:
    with (
        headway.open(tmp_path, environ={}) as project,
        pytest.raises(HeadwayError, match="Masks are for tasks of several heads"),
    ):
        project.decide("route", "text", ["a", "b"], masks={"op": ["a"]})


def test_state_variables_that_the_settings_name_are_the_observation(
    plan: Callable[..., Project], tmp_path: Path
) -> None:
    (tmp_path / "headway.toml").write_text(PLAN.replace("reward", 'state = ["difficulty", "failures"]\nreward', 1))
    project = plan()
    learned(project)
    project.decide("plan", episode="a", state={"failures": 2, "difficulty": 0.5, "indices": [1]})
    assert memories(project).of("plan", "a")[0].memory.tolist() == [[1.5, 3.0]]
    with pytest.raises(HeadwayError, match=r"state\.failures is missing"):
        project.decide("plan", episode="a", state={"difficulty": 0.5, "indices": [1]})


def test_explain_shows_heads_outcome_and_what_is_remembered(plan: Callable[..., Project]) -> None:
    project = plan()
    learned(project)
    pick = walk(project, "a", 3)[-1]
    project.signal(pick.id, solved=1.0)
    told = project.explain(pick.id)
    assert told.outcome.reward == 1.0
    assert told.propensity == pick.propensity
    assert "remembers 2 steps" in told.why
    assert next(iter(told.heads)) == "op"
    assert document(told)["heads"]["op"]["choice"] in ("ANSWER", "RETRY", "STOP")


def test_a_deleted_step_ends_the_episode_and_its_replays(plan: Callable[..., Project]) -> None:
    project = plan()
    times = iter(range(1000, 2000))
    project.clock = lambda: float(next(times))
    learned(project)
    picks = walk(project, "a", 4)
    project.erase(DeletionFilter(before=picks[1].at + 0.5))
    with pytest.raises(Conflict) as caught:
        walk(plan(), "a", 1, first=4)
    assert caught.value.code == "episode_incomplete"
    replay = project.replay(picks[3].id)
    assert (replay.exact, replay.gone[:6]) == (None, "Step 0")


def test_a_policy_of_other_heads_is_refused_with_both(plan: Callable[..., Project]) -> None:
    project = plan()
    ref = publish(
        project,
        "plan",
        heads=[
            ("op", ("ANSWER", "RETRY", "STOP")),
            ("model", ("small", "large", "huge")),
            ("effort", ("low", "medium", "high")),
        ],
    )
    with pytest.raises(Conflict) as caught:
        project.rollback("plan", to=ref, why="by a test")
        project.decide("plan", state=STATE)
    assert caught.value.code == "other_heads"
    assert "model 3" in caught.value.message
    assert "model 2" in caught.value.message


def test_decisions_survive_export_and_import(plan: Callable[..., Project], tmp_path: Path) -> None:
    from headway.kits.data.exporter import ExportFilter, export

    project = plan()
    learned(project)
    picks = walk(project, "a", 3)
    project.signal(picks[0].id, solved=1.0)
    file = tmp_path / "out.jsonl"
    export(project.database, project.query, file, ExportFilter(), now=0.0, version="0")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "headway.toml").write_text(PLAN)
    with headway.open(elsewhere, environ={}) as other:
        other.import_file(file)
        for pick in picks:
            copied = other.query.decision(pick.id)
            assert (copied.action, copied.propensity) == (pick.action, pick.propensity)
            assert other.heads(pick.id) == project.heads(pick.id)
            assert other.replay(pick.id).exact is None
        with pytest.raises(Conflict, match="decided elsewhere"):
            walk(other, "a", 1, first=3)


def test_a_policy_is_proven_in_its_world_promoted_and_then_decides(plan: Callable[..., Project]) -> None:
    """Jumping far ends an episode sooner, and every step costs 1; holding makes it longer."""
    project = plan()
    better = publish(project, "count", weight=0.1, op=1, far=2)
    verdict = project.prove(better)
    assert (verdict.state, verdict.evidence.kind) == ("pass", "world")
    assert verdict.evidence.difference.value > 1.0
    project.promote(better, because=verdict)
    state = {"observation": [0.5, 0.0], "indices": [1]}
    assert project.decide("count", episode="a", state=state).policy == better
    for n in range(60):
        project.signal(project.decide("count", episode=f"e{n}", state=state).id, reward=0.5)
    assert project.guard("count") is None  # nothing to compare on the log, and nothing to learn from it
    assert not project.standing("count").learns
    worse = publish(project, "count", weight=0.1, op=0)
    assert project.prove(worse).state == "worse"
    with pytest.raises(GateRefused):
        project.promote(worse)


def test_canaries_and_experiments_of_a_factored_task_are_refused_and_change_nothing(
    plan: Callable[..., Project],
) -> None:
    project = plan(seed=3)
    ref = publish(project, "plan")
    rows = len(project.ledger.entries("plan"))
    for refused in (
        lambda: project.canary(ref, share=0.1, task="plan"),
        lambda: project.start_experiment("plan", policy=ref),
    ):
        with pytest.raises(HeadwayError, match=r"needs a choice task; 'plan' is factored") as caught:
            refused()
        assert (caught.value.code, caught.value.hint) == ("bad_kind", f"Prove {ref} and promote it: headway prove plan")
    assert len(project.ledger.entries("plan")) == rows
    assert project.decide("plan", state={}).policy == "uniform@0"


def test_a_factored_task_says_what_to_do_next(plan: Callable[..., Project]) -> None:
    project = plan()
    assert project.next_step("plan").command == "headway decide plan"
    project.signal(project.decide("plan").id, solved=1.0)
    assert project.next_step("plan").verb == "log"
    project.decide("count")
    assert project.next_step("count").command == "headway learn count --world countdown"
    assert [task.kind for task in project.status().tasks] == ["factored", "factored"]


@pytest.mark.slow
def test_an_episode_is_the_same_on_postgresql(tmp_path: Path, tally_site: Path, request: pytest.FixtureRequest) -> None:
    del tally_site
    (tmp_path / "headway.toml").write_text(PLAN)
    environ = {"HEADWAY_STORE_URL": request.getfixturevalue("postgres").store()}
    with headway.open(tmp_path, environ=environ) as project:
        learned(project)
        walk(project, "a", 4)
        with pytest.raises(Conflict, match="already decided"):
            project.decide("plan", episode="a", step=2, state=STATE)
    with headway.open(tmp_path, environ=environ) as project:
        walk(project, "a", 2, first=4)
        decisions = [*project.query.decisions("plan")]
        assert [decision.situation.step for decision in decisions] == list(range(6))
        assert all(project.replay(decision.id).exact for decision in decisions)
