"""`headway status` shows open alarms, and alerts that did not reach anybody."""

from __future__ import annotations

from pathlib import Path

from headway.kits.alerts.alerts import KIND
from headway.observe.jobs import Jobs
from headway.project import Project
from headway.project.alarm import raise_alarm
from tests.cli.terminal import headway
from tests.page.test_views import COLLAPSE


def test_status_shows_an_open_alarm_and_a_failed_alert(empty: Path) -> None:
    (empty / "headway.toml").write_text('[tasks.route]\nactions = ["small", "large"]\n')
    with Project(empty, environ={}) as project:
        project.decide("route", "a question")
        raise_alarm(project, "route", COLLAPSE, who="watch")
        jobs = Jobs(project.database)
        job = jobs.begin(KIND, {"task": "route"}, worker="watch", now=1.0, lease_s=1.0)
        error = {"code": "alert_failed", "message": "The webhook answered 500.", "hint": ""}
        jobs.finish(job.job, {"task": "route", "error": error}, worker="watch", now=2.0, failed=True)
    shown = headway("-C", empty, "status")
    everything = shown.out + shown.err
    assert "alarm: route: 'large' earns 0.35 instead of 0.75 since 2025-06-15" in everything
    assert "alert_failed: The webhook answered 500." in everything
    assert "data log route" in everything
    document = headway("-C", empty, "status", "--json").json
    (task,) = document["tasks"]
    assert [(alarm["stream"], alarm["since"][:10]) for alarm in task["alarms"]] == [("action large", "2025-06-15")]
    assert document["alert_failure"] == "The webhook answered 500."
