"""Deleting: as if it had never been, whatever is deleted, on both engines; and nothing of it is left on the disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from headway.kits.prompts import experiences
from headway.nouns.errors import InvalidInput, UnknownName
from headway.observe.erase import DeletionFilter
from headway.project import DeletionReport, Project

Opened = Callable[..., Project]
ARMS = ["small", "large"]
TOML = "[tasks.route]\nreward = { reward = 1.0 }\nrange = [-5, 5]\n"


def table(project: Project, task: str = "route") -> dict[str, tuple[str, float | None, float]]:
    """The reward table: what stands, by decision."""
    project.settle(task)
    return {row.decision.id: (row.status, row.reward, row.weight) for row in project.query.settled(task)}


def everything(project: Project) -> str:
    collected = []
    for name in sorted(project.database.tables()):
        for row in project.database.query(f"SELECT * FROM {name}"):
            collected.append(f"{name} {[bytes(cell) if isinstance(cell, memoryview) else cell for cell in row]}")
    return "\n".join(collected)


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def fill(project: Project, n: int = 20) -> list[str]:
    ids = []
    for place in range(n):
        pick = project.decide("route", f"question number {place}", ARMS, state={"n": place})
        project.signal(pick.id, reward=place / 10, rater="ann")
        if place % 2:
            project.signal(pick.id, reward=-place / 10, rater="bob")
        ids.append(pick.id)
    return ids


def test_one_decision_goes_with_all_that_hangs_on_it(opened: Opened) -> None:
    project = opened(TOML)
    ids = fill(project)
    before = table(project)
    done = project.erase(DeletionFilter(decision=ids[3]))
    assert (done.decisions, done.signals, done.outcomes) == (1, 2, 1)
    del before[ids[3]]
    assert table(project) == before
    assert project.query.find(ids[3]) is None
    assert "question number 3'" not in everything(project)


def test_a_rater_goes_and_rewards_are_as_if_they_had_never_rated(opened: Opened) -> None:
    project = opened(TOML)
    ids = fill(project)
    table(project)
    done = project.erase(DeletionFilter(rater="bob"))
    assert (done.decisions, done.signals, done.raters) == (0, 10, 1)
    assert table(project) == {identifier: ("rewarded", place / 10, 1.0) for place, identifier in enumerate(ids)}
    assert "bob" not in everything(project)
    project.signal(ids[0], reward=-3.0, rater="bob")  # and may come back
    assert table(project)[ids[0]] == ("rewarded", -1.5, 1.0)


def test_a_decision_whose_only_rating_goes_is_pending_again(opened: Opened) -> None:
    project = opened(TOML)
    pick = project.decide("route", "alone", ARMS)
    project.signal(pick.id, reward=1.0, rater="bob")
    assert len(table(project)) == 1
    project.erase(DeletionFilter(rater="bob"))
    assert table(project) == {}
    assert project.outcome(pick.id).status == "pending"


def test_what_is_older_goes(opened: Opened) -> None:
    clock = Clock()
    project = opened(TOML)
    project.clock = clock
    fill(project, 10)
    middle = clock.now
    young = fill(project, 5)
    project.signal("dec_0197c1f2a3b47000a1b2c3d4e5f60718", reward=1.0, early=True, at=middle - 5.0)
    table(project)
    done = project.erase(DeletionFilter(before=middle))
    assert done.decisions == 10
    assert done.signals == 16
    assert set(table(project)) == set(young)


def test_steps_of_the_mutation_endpoints_go_by_their_age(opened: Opened) -> None:
    project = opened(TOML)
    steps = experiences.ExperienceStore(project.database, "mutate-embedded")
    step = experiences.Step(
        state=[0.5, 1.0], action=1, reward=1.0, next_state=[1.0, 0.5], done=True, log_prob=-1.0, value=0.0
    )
    for now in (100.0, 200.0, 300.0):
        steps.add(step, now=now)
    assert project.erase(DeletionFilter(before=250.0)).experiences == 2
    assert project.database.query("SELECT COUNT(*) FROM experiences") == [(1,)]


def test_an_episode_goes_with_its_signals_and_its_name_is_free_again(opened: Opened) -> None:
    project = opened(TOML.replace("reward = {", "sticky = true\nreward = {"))
    for name in ("chat-7", "chat-8"):
        for step in range(3):
            project.decide("route", f"{name} step {step}", ARMS, episode=name)
        project.signal(project.episode("route", name), reward=1.0)
    table(project)
    done = project.erase(DeletionFilter(episode="chat-7"))
    assert (done.decisions, done.signals, done.episodes, done.outcomes) == (3, 1, 1, 1)
    assert "chat-7" not in everything(project)
    assert len(table(project)) == 1
    assert project.decide("route", "again", ARMS, episode="chat-7").situation.step == 0


def test_a_follower_goes_and_the_draw_settles_without_its_signal(opened: Opened) -> None:
    project = opened(TOML.replace("reward = {", "sticky = true\nreward = {"))
    first, second = (project.decide("route", f"step {n}", ARMS, episode="chat") for n in range(2))
    project.signal(first.id, reward=1.0)
    project.signal(second.id, reward=-1.0, rater="other")
    assert table(project)[first.id] == ("rewarded", 0.0, 1.0)
    project.erase(DeletionFilter(decision=second.id))
    assert table(project) == {first.id: ("rewarded", 1.0, 1.0)}


def test_candidate_sets_go_with_their_last_decision_and_are_stored_anew_by_everybody(opened: Opened) -> None:
    project, other = opened(TOML), opened(TOML)
    described = [{"name": "ask Ann Lee", "phone": "secret"}, {"name": "ask nobody"}]
    pick = project.decide("route", "who?", described)
    other.decide("route", "who else?", described)  # both processes know the set's id by now
    project.erase(DeletionFilter(before=project.clock() + 10.0))
    assert "Ann Lee" not in everything(project)
    for side in (project, other):
        again = side.decide("route", "and now?", described)
        assert side.query.decision(again.id).candidates == pick.candidates


def test_a_rehearsal_counts_exactly_and_changes_nothing(opened: Opened) -> None:
    project = opened(TOML)
    ids = fill(project)
    table(project)
    before = everything(project)
    rehearsed = project.erase(DeletionFilter(decision=ids[3]), dry_run=True)
    assert everything(project) == before
    done = project.erase(DeletionFilter(decision=ids[3]))
    for name in (
        "decisions",
        "signals",
        "outcomes",
        "episodes",
        "candidate_sets",
        "raters",
        "jobs",
        "tasks",
        "bundles",
    ):
        assert getattr(rehearsed, name) == getattr(done, name)


def test_bundles_that_were_learned_from_deleted_rows_are_listed(opened: Opened) -> None:
    from tests.project.conftest import play

    project = opened()
    ids = play(project, 120)
    first = project.learn("route")
    later = play(project, 5, seed=9)
    assert project.erase(DeletionFilter(decision=later[-1]), dry_run=True).bundles == ()
    from headway.observe.experience import part_of

    learned = next(identifier for identifier in ids if part_of(project.query.decision(identifier)) == "train")
    held_out = next(identifier for identifier in ids if part_of(project.query.decision(identifier)) == "prove")
    assert project.erase(DeletionFilter(decision=held_out), dry_run=True).bundles == ()
    assert project.erase(DeletionFilter(decision=learned), dry_run=True).bundles == (first,)


@pytest.mark.engines(slow="postgresql", why="it is about learning")
def test_an_online_policy_takes_back_exactly_what_it_had_learned_from_deleted_rows(opened: Opened) -> None:
    from tests.project.conftest import play

    project = opened('[tasks.route]\nonline = "live"\ngate = "off"\n')
    play(project, 120)
    project.promote(project.learn("route"))
    more = play(project, 20, seed=11)
    project.fold("route")
    before = project.servings.of(project.settings.task("route")).digest
    done = project.erase(DeletionFilter(decision=more[7]))
    assert done.snapshots["route"]
    after = project.servings.of(project.settings.task("route"))
    assert after.digest != before
    _, with_it = project.registry.load(before, task="route")
    _, without = project.registry.load(after.digest, task="route")
    count = float(with_it["totals"][..., 0].sum()) - float(without["totals"][..., 0].sum())
    assert count == 1.0
    # Built from the rows that are left, the sums are the same to the last bit.
    rebuilt = _rebuilt(project, before)
    for name in ("moments", "totals") if "moments" in without else ("totals",):
        np.testing.assert_allclose(np.asarray(without[name]), rebuilt[name], atol=1e-9)


def _rebuilt(project: Project, digest: str) -> dict[str, Any]:
    from headway.learn import online
    from headway.observe.experience import part_of
    from headway.project import encoder_spec

    settings = project.settings.task("route")
    header, tensors = project.registry.load(digest, task="route")
    body = project.servings.body(settings)
    policy = project.servings.policy("route", body, str(project.registry.ref(digest)), digest)
    assert encoder_spec(project, settings) == body["encoder_spec"]
    state = online.state_from(policy)
    for name in ("moments", "targets", "totals"):
        if hasattr(state, name):
            getattr(state, name)[...] = 0.0
    state.open()
    start = int(header.trained_on["folded_from"])
    for row in project.query.settled("route", upto=int(header.trained_on["upto"])):
        if row.reward is not None and (row.seq > start or part_of(row.decision) != "prove"):
            online.update(state, row)
    del tensors
    return dict(online.tensors_of(state))


def test_with_consensus_a_deleted_rater_is_as_if_they_had_never_rated(opened: Opened) -> None:
    toml = TOML + "consensus = true\n"
    rng = np.random.default_rng(2)
    project = opened(toml)
    ids = [project.decide("route", f"q{n}", ARMS).id for n in range(30)]
    ratings = [(n, rater, float(rng.normal())) for n in range(30) for rater in ("ann", "bob", "eve")]
    for n, rater, value in ratings:
        project.signal(ids[n], {"reward": value}, rater=rater)
    expected = table(project)
    for n in range(0, 30, 2):
        project.signal(ids[n], {"reward": 4.0}, rater="troll")
    assert table(project) != expected
    project.erase(DeletionFilter(rater="troll"))
    assert table(project) == expected


@pytest.mark.parametrize("rewrite", [True, False])
def test_nothing_of_it_is_left_on_the_disk(tmp_path: Path, environ: dict[str, str], rewrite: bool) -> None:
    import headway

    with headway.open(tmp_path, environ=environ, seed=3) as project:
        for n in range(200):
            text = f"private-words-{n} " + "x" * (5000 if n % 10 == 0 else 50)
            pick = project.decide("route", text, [f"candidate-of-{n}", "other"], episode=f"episode-of-{n}")
            project.signal(pick.id, reward=1.0, rater=f"person-{n}", label=f"label-of-{n}")
        project.settle("route")
        done = project.erase(DeletionFilter(before=project.clock() + 1.0), rewrite=rewrite)
        assert done.decisions == 200
        if not project.settings.store.embedded:
            assert "write-ahead log" in done.remains[0]  # said, because it is the server's
            return
        assert done.remains == ()
        for file in (path for path in (tmp_path / ".headway").rglob("*") if path.is_file()):
            content = file.read_bytes()
            for mark in (b"private-words", b"candidate-of", b"episode-of", b"person-", b"label-of"):
                assert mark not in content, (file, mark)


_KILLED = """
import sys, time
import headway
from headway.observe import erase
from headway.observe.erase import DeletionFilter
project = headway.open(sys.argv[1])
inner = erase.erase
def traced(connection, wanted, found):
    class Slow:
        def __getattr__(self, name):
            return getattr(connection, name)
        def execute(self, *args):
            print("step", flush=True)
            return connection.execute(*args)
    return inner(Slow(), wanted, found)
erase.erase = traced
project.erase(DeletionFilter(rater="bob"))
print("done", flush=True)
project.erase(DeletionFilter(before=time.time() + 10))
print("done", flush=True)
"""


@pytest.mark.parametrize("steps", [2, 9, 16, 27])
def test_killed_in_the_middle_it_is_deleted_wholly_or_not_at_all(
    tmp_path: Path, environ: dict[str, str], steps: int
) -> None:
    import headway

    with headway.open(tmp_path, environ=environ) as project:
        ids = fill(project)
        before = table(project)
    child = subprocess.Popen(
        [sys.executable, "-c", _KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True, env={**os.environ, **environ}
    )
    assert child.stdout is not None
    finished = 0
    for _ in range(steps):
        finished += child.stdout.readline() == "done\n"
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    with headway.open(tmp_path, environ=environ) as project:
        after = table(project)
        bob = project.database.query(
            "SELECT COUNT(*) FROM signals g JOIN names r ON r.id = g.rater_id WHERE r.name = 'bob'"
        )[0][0]
        signals = project.database.query("SELECT COUNT(*) FROM signals")[0][0]
        without_bob = {identifier: ("rewarded", min(1.0, place / 10), 1.0) for place, identifier in enumerate(ids)}
        assert (after, bob, signals) in ((before, 10, 30), (without_bob, 0, 20), ({}, 0, 0))
        assert finished == 0 or bob == 0
        assert project.database.check() == []


def test_how_long_things_are_kept_is_a_setting(opened: Opened) -> None:
    clock = Clock()
    project = opened(TOML + "[store]\nkeep_days = 30\n")
    project.clock = clock
    fill(project, 4)
    assert project.retain() is None
    clock.now += 31 * 86_400.0
    young = project.decide("route", "young", ARMS)
    rehearsed = project.retain(dry_run=True)
    assert rehearsed is not None
    assert rehearsed.decisions == 4
    done = project.retain()
    assert isinstance(done, DeletionReport)
    assert [decision.id for decision in project.query.latest("route", 10)] == [young.id]
    assert project.retain() is None


def test_what_is_unknown_is_said(opened: Opened) -> None:
    project = opened(TOML)
    fill(project, 2)
    for wanted in (
        DeletionFilter(rater="nobody"),
        DeletionFilter(episode="none"),
        DeletionFilter(decision="dec_" + "0" * 32),
    ):
        with pytest.raises(UnknownName):
            project.erase(wanted)
    with pytest.raises(InvalidInput, match="expected one"):
        DeletionFilter()
    with pytest.raises(InvalidInput, match="expected one"):
        DeletionFilter(rater="ann", episode="e")


Step = tuple[str, int, str, float]
STEPS = some.lists(
    some.tuples(
        some.sampled_from(["decide", "signal", "withdraw", "erase decision", "erase rater", "settle"]),
        some.integers(0, 7),
        some.sampled_from(["ann", "bob"]),
        some.sampled_from([-1.0, 0.0, 0.5, 1.0]),
    ),
    max_size=30,
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_any_sequence_ends_as_if_what_was_deleted_had_never_been(steps: list[Step], opened: Opened) -> None:
    """Against a model in plain Python: live ratings by (decision, rater), a decision's reward is their mean."""
    project = opened(TOML)
    if rows := project.query.latest(None, 1):
        project.erase(DeletionFilter(before=rows[0].at + 1e6), rewrite=False)
    ids: list[str] = []
    live: dict[str, dict[str, float]] = {}
    for what, place, rater, value in steps:
        if what == "decide" or not ids:
            pick = project.decide("route", f"q{len(ids)}", ARMS)
            ids.append(pick.id)
            live[pick.id] = {}
            continue
        which = ids[place % len(ids)]
        if what == "settle":
            project.settle("route")
        elif what == "signal" and which in live:
            project.signal(which, reward=value, rater=rater)
            live[which][rater] = value
        elif what == "withdraw" and rater in live.get(which, {}):
            project.withdraw(which, "reward", rater=rater)
            del live[which][rater]
        elif what == "erase decision" and which in live:
            project.erase(DeletionFilter(decision=which), rewrite=False)
            del live[which]
        elif what == "erase rater" and project.database.query(
            "SELECT 1 FROM names WHERE kind = 'rater' AND name = ?", (rater,)
        ):
            project.erase(DeletionFilter(rater=rater), rewrite=False)
            for given_ratings in live.values():
                given_ratings.pop(rater, None)
    rewards = {name: reward for name, (status, reward, _) in table(project).items() if status == "rewarded"}
    assert rewards == {
        name: pytest.approx(sum(given_ratings.values()) / len(given_ratings))
        for name, given_ratings in live.items()
        if given_ratings
    }
