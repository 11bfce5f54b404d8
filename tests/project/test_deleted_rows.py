"""A proof counts deleted decisions at their worst value: users whom an action failed may ask for it more often."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from headway.nouns.evidence import Verdict
from headway.observe.deleted import action_code, deleted_draws
from headway.observe.erase import DeletionFilter
from headway.observe.experience import part_of
from headway.project import Project
from headway.project.prove.subject import stored_evidence
from tests.project.deletions import Opened, everything

DAY = 86_400.0
TASK = """
[tasks.route]
actions = ["old", "new"]
fallback = "old"
state = ["x"]
rules = [{ when = "x > 0", use = "new" }]
range = [0.0, 1.0]
explore = { kind = "epsilon", value = 0.5 }
"""


class World:
    """One decision every ten seconds, each with its outcome."""

    def __init__(self, project: Project) -> None:
        self.project, self.rng, self.now = project, random.Random(11), 1_900_000_000.0 // DAY * DAY
        project.clock = lambda: self.now
        self.rewards: dict[str, tuple[str, float]] = {}

    def play(self, n: int, *, old: float = 0.6, new: float = 0.6) -> None:
        for number in range(n):
            self.now += 10.0
            text = f"request {self.now} {number}"
            pick = self.project.decide("route", text, state={"x": 1}, episode=f"user {len(self.rewards) // 2}")
            reward = float(self.rng.random() < {"old": old, "new": new}[pick.action])
            self.project.signal(pick.id, reward=reward)
            self.rewards[pick.id] = pick.action, reward

    def delete(self, leaves: Callable[[str, float], bool], most: int = 10_000) -> list[str]:
        gone = [name for name, row in self.rewards.items() if leaves(*row)][:most]
        for name in gone:
            self.project.erase(DeletionFilter(decision=name), rewrite=False)
            del self.rewards[name]
        return gone

    def prove(self) -> Verdict:
        return self.project.prove("rules@0", against="fixed@0", task="route")


def failed(action: str, reward: float) -> bool:
    return (action, reward) == ("new", 0.0)


def missing(verdict: Verdict) -> str:
    assert verdict.evidence is not None
    return next(one.message for one in verdict.evidence.diagnostics if one.name == "missing_width")


def test_deleted_failures_count_at_their_worst_value_and_the_sentence_is_true(opened: Opened) -> None:
    world = World(opened(TASK))
    world.play(400)
    gone = world.delete(failed, 60)
    verdict = world.prove()
    assert verdict.state == "refused"
    assert verdict.evidence is not None
    assert verdict.evidence.counts["deleted"] == len(gone) == 60
    assert verdict.evidence.n == 400
    assert verdict.reasons[0].startswith("Cannot tell: 60 of 400 decisions were deleted and count at their worst value")
    failing = {one.name: one.cure for one in verdict.evidence.diagnostics if one.blocks and not one.ok}
    assert failing.keys() == {"missing_width"}, "the draws that are left are not called wrong"
    assert 'missing = "at random"' in failing["missing_width"]


def test_few_deletions_of_anyone_do_not_hide_a_better_policy(opened: Opened) -> None:
    world = World(opened(TASK))
    world.play(400, old=0.2, new=0.9)
    verdict = world.prove()
    assert verdict.state == "pass"
    world.delete(lambda *_: True, 4)
    again = world.prove()
    assert again.state == "pass", again.reasons
    assert missing(again).startswith("4 of 400 decisions were deleted")
    stored = stored_evidence(world.project, verdict.evidence.id if verdict.evidence else "")
    assert stored.n == 400, "what was proven before keeps its sums"
    assert "deleted" not in stored.counts


def test_what_is_deleted_by_age_is_not_missing(opened: Opened) -> None:
    world = World(opened(TASK))
    world.play(20)
    world.delete(failed, 3)
    world.now += DAY
    middle = world.now
    world.play(300, old=0.2, new=0.9)
    assert len(deleted_draws(world.project.database, world.project.query, "route")) > 0
    world.project.erase(DeletionFilter(before=middle, task="route"))
    assert not deleted_draws(world.project.database, world.project.query, "route"), "older counts go too"
    verdict = world.prove()
    assert (verdict.state, missing(verdict)) == ("pass", "no outcome counts at its worst value")


def test_what_both_policies_had_read_is_not_missing(opened: Opened) -> None:
    project = opened(TASK)
    world = World(project)
    world.play(120)
    parts = {name: part_of(project.query.decision(name)) for name in world.rewards}
    gone = world.delete(failed, 25)
    world.now += DAY
    candidate = project.learn("route")
    world.play(60)
    verdict = project.prove(candidate, against="fixed@0", task="route")
    assert verdict.evidence is not None
    unread = sum(parts[name] == "prove" for name in gone)
    assert 0 < unread < len(gone)
    assert verdict.evidence.counts["deleted"] == unread


def test_deletions_before_the_day_of_a_registered_test_do_not_count(opened: Opened) -> None:
    project = opened(TASK)
    world = World(project)
    world.play(100)
    world.delete(failed, 10)
    world.now += DAY
    world.play(10)
    project.plan("route", uplift=0.4, policy="fixed@0", register=True)
    world.now += DAY
    world.play(20)
    evidence = project.prove("fixed@0", task="route").evidence
    assert evidence is not None
    assert "deleted" not in evidence.counts
    world.delete(lambda action, _: action == "new", 200)
    world.play(5)
    evidence = project.prove("fixed@0", task="route").evidence
    assert evidence is not None
    assert evidence.counts["deleted"] > 0, "those of its own days do"


@pytest.mark.parametrize("by", ["decision", "episode"])
def test_the_counts_hold_nothing_of_what_was_deleted(opened: Opened, by: str) -> None:
    project = opened("[tasks.route]\nrange = [0, 1]\n")
    pick = project.decide("route", "plantedtext", ["plantedaction", "plantedother"], episode="plantedepisode")
    project.decide("route", "another", ["a", "b"])
    project.erase(DeletionFilter(decision=pick.id) if by == "decision" else DeletionFilter(episode="plantedepisode"))
    (counted,) = deleted_draws(project.database, project.query, "route")
    assert (counted.count, counted.action) == (1, action_code(pick.action))
    assert "planted" not in everything(project)


def test_a_row_that_stands_in_for_a_deleted_one_has_no_part_in_a_cut_reward(opened: Opened) -> None:
    """The cut only hurts the candidate; deleted decisions of the other action are stood in for by its copies."""
    world = World(opened(TASK))
    while True:
        world.now += 10.0
        pick = world.project.decide("route", "first", state={"x": 1})
        if pick.action == "new":
            break
    world.project.signal(pick.id, reward=99.0)
    world.play(400)
    world.delete(lambda action, _: action == "old", 3)
    evidence = world.prove().evidence
    assert evidence is not None
    (check,) = (one for one in evidence.diagnostics if one.name == "clipping")
    assert check.ok, check.message
    assert check.message.startswith("1 of ")
