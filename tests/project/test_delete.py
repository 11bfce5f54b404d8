"""Deleting decisions, episodes and raters leaves the rewards of the remaining rows, on both engines."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings, strategies as some

from headway.kits.prompts import experiences
from headway.nouns.errors import Conflict, InvalidInput, UnknownName
from headway.observe.erase import DeletionFilter
from headway.project import DeletionReport
from tests.project.deletions import ARMS, TOML, Clock, Opened, everything, fill, table


def test_deleting_a_decision_deletes_its_signals_and_outcome(opened: Opened) -> None:
    project = opened(TOML)
    ids = fill(project)
    before = table(project)
    done = project.erase(DeletionFilter(decision=ids[3]))
    assert (done.decisions, done.signals, done.outcomes) == (1, 2, 1)
    del before[ids[3]]
    assert table(project) == before
    assert project.query.find(ids[3]) is None
    assert "question number 3'" not in everything(project)


def test_deleting_a_rater_gives_the_rewards_without_their_ratings(opened: Opened) -> None:
    project = opened(TOML)
    ids = fill(project)
    table(project)
    done = project.erase(DeletionFilter(rater="bob"))
    assert (done.decisions, done.signals, done.raters) == (0, 10, 1)
    assert table(project) == {identifier: ("rewarded", place / 10, 1.0) for place, identifier in enumerate(ids)}
    assert "bob" not in everything(project)
    project.signal(ids[0], reward=-3.0, rater="bob")  # the rater can rate again
    assert table(project)[ids[0]] == ("rewarded", -1.5, 1.0)


def test_a_decision_that_loses_its_only_rating_is_pending_again(opened: Opened) -> None:
    project = opened(TOML)
    pick = project.decide("route", "alone", ARMS)
    project.signal(pick.id, reward=1.0, rater="bob")
    assert len(table(project)) == 1
    project.erase(DeletionFilter(rater="bob"))
    assert table(project) == {pick.id: ("pending", None, 1.0)}, "only the number of its first outcome is kept"
    assert project.outcome(pick.id).status == "pending"


def test_decisions_before_a_time_are_deleted(opened: Opened) -> None:
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


def test_old_steps_of_the_mutation_endpoints_are_deleted(opened: Opened) -> None:
    project = opened(TOML)
    steps = experiences.ExperienceStore(project.database, "mutate-embedded")
    step = experiences.Step(
        state=[0.5, 1.0], action=1, reward=1.0, next_state=[1.0, 0.5], done=True, log_prob=-1.0, value=0.0
    )
    for now in (100.0, 200.0, 300.0):
        steps.add(step, now=now)
    assert project.erase(DeletionFilter(before=250.0)).experiences == 2
    assert project.database.query("SELECT COUNT(*) FROM experiences") == [(1,)]


def test_deleting_an_episode_deletes_its_signals_and_frees_its_name(opened: Opened) -> None:
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


def test_a_draw_settles_without_the_signal_of_a_deleted_repeat(opened: Opened) -> None:
    project = opened(TOML.replace("reward = {", "sticky = true\nreward = {"))
    first, second = (project.decide("route", f"step {n}", ARMS, episode="chat") for n in range(2))
    project.signal(first.id, reward=1.0)
    project.signal(second.id, reward=-1.0, rater="other")
    assert table(project)[first.id] == ("rewarded", 0.0, 1.0)
    project.erase(DeletionFilter(decision=second.id))
    assert table(project) == {first.id: ("rewarded", 1.0, 1.0)}


def test_a_candidate_set_is_deleted_with_its_last_decision_and_stored_again_by_every_process(opened: Opened) -> None:
    project, other = opened(TOML), opened(TOML)
    described = [{"name": "ask Ann Lee", "phone": "secret"}, {"name": "ask nobody"}]
    pick = project.decide("route", "who?", described)
    other.decide("route", "who else?", described)  # both processes have cached the set's id
    project.erase(DeletionFilter(before=project.clock() + 10.0))
    assert "Ann Lee" not in everything(project)
    for side in (project, other):
        again = side.decide("route", "and now?", described)
        assert side.query.decision(again.id).candidates == pick.candidates


def test_a_dry_run_counts_exactly_and_changes_nothing(opened: Opened) -> None:
    project = opened(TOML)
    ids = fill(project)
    table(project)
    before = everything(project)
    expected_report = project.erase(DeletionFilter(decision=ids[3]), dry_run=True)
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
        assert getattr(expected_report, name) == getattr(done, name)


def test_unknown_names_and_bad_filters_are_errors(opened: Opened) -> None:
    project = opened(TOML)
    fill(project, 2)
    for unknown in (
        DeletionFilter(rater="nobody"),
        DeletionFilter(episode="none"),
        DeletionFilter(decision="dec_" + "0" * 32),
    ):
        with pytest.raises(UnknownName):
            project.erase(unknown)
    with pytest.raises(InvalidInput, match="expected one"):
        DeletionFilter()
    with pytest.raises(InvalidInput, match="expected one"):
        DeletionFilter(rater="ann", episode="e")


def test_keep_days_deletes_older_decisions(opened: Opened) -> None:
    clock = Clock()
    project = opened(TOML + "[store]\nkeep_days = 30\n")
    project.clock = clock
    fill(project, 4)
    assert project.retain() is None
    clock.now += 31 * 86_400.0
    young = project.decide("route", "young", ARMS)
    expected_report = project.retain(dry_run=True)
    assert expected_report is not None
    assert expected_report.decisions == 4
    done = project.retain()
    assert isinstance(done, DeletionReport)
    assert [decision.id for decision in project.query.latest("route", 10)] == [young.id]
    assert project.retain() is None


def test_a_clock_that_would_delete_everything_deletes_nothing(opened: Opened) -> None:
    clock = Clock()
    project = opened(TOML + "[store]\nkeep_days = 30\n")
    project.clock = clock
    fill(project, 4)
    clock.now += 40 * 365 * 86_400.0
    for dry_run in (True, False):
        with pytest.raises(Conflict, match=r"Every decision \(4\) is older than keep_days = 30") as refused:
            project.retain(dry_run=dry_run)
        assert refused.value.code == "nothing_would_remain"
    assert len(project.query.latest("route", 10)) == 4


def test_names_of_roles_and_signals_go_with_their_last_row(opened: Opened) -> None:
    project = opened(TOML)
    kept = project.decide("route", "kept", ARMS, role="planner")
    gone = project.decide("route", "gone", ARMS, role="nurse of Ms Kowalska")
    project.signal(kept.id, reward=1.0, speed=2.0)
    project.signal(gone.id, reward=0.5, mood_of_ann=1.0)
    project.erase(DeletionFilter(decision=gone.id))
    left = everything(project)
    assert "Kowalska" not in left
    assert "mood_of_ann" not in left
    assert "planner" in left
    assert "speed" in left
    again = project.decide("route", "again", ARMS, role="nurse of Ms Kowalska")
    project.signal(again.id, reward=1.0, mood_of_ann=1.0)
    assert project.query.decision(again.id).situation.role == "nurse of Ms Kowalska"
    assert table(project)[again.id] == ("rewarded", 1.0, 1.0)


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
def test_any_sequence_ends_with_the_rewards_of_the_remaining_ratings(steps: list[Step], opened: Opened) -> None:
    """The model: live ratings by (decision, rater); a decision's reward is their mean."""
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
            for ratings in live.values():
                ratings.pop(rater, None)
    rewards = {name: reward for name, (status, reward, _) in table(project).items() if status == "rewarded"}
    assert rewards == {
        name: pytest.approx(sum(ratings.values()) / len(ratings)) for name, ratings in live.items() if ratings
    }
