"""Alarms: what changed in the outcomes of what is served, where and since when."""

from __future__ import annotations

import pytest

from headway.project.alarm import AlarmDetail, raise_alarm

DETAIL: AlarmDetail = {
    "stream": "action large",
    "action": "large",
    "segment": "",
    "since": 1000.0,
    "from_decision": 400,
    "before": 0.75,
    "after": 0.35,
    "rows": [400, 60],
    "explore": 0.3,
}


@pytest.fixture
def project(tmp_path):
    import headway

    (tmp_path / "headway.toml").write_text('[tasks.route]\nactions = ["small", "large"]\nfallback = "small"\n')
    with headway.open(tmp_path) as opened:
        opened.decide("route", "hello")
        yield opened


def test_an_alarm_is_open_until_it_is_ended(project):
    assert project.status().tasks[0].alarms == ()
    entry = raise_alarm(project, "route", DETAIL, who="watch")
    assert project.ledger.heads("route").alarm == entry == project.standing("route").alarm
    (alarm,) = project.status().tasks[0].alarms
    assert (alarm.action, alarm.before, alarm.after, alarm.rows, alarm.open) == ("large", 0.75, 0.35, (400, 60), True)
    assert project.end_alarm("route", why="all actions changed alike") is not None
    assert project.ledger.heads("route").alarm is None
    assert [alarm.ended for alarm in project.alarms("route")] == ["all actions changed alike"]
    assert project.end_alarm("route", why="again") is None


def test_a_rollback_ends_an_alarm(project):
    raise_alarm(project, "route", DETAIL, who="watch")
    project.rollback("route", to="fixed@0", why="a person says so")
    assert project.ledger.heads("route").alarm is None
    assert [alarm.ended for alarm in project.alarms("route")] == ["rollback of fixed@0"]
