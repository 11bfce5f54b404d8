"""Blind comparisons without a model: the order is put away until the vote, and is drawn evenly."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import replace
from math import exp
from pathlib import Path

import numpy as np
import pytest

import headway
from headway.kits.reply import duels
from headway.kits.reply.comparison import digest
from headway.kits.reply.preference import vote_tally
from headway.kits.reply.probes import JUDGING
from headway.nouns.errors import Conflict, UnknownName
from headway.nouns.protocols import Learned
from headway.project import Project
from headway.promote.one_key import with_key_checks
from headway.prove.sequential import e_process

TOML = """
[tasks.reply]
kind = "reply"
system = "Be brief."

[tasks.route]
actions = ["a", "b"]
"""


def publish_candidate(project: Project, task: str, *, seed: int = 0) -> str:
    """A policy that nobody can load, as a candidate of a reply task."""
    learned = Learned(
        family="language", tensors={"lora": np.full(4, seed + 1, np.float32)}, knobs={}, metrics={}, baselines={},
        trained_on={},
    )  # fmt: skip
    return project.publish(learned, task=task, kind="reply", encoder="", seed=seed, why="test").ref


@pytest.fixture
def compared(tmp_path: Path) -> Iterator[tuple[Project, str]]:
    """A project with a candidate beside the base. Nobody loads it."""
    (tmp_path / "headway.toml").write_text(TOML)
    with headway.open(tmp_path) as project:
        yield project, publish_candidate(project, "reply")


def files(project: Project) -> list[Path]:
    return sorted((project.home / "work" / "duels").glob("*.json"))


def test_a_comparison_is_stored_when_it_is_shown_and_its_order_is_not(compared: tuple[Project, str]) -> None:
    project, candidate = compared
    asked = duels.choose(project, "reply", None, None)
    assert (asked.candidate, asked.against, asked.question) == (candidate, "base@0", JUDGING[0][0])
    assert [turn.content for turn in asked.prompt.turns] == ["Be brief.", asked.question]
    sealed = duels.seal(project, asked, ("One", "Two"))
    assert sorted((sealed.left, sealed.right)) == ["One", "Two"]
    (shown,) = project.query.decisions("reply")
    (file,) = files(project)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert duels.choose(project, "reply", None, None).question != asked.question, "one that waits is not asked again"
    voted = duels.vote(project, "reply", sealed.id, 0.0)
    (stored,) = project.query.decisions("reply")
    assert (stored.id, stored.action, stored.probabilities) == (voted.decision, shown.action, (0.5, 0.5))
    assert voted.left == (candidate if sealed.left == "One" else "base@0")
    (signal,) = project.query.signals(stored.id)
    assert signal.value == (0.0 if stored.action == voted.left else 1.0)
    assert duels.vote(project, "reply", sealed.id, 0.0) == voted
    with pytest.raises(Conflict) as error:
        duels.vote(project, "reply", sealed.id, 1.0)
    assert error.value.code == "duel_voted"


def test_the_log_does_not_tell_what_is_on_the_left(compared: tuple[Project, str]) -> None:
    project, candidate = compared
    agreed = 0
    for _ in range(30):
        sealed = duels.seal(project, duels.choose(project, "reply", None, None), ("One", "Two"))
        *_, stored = project.query.decisions("reply")
        agreed += (stored.action == candidate) == (sealed.left == "One")
    assert 1 <= agreed <= 29  # the chance of a false alarm is 2e-9


def test_who_loses_and_leaves_counts_as_lost(compared: tuple[Project, str]) -> None:
    project, candidate = compared
    for place in range(20):
        sealed = duels.seal(project, duels.choose(project, "reply", None, None), ("good", "bad"), key="ann")
        if place % 2:
            duels.vote(project, "reply", sealed.id, float(sealed.left == "good"), rater="ann")
    tally = vote_tally(project, "reply", candidate, "base@0")
    assert (tally.wins, tally.losses) == (10, 0)
    assert tally.e_value < 1.0
    verdict = project.prove(candidate, against="base@0", task="reply")
    assert verdict.evidence is not None
    assert verdict.evidence.counts["unanswered"] == 10
    check = next(check for check in verdict.evidence.diagnostics if check.name == "unanswered")
    assert not check.ok
    assert "10 of 20 comparisons were shown and not answered" in check.message
    assert "'ann' 10" in check.message


@pytest.mark.parametrize("answers", [0, 1])
def test_who_asks_and_does_not_answer_cannot_block_a_pass(compared: tuple[Project, str], answers: int) -> None:
    project, candidate = compared
    for place in range(240):
        key = "mute" if place % 2 else f"key{place % 10}"
        sealed = duels.seal(project, duels.choose(project, "reply", None, None), ("good", "bad"), key=key)
        if key != "mute" or place < 2 * answers:
            duels.vote(project, "reply", sealed.id, float(sealed.left == "good"), rater=key)
    evidence = project.prove(candidate, against="base@0", task="reply").evidence
    assert evidence is not None
    assert evidence.shows_better
    assert not evidence.deciding()
    assert evidence.counts["unanswered"] == 24, "as many as the others have answered each"
    check = next(check for check in evidence.diagnostics if check.name == "unanswered")
    assert "'mute'" in check.message
    assert f"{95 - answers} more are set aside" in check.message


def test_two_keys_need_a_third_unless_one_is_trusted(compared: tuple[Project, str]) -> None:
    project, candidate = compared
    for place in range(40):
        key = ("ann", "bob")[place % 2]
        sealed = duels.seal(project, duels.choose(project, "reply", None, None), ("good", "bad"), key=key)
        duels.vote(project, "reply", sealed.id, float(sealed.left == "good"), rater=key)
    evidence = project.prove(candidate, against="base@0", task="reply").evidence
    assert evidence is not None
    assert evidence.deciding() == ("ann, bob",)
    check = next(check for check in evidence.diagnostics if check.name == "one_key")
    assert check.message.endswith("and no other key rated any; a third one is needed")
    checked, resting = with_key_checks(evidence, frozenset({"bob"}))
    assert all(check.ok for check in checked.diagnostics if check.name == "one_key")
    assert resting == ("bob",)


@pytest.mark.parametrize("colluders", [("eve",), ("eve", "mal")])
def test_neither_a_key_nor_two_that_agree_decide(compared: tuple[Project, str], colluders: tuple[str, ...]) -> None:
    project, candidate = compared
    others = ("ann", "bob", "cem", "dan")
    for place in range(72 * len(colluders)):
        hostile = place % 2
        rater = (colluders if hostile else others)[place // 2 % (len(colluders) if hostile else 4)]
        sealed = duels.seal(project, duels.choose(project, "reply", None, None), ("good", "bad"), key=rater)
        wins = bool(hostile or place % 16 < 8)
        duels.vote(project, "reply", sealed.id, float((sealed.left == "good") == wins), rater=rater)
    verdict = project.prove(candidate, against="base@0", task="reply")
    evidence = verdict.evidence
    assert evidence is not None
    assert evidence.statistic > evidence.threshold
    assert verdict.state == "refused"
    check = next(check for check in evidence.diagnostics if check.name == "one_key")
    assert all(repr(name) in check.message for name in colluders)
    if len(colluders) == 2:
        assert evidence.deciding() == ("eve, mal",), "neither of them alone"
        assert "--trust-key eve --trust-key mal" in check.cure
        checked, _ = with_key_checks(replace(evidence, trusted=("eve",)), frozenset())
        assert all(check.ok for check in checked.diagnostics if check.name == "one_key"), "mal alone decides nothing"


def test_the_order_is_drawn_evenly_and_the_e_value_grows_with_the_votes(compared: tuple[Project, str]) -> None:
    project, candidate = compared
    task = "reply"
    lefts = 0
    for _ in range(30):
        asked = duels.choose(project, task, None, None)
        sealed = duels.seal(project, asked, ("from the candidate", "from the base"), key="ann")
        with pytest.raises(UnknownName):
            duels.vote(project, task, sealed.id, 1.0, rater="bob")  # it was made for ann
        value = 1.0 if sealed.left == "from the candidate" else 0.0
        voted = duels.vote(project, task, sealed.id, value, rater="ann")
        assert voted.left == (candidate if value else "base@0")
        lefts += value == 1.0
    assert 1 <= lefts <= 29  # the chance of a false alarm is 2e-9
    tally = vote_tally(project, task, candidate, "base@0")
    assert (tally.wins, tally.losses, tally.ties, tally.passes_at) == (30, 0, 0, 20.0)
    assert tally.e_values[5] == pytest.approx(exp(e_process(6, 0)))
    assert tally.e_value > 1e7
    assert project.standing(task).votes == 30, "the loop looks again after every vote"
    used = [decision.situation.state["question"] for decision in project.query.decisions(task)]
    assert set(used) >= {digest(question) for question, _ in JUDGING}, "every question is asked before any is again"


def test_a_comparison_drawn_under_another_configuration_is_refused(compared: tuple[Project, str]) -> None:
    project, candidate = compared
    sealed = duels.seal(project, duels.choose(project, "reply", candidate, "base@0"), ("a", "b"))
    (file,) = files(project)
    drawn = json.loads(file.read_text())
    file.write_text(json.dumps(drawn | {"config_hash": "0" * 16}))  # as after an update
    with pytest.raises(Conflict) as error:
        duels.vote(project, "reply", sealed.id, 1.0)
    assert error.value.code == "stale_duel"


def test_old_comparisons_are_forgotten(compared: tuple[Project, str]) -> None:
    project, _ = compared
    sealed = duels.seal(project, duels.choose(project, "reply", None, None), ("a", "b"))
    yesterday = time.time() - 25 * 3600
    os.utime(files(project)[0], (yesterday, yesterday))
    newer = duels.seal(project, duels.choose(project, "reply", None, None), ("a", "b"))
    assert [file.stem for file in files(project)] == [newer.id]
    with pytest.raises(UnknownName):
        duels.vote(project, "reply", sealed.id, 1.0)


def test_there_is_nothing_to_compare_without_a_candidate(tmp_path: Path) -> None:
    (tmp_path / "headway.toml").write_text(TOML)
    with headway.open(tmp_path) as project:
        for task, code in (("reply", "no_candidate_policy"), ("route", "not_a_reply_task")):
            with pytest.raises(UnknownName) as error:
                duels.choose(project, task, None, None)
            assert error.value.code == code
