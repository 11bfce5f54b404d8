"""After an alarm: wider exploration with exact probabilities, evidence and learning without what was before."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from headway.nouns.errors import Conflict
from headway.project import Project, guard as guard_verb
from headway.project.alarm import AlarmDetail, raise_alarm
from headway.project.data.ages import as_read
from headway.project.prove.change import BEFORE_CHANGE

TOML = '[tasks.route]\nactions = ["small", "large"]\nrange = [0, 1]\n'
BEFORE = {"small": 0.2, "large": 0.8}
AFTER = {"small": 0.8, "large": 0.2}


def play(project: Project, count: int, earned: dict[str, float]) -> None:
    picks = project.submit([project.consider("route", "") for _ in range(count)]).result()
    rows = []
    for pick in picks:
        rows += project.checked_signals(pick.id, {"reward": earned[pick.action]})
    project.submit_signals(rows).result()


def alarm(project: Project, *, action: str = "large", explore: float = 0.3) -> None:
    """An alarm about a change that came with the next decision."""
    detail: AlarmDetail = {
        "stream": f"action {action}",
        "action": action,
        "segment": "",
        "since": project.clock(),
        "from_decision": project.query.last_decision("route") + 1,
        "before": 0.8,
        "after": 0.2,
        "rows": [100, 20],
        "explore": explore,
    }
    raise_alarm(project, "route", detail, who="test")


@pytest.fixture
def promoted(opened: Callable[..., Project]) -> Project:
    """A project whose learned policy prefers "large"."""
    project = opened(TOML + 'gate = "off"\n')
    play(project, 120, BEFORE)
    project.promote(project.learn("route"), at_once=True)
    return project


def test_exploration_is_wider_while_an_alarm_is_open_and_replays_are_exact(promoted):
    usual = promoted.decide("route", "")
    assert dict(zip(("small", "large"), usual.probabilities, strict=True)) == pytest.approx(
        {"small": 0.059, "large": 0.941}
    )
    alarm(promoted)
    wide = [promoted.decide("route", "") for _ in range(5)]
    for pick in wide:  # (1 − 0.3)·(0.05, 0.95) + 0.3/2
        assert pick.probabilities == pytest.approx((0.185, 0.815))
        assert "floor 0.3" in pick.exploration
        assert promoted.replay(pick.id).exact
    promoted.end_alarm("route", why="test")
    assert promoted.decide("route", "").probabilities == usual.probabilities
    assert all(promoted.replay(pick.id).exact for pick in (usual, *wide))


@pytest.mark.parametrize(("most", "floor"), [(0.1, 0.1), (0.0, 0.02), (0.9, 0.3)])
def test_the_cap_holds(opened, most, floor):
    project = opened(f'{TOML}gate = "off"\nexplore = "none"\nmost_exploration = {most}\n')
    play(project, 120, BEFORE)
    project.promote(project.learn("route"), at_once=True)
    alarm(project)
    assert min(project.decide("route", "").probabilities) == pytest.approx(floor / 2)


def test_decisions_from_before_an_alarm_do_not_speak(opened):
    project = opened(TOML)
    play(project, 300, BEFORE)
    policy = project.learn("route")
    play(project, 60, BEFORE)
    before = project.prove(policy).evidence
    assert before.counts.get(BEFORE_CHANGE, 0) == 0
    alarm(project)
    play(project, 50, AFTER)
    after = project.prove(policy).evidence
    assert after.n == 50
    assert after.counts[BEFORE_CHANGE] == 360
    assert after.difference.value < 0.0 < before.difference.value


@pytest.mark.engines(slow="postgresql", why="it is about the proof")
def test_a_proof_from_before_an_alarm_does_not_promote_and_is_charged_again(opened):
    project = opened(TOML)
    play(project, 300, BEFORE)
    policy = project.learn("route")
    play(project, 400, BEFORE)
    verdict = project.prove(policy)
    assert verdict.passed
    alarm(project, explore=0.0)
    with pytest.raises(Conflict, match="outcomes have changed since"):
        project.promote(policy, because=verdict)
    play(project, 400, BEFORE)  # it was a false alarm
    again = project.prove(policy)
    assert again.passed
    assert len(project.ledger.tests("route")) == 2
    project.promote(policy, because=again, at_once=True)


def test_wider_exploration_alone_makes_no_evidence_stale(opened):
    project = opened(TOML)
    play(project, 300, BEFORE)
    policy = project.learn("route")
    alarm(project)
    play(project, 400, BEFORE)
    verdict = project.prove(policy)
    project.end_alarm("route", why="test")
    assert verdict.passed
    assert project.promote(policy, because=verdict, at_once=True).kind == "promote"


@pytest.mark.kits("formats")
def test_rows_of_the_changed_action_from_before_are_not_learned_from(promoted):
    play(promoted, 30, BEFORE)
    alarm(promoted)
    play(promoted, 60, AFTER)
    policy = promoted.learn("route")
    header = promoted.registry.header(promoted.registry.find(policy))
    (change,) = header.trained_on["age"]["changes"]
    assert change["action"] == "large"
    (best, _) = promoted.rank("route", None, "", policy=policy)
    assert best.name == "small"
    large = [row for row in promoted.query.settled("route") if row.decision.action == "large"]
    weights = {row.decision.seq < change["from_decision"]: as_read(header, row).weight for row in large}
    assert weights == {True: 0.0, False: 1.0}


def test_an_alarm_about_everything_counts_where_the_rows_confirm_it(promoted):
    play(promoted, 30, BEFORE)
    alarm(promoted, action="")
    play(promoted, 80, {"small": 0.2, "large": 0.1})
    header = promoted.registry.header(promoted.registry.find(promoted.learn("route")))
    assert [change["action"] for change in header.trained_on["age"]["changes"]] == ["large"]


def test_without_changes_the_header_says_nothing_about_age(promoted):
    header = promoted.registry.header(promoted.ledger.current("route").policy_hash)
    assert "age" not in header.trained_on
    assert json.dumps(dict(header.trained_on))


def test_the_previous_policy_takes_over_if_it_is_better_since_the_alarm(promoted):
    play(promoted, 100, BEFORE)
    alarm(promoted)
    play(promoted, 25, AFTER)
    assert promoted.guard("route") is None, "too few decisions since the alarm"
    play(promoted, 200, AFTER)
    entry = promoted.guard("route")
    assert entry is not None
    assert (entry.kind, entry.policy) == ("rollback", "uniform@0")
    assert [row.ended for row in promoted.alarms("route")] == ["rollback of uniform@0"]


def test_a_change_that_touches_all_actions_alike_rolls_nothing_back(promoted, monkeypatch):
    monkeypatch.setattr(guard_verb, "MOST_DECISIONS", 400)
    play(promoted, 50, BEFORE)
    alarm(promoted, action="")
    play(promoted, 399, {"small": 0.0, "large": 0.6})
    assert promoted.guard("route") is None
    assert promoted.close_alarm("route") is None, "too early"
    play(promoted, 1, {"small": 0.0, "large": 0.6})
    ended = promoted.close_alarm("route")
    assert ended is not None
    assert ended.why.startswith("all actions changed alike (large 0.80 → 0.60, small 0.20 → 0.00)")
    assert promoted.ledger.heads("route").alarm is None
    assert promoted.guard("route") is None


def test_a_canary_does_not_disable_the_guard_of_the_current_policy(promoted):
    play(promoted, 60, BEFORE)
    promoted.canary(promoted.learn("route"), share=0.2)
    play(promoted, 400, AFTER)
    entry = promoted.guard("route")
    assert entry is not None
    assert (entry.kind, entry.policy) == ("rollback", "uniform@0")


def test_the_guard_counts_decisions_since_the_promotion_only(opened):
    project = opened(TOML + 'gate = "off"\n')
    play(project, 200, BEFORE)
    policy = project.learn("route")
    play(project, 400, AFTER)  # before the promotion: they speak against it
    project.promote(policy, at_once=True)
    play(project, 100, BEFORE)
    assert project.guard("route") is None
    looks = project.ledger.evidences("route", limit=1)
    assert project.verdict(looks[0][0]).evidence.n == 100
