"""The world `projects`: rewards from state and words together, and traps that are really there."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import headway
from headway.kits.demo.synth import synthesise
from headway.kits.next_action.world import DIMENSIONS, VOCABULARIES, Projects, ProjectTuple
from headway.nouns.errors import UnknownName
from tests.cli.terminal import headway as terminal

WORLD = Projects()


@pytest.fixture(scope="module")
def rows() -> list[ProjectTuple]:
    return WORLD.tuples(2000, seed=42)


def test_the_same_seed_gives_the_same_tuples(rows: list[ProjectTuple]) -> None:
    assert WORLD.tuples(2000, seed=42) == rows
    assert WORLD.tuples(50, seed=42) == rows[:50]
    assert WORLD.tuples(2000, seed=43) != rows


def test_the_reward_comes_from_state_and_words_together(rows: list[ProjectTuple]) -> None:
    expected = np.array([row.expected for row in rows])
    noise = np.array([row.reward - row.expected for row in rows if row.source == "synthetic"])
    assert abs(noise.mean()) < 0.005
    assert noise.std() < 0.8 * expected.std()
    need = np.array([1.0 - row.state.scores[DIMENSIONS.index(row.action.dimension)] for row in rows])
    states = np.array([1.0 - np.mean(row.state.scores) for row in rows])
    assert np.corrcoef(need, expected)[0, 1] > np.corrcoef(states, expected)[0, 1]
    bold = expected[[row.action.bold for row in rows]].mean()
    assert bold < expected.mean()


def test_held_out_rows_use_templates_and_subjects_that_training_never_saw(rows: list[ProjectTuple]) -> None:
    texts = {part: {row.action.candidate.name for row in rows if row.part == part} for part in VOCABULARIES}
    assert all(texts.values())
    assert not texts["train"] & texts["prove"]
    for one, other in (("train", "prove"), ("tune", "prove"), ("train", "tune")):
        first, second = VOCABULARIES[one], VOCABULARIES[other]
        assert not set(first.templates) & set(second.templates)
        for dimension in DIMENSIONS:
            assert not set(first.subjects[dimension]) & set(second.subjects[dimension])
    words = {part: set(re.findall(r"\w+", " ".join(texts[part]).lower())) for part in texts}
    assert len(words["prove"] - words["train"]) > 0.6 * len(words["prove"])


def test_the_traps_are_there(rows: list[ProjectTuple]) -> None:
    assert all(row.situation.state["last_delta"] == row.reward for row in rows)
    assert all("last_delta" not in row.situation.state for row in Projects(leak=False).tuples(40, seed=1))
    mined = [row for row in rows if row.source == "mined"]
    assert 0.05 < len(mined) / len(rows) < 0.12
    assert {abs(row.reward) for row in mined} == {0.1}
    branches: dict[str, set[tuple[float, ...]]] = {}
    for row in rows:
        branches.setdefault(row.situation.episode or "", set()).add(row.state.scores)
    assert sum(len(states) > 1 for states in branches.values()) > 20, "near duplicates share a branch"
    early, late = (WORLD.expected(rows[0].state, rows[0].action, age=age) for age in (0.0, 1.0))
    drifting = [row for row in rows if row.action.type == "feature" and row.action.dimension != "security"]
    assert drifting
    assert any(
        WORLD.expected(row.state, row.action, age=0.0) > WORLD.expected(row.state, row.action, age=1.0)
        for row in drifting
    )
    assert np.isfinite([early, late]).all()


def test_noise_only_rewards_have_no_explanation() -> None:
    rows = Projects(noise_only=True, leak=False).tuples(400, seed=3)
    assert {row.expected for row in rows} == {0.0}
    assert np.std([row.reward for row in rows]) > 0.05


def test_history_is_stored_once_with_unknown_probabilities(folder: Path) -> None:
    with headway.open(folder) as project:
        report = synthesise(project, "next-action", rows=60, seed=42, world="projects")
        again = synthesise(project, "next-action", rows=60, seed=42, world="projects")
        assert (report.stored, again.stored, again.already) == (60, 0, 60)
        latest = project.query.latest("next-action", 60)
        assert {decision.source for decision in latest} == {"synthetic", "mined"}
        assert all(not decision.propensity_known for decision in latest)
        assert all(decision.at < project.clock() for decision in latest)
        project.settle("next-action")
        mined = sum(decision.source == "mined" for decision in latest)
        assert project.query.count_settled("next-action") == 60 - mined
        assert project.leaks("next-action").fields == ("last_delta",)
        with pytest.raises(UnknownName, match="projects"):
            synthesise(project, "next-action", rows=4, seed=42, world="project")


def test_the_command_writes_the_world(folder: Path) -> None:
    done = terminal("-C", folder, "data", "synth", "next-action", "--world", "projects", "--rows", "8", "--json")
    assert done.json["stored"] == 8
    assert done.json["world"] == "projects"
