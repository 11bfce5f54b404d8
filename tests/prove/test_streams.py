"""Streams of outcomes: where a change happened, and what is not one."""

from __future__ import annotations

import numpy as np
import pytest

from headway.prove.streams import Known, StreamRows, find

ACTIONS, ROLES = ("large", "small"), ("writer", "planner")


class Traffic:
    """Rows of two actions and two roles; the first action is the policy's choice, 10% of the draws explore."""

    def __init__(self, seed=1):
        self.rng = np.random.default_rng(seed)
        self.columns = {name: [] for name in ("reward", "action", "role", "likely", "own", "policy", "settings")}

    def add(self, n, *, large, small=0.6, planners=0.5, hard=0.0, policy=0, settings=0, canary=0.0, best=0):
        """`large`: a chance of success, or one per role; `hard`: how much less a planner's tasks succeed."""
        role = (self.rng.random(n) < planners).astype(int)
        explored = self.rng.random(n) < 0.1
        action = np.where(explored, 1 - best, best)
        own = self.rng.random(n) >= canary
        of_large = np.broadcast_to(large, 2)[role]
        chance = np.where(own, np.where(action == 0, of_large, small), 0.05) - hard * role
        rows = {
            "reward": (self.rng.random(n) < chance).astype(float),
            "action": action, "role": role, "likely": action == best, "own": own,
            "policy": np.full(n, policy), "settings": np.full(n, settings),
        }  # fmt: skip
        for name, column in rows.items():
            self.columns[name].append(column)
        return self

    def rows(self):
        columns = {name: np.concatenate(parts) for name, parts in self.columns.items()}
        return StreamRows(**columns, actions=ACTIONS, roles=ROLES)

    def find(self, *known):
        return find(self.rows(), known)


def test_a_fall_of_one_action_is_found_there():
    changed = Traffic().add(2000, large=0.75).add(150, large=0.35).find()
    assert changed is not None
    assert (changed.stream, changed.action, changed.segment, changed.matters) == ("action large", "large", "", True)
    assert abs(changed.row - 2000) <= 20
    assert changed.change.before == pytest.approx(0.75, abs=0.05)
    assert changed.change.after == pytest.approx(0.35, abs=0.1)


def test_a_fall_in_one_role_is_found_there():
    changed = Traffic().add(4000, large=0.75).add(300, large=(0.75, 0.2)).find()
    assert changed is not None
    assert (changed.stream, changed.segment) == ("action large, role planner", "planner")


def test_a_fall_of_several_actions_at_once_is_one_change_of_everything():
    traffic = Traffic()
    for chance, n in ((0.75, 2000), (0.35, 300)):
        for best in (0, 1):
            traffic.add(n, large=chance, small=chance, best=best)
    columns = traffic.columns
    mixed = np.concatenate(
        [np.random.default_rng(0).permutation(4000), 4000 + np.random.default_rng(1).permutation(600)]
    )
    for name, parts in columns.items():
        columns[name] = [np.concatenate(parts)[mixed]]
    changed = traffic.find()
    assert changed is not None
    assert (changed.stream, changed.action) == ("all", "")


def test_another_mix_of_roles_is_no_change_of_an_action():
    traffic = Traffic().add(4000, large=0.8, small=0.8, planners=0.2, hard=0.4)
    traffic.add(2000, large=0.8, small=0.8, planners=0.9, hard=0.4)
    changed = traffic.find()
    assert changed is not None
    assert (changed.stream, changed.action) == ("all", "")


def test_a_rise_of_what_is_served_is_no_alarm_and_a_later_fall_is_found():
    traffic = Traffic().add(3000, large=0.4).add(3000, large=0.8)
    assert traffic.find() is None
    changed = traffic.add(200, large=0.45).find()
    assert changed is not None
    assert abs(changed.row - 6000) <= 20


def test_a_rise_on_the_exploration_floor_is_found():
    changed = Traffic().add(4000, large=0.75, small=0.3).add(1000, large=0.75, small=0.9).find()
    assert changed is not None
    assert (changed.stream, changed.explored, changed.matters) == ("exploration of small", True, True)
    fallen = Traffic().add(4000, large=0.75, small=0.9).add(1000, large=0.75, small=0.3).find()
    assert fallen is not None
    assert not fallen.matters


def test_a_promotion_is_no_change():
    """The new policy chooses the other action, in other situations: what it earns is not comparable by action."""
    traffic = Traffic().add(3000, large=0.6, small=0.4)
    assert traffic.add(3000, large=0.4, small=0.75, policy=1, best=1).find() is None


def test_a_promotion_that_earns_less_is_found_in_everything():
    changed = Traffic().add(3000, large=0.75, small=0.3).add(300, large=0.75, small=0.3, policy=1, best=1).find()
    assert changed is not None
    assert changed.stream == "all"


def test_other_settings_and_a_canary_are_no_change():
    assert Traffic().add(3000, large=0.75).add(1000, large=0.35, settings=1).find() is None
    assert Traffic().add(3000, large=0.75).add(1000, large=0.75, canary=0.5).find() is None


def test_what_is_known_is_not_found_again():
    traffic = Traffic().add(2000, large=0.75).add(400, large=0.35)
    assert traffic.find(Known(action="large", row=None)) is None
    assert traffic.find(Known(action="large", row=2000)) is None
    assert traffic.find(Known(action="", row=None)) is None
    assert traffic.find(Known(action="small", row=None)) is not None


def test_nothing_is_found_where_nothing_changed():
    for seed in range(10):
        traffic = Traffic(seed)
        for _ in range(20):
            assert traffic.add(500, large=0.75, hard=0.2).find() is None


def test_no_rows_are_no_change():
    assert Traffic().add(0, large=0.5).find() is None
