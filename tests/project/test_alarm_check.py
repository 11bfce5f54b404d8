"""Alarms from stored decisions: found once, read incrementally, and not raised by outcomes that are late or missing."""

from __future__ import annotations

import numpy as np
import pytest

import headway
from headway.observe.served import ServedRows
from headway.project import Project
from headway.project.prove.change import changed_from

TOML = (
    '[tasks.route]\nactions = ["small", "large"]\nfallback = "large"\n'
    'rules = [{ when = "task_complexity_score > 2", use = "small" }]\nreward_after_s = 3600\n'
)


class Clock:
    now = 1.75e9

    def __call__(self):
        return self.now


class Traffic:
    """Decisions of rules that choose "large", with the outcomes of a world that the test sets."""

    def __init__(self, folder, toml=TOML, seed=3):
        (folder / "headway.toml").write_text(toml)
        self.clock = Clock()
        self.project = Project(folder, environ={}, clock=self.clock, seed=seed)
        self.rng = np.random.default_rng(seed)
        self.open = []

    def decide(self, n, **situation):
        for start in range(0, n, 100):
            asks = [self.project.consider("route", "a question", **situation) for _ in range(min(100, n - start))]
            self.open += self.project.submit(asks).result()
            self.clock.now += 60.0

    def signal(self, chances, *, only=lambda pick: True, value=lambda won: float(won), rater=""):
        """Report the open decisions that `only` admits; `chances` by action."""
        rows, left = [], []
        for pick in self.open:
            if only(pick):
                won = self.rng.random() < chances[pick.action]
                rows += self.project.checked_signals(pick.id, {"reward": value(won)}, rater=rater)
            else:
                left.append(pick)
        self.project.submit_signals(rows).result()
        self.open = left

    def serve(self, n, large, small=0.6, **situation):
        self.decide(n, **situation)
        self.signal({"large": large, "small": small})

    def check(self):
        self.project.settle("route")
        return self.project.check_alarm("route", who="watch")


@pytest.fixture
def traffic(tmp_path):
    opened = Traffic(tmp_path)
    yield opened
    opened.project.close()


def test_a_collapse_is_told_once_with_its_place_and_time(traffic):
    traffic.serve(800, 0.75)
    assert traffic.check() is None
    changed = traffic.clock.now
    traffic.serve(200, 0.35)
    entry = traffic.check()
    assert entry is not None
    assert (entry.kind, entry.policy, entry.who) == ("alarm", "rules@0", "watch")
    (alarm,) = traffic.project.alarms("route")
    assert (alarm.action, alarm.segment, alarm.explore) == ("large", "", 0.5)
    assert alarm.since == pytest.approx(changed, abs=120.0)
    assert traffic.project.query.by_seq(alarm.from_decision).at == alarm.since
    assert alarm.before == pytest.approx(0.75, abs=0.06)
    assert alarm.after == pytest.approx(0.35, abs=0.12)
    assert "'large' earns 0.3" in str(alarm)
    traffic.serve(300, 0.35)
    assert traffic.check() is None  # the same alarm is open
    traffic.project.end_alarm("route", why="seen")
    traffic.serve(300, 0.35)
    assert traffic.check() is None  # the new level is the reference
    traffic.serve(300, 0.05)
    assert traffic.check() is not None


def test_a_restart_finds_the_same(traffic, tmp_path):
    traffic.serve(600, 0.75)
    assert traffic.check() is None
    traffic.serve(60, 0.2)
    with headway.open(tmp_path, environ={}) as other:
        entry = traffic.check()
        assert entry is not None
        other.settle("route")
        assert other.check_alarm("route") is None  # it is in the ledger
        assert other.alarms("route") == traffic.project.alarms("route")


def test_reading_what_is_new_equals_reading_everything(traffic):
    project = traffic.project
    served = ServedRows(project.database, project.query, "route")
    assert not served.update()
    for part in range(5):
        traffic.decide(100, role="planner" if part % 2 else "")
        traffic.signal({"large": 0.5, "small": 0.5}, only=lambda pick: hash(pick.id) % 3)
        traffic.project.settle("route")
        served.update()
    first = traffic.open[0]
    traffic.signal({"large": 1.0, "small": 1.0})
    project.signal(first.id, reward=-1.0)  # a correction
    project.settle("route")
    assert served.update()
    assert not served.update()
    fresh = ServedRows(project.database, project.query, "route")
    fresh.update()
    one, other = served.mature(), fresh.mature()
    assert one.seq.size == 500
    assert (one.actions, one.roles) == (other.actions, other.roles)
    for name in ("seq", "at", "action", "role", "likely", "own", "config", "reward"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    assert -1.0 in one.reward


def test_only_the_latest_decisions_are_kept(traffic, monkeypatch):
    monkeypatch.setattr("headway.observe.served.MOST", 150)
    project = traffic.project
    served = ServedRows(project.database, project.query, "route")
    for _ in range(3):
        traffic.serve(100, 0.5)
        project.settle("route")
        served.update()
    fresh = ServedRows(project.database, project.query, "route")
    fresh.update()
    assert served.mature().seq.tolist() == fresh.mature().seq.tolist()
    assert fresh.mature().seq.size == 150


def test_failures_that_come_before_successes_are_no_alarm(traffic):
    """Successes take an hour. Until then only failures are in, and they are not judged."""
    traffic.serve(800, 0.75)
    assert traffic.check() is None
    traffic.decide(400)
    won = {pick.id: traffic.rng.random() < 0.75 for pick in traffic.open}
    traffic.signal({"large": 0.0, "small": 0.0}, only=lambda pick: not won[pick.id])
    assert traffic.check() is None
    traffic.signal({"large": 1.0, "small": 1.0})
    assert traffic.check() is None


def test_missing_outcomes_are_no_alarm(traffic):
    traffic.serve(800, 0.75)
    traffic.decide(400)
    traffic.signal({"large": 0.75, "small": 0.6}, only=lambda pick: traffic.rng.random() < 0.5)
    assert traffic.check() is None
    traffic.clock.now += 7200.0  # the rest will not come any more
    assert traffic.check() is None


def test_a_collapse_in_one_role_is_told_there(traffic):
    for planner in (0.75, 0.2):
        for _ in range(4):
            traffic.serve(100, planner, role="planner")
            traffic.serve(100, 0.75, role="writer")
        traffic.check()
    (alarm,) = traffic.project.alarms("route")
    assert (alarm.stream, alarm.action, alarm.segment) == ("action large, role planner", "large", "planner")
    assert "'large' for the role 'planner' earns 0." in str(alarm)


def test_a_rise_on_the_exploration_floor_is_told(traffic):
    traffic.serve(1500, 0.7, 0.3)
    assert traffic.check() is None
    traffic.serve(1000, 0.7, 0.95)
    entry = traffic.check()
    assert entry is not None
    (alarm,) = traffic.project.alarms("route")
    assert (alarm.stream, alarm.action) == ("exploration of small", "small")
    assert alarm.after > alarm.before
    assert alarm.explore == 0.5, "another choice may be better now"


def test_another_mix_of_roles_alarms_at_most_for_everything(traffic):
    for hard, easy in ((100, 700), (700, 100)):
        traffic.serve(easy, 0.9, 0.9, role="writer")
        traffic.serve(hard, 0.4, 0.4, role="planner")
        traffic.check()
    assert {alarm.action for alarm in traffic.project.alarms("route")} <= {""}


def test_a_promotion_is_no_alarm(traffic):
    traffic.serve(800, 0.6, 0.7)
    assert traffic.check() is None
    traffic.project.rollback("route", to="uniform@0", why="a person says so")
    traffic.serve(800, 0.6, 0.7)
    assert traffic.check() is None


def rated(traffic, n, large, **chances):
    """Decisions that three keys rate in turn; `chances` of "large" by key, where they are not `large`."""
    for _ in range(n // 60):
        traffic.decide(60)
        for number, rater in enumerate(("ann", "bob", "cid")):
            mine = {pick.id for pick in traffic.open[number :: 3 - number]}
            traffic.signal(
                {"large": chances.get(rater, large), "small": 0.6}, only=lambda p, m=mine: p.id in m, rater=rater
            )


def test_a_key_that_alone_shows_a_change_is_named_and_nothing_follows(traffic):
    project = traffic.project
    rated(traffic, 900, 0.75)
    assert traffic.check() is None
    rated(traffic, 600, 0.75, bob=0.0)
    entry = traffic.check()
    assert entry is not None
    (alarm,) = project.alarms("route")
    assert (alarm.key, alarm.explore) == ("bob", 0.0)
    assert "Only outcomes of the key 'bob' show it" in str(alarm)
    assert "Only outcomes of the key 'bob' show it" in str(project.status().tasks[0].alarms[0])
    assert changed_from(project, "route") == 0  # proofs and learning keep their rows
    rated(traffic, 600, 0.75, bob=0.0)
    assert traffic.check() is None
    rated(traffic, 600, 0.2, bob=0.0)  # what the others show is no less an alarm because of it
    assert traffic.check() is not None
    assert [(alarm.key, alarm.explore, alarm.open) for alarm in project.alarms("route")] == [
        ("bob", 0.0, True), ("", 0.5, True),
    ]  # fmt: skip
    assert traffic.check() is None
    project.end_alarm("route", why="seen")
    rated(traffic, 600, 0.2, bob=0.0)
    assert traffic.check() is None


def test_a_change_that_several_keys_show_names_none(traffic):
    rated(traffic, 900, 0.75)
    rated(traffic, 300, 0.2)
    assert traffic.check() is not None
    (alarm,) = traffic.project.alarms("route")
    assert (alarm.key, alarm.explore) == ("", 0.5)


def test_a_trusted_key_raises_alarms_like_everybody(tmp_path):
    traffic = Traffic(tmp_path, TOML.replace("reward_after_s", 'trust_keys = ["bob"]\nreward_after_s'))
    rated(traffic, 900, 0.75)
    rated(traffic, 600, 0.75, bob=0.0)
    assert traffic.check() is not None
    (alarm,) = traffic.project.alarms("route")
    assert (alarm.key, alarm.explore) == ("", 0.5)
    traffic.project.close()


def test_a_key_that_is_the_only_one_is_named(traffic):
    for large in (0.75, 0.2):
        traffic.decide(600)
        traffic.signal({"large": large, "small": 0.6}, rater="agent")
    assert traffic.check() is not None
    assert [(alarm.key, alarm.explore) for alarm in traffic.project.alarms("route")] == [("agent", 0.0)]
    traffic.decide(100)
    traffic.signal({"large": 0.2, "small": 0.6}, rater="agent")
    assert traffic.check() is None
