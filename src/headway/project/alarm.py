"""Alarms of a task: rows of the ledger of kind `alarm`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from headway.nouns.alarm import Alarm, sentence
from headway.observe.jobs import Jobs
from headway.observe.rows import dumps, loads
from headway.project.prove.subject import current_policy
from headway.project.publish import record_change

if TYPE_CHECKING:
    from headway.observe.served import MatureRows, ServedRows
    from headway.project import Project
    from headway.promote.ledger import Entry
    from headway.prove.streams import Known, StreamRows

__all__ = [
    "AlarmDetail",
    "alarms",
    "alert_failure",
    "check_alarm",
    "end_alarm",
    "open_alarms",
    "raise_alarm",
    "settings_of",
]

EXPLORE = 0.5  # the share of random choices while an alarm is open
_BY_THE_LOOP = ("canary", "experiment", "alarm")  # parts of a configuration that are not settings


class AlarmDetail(TypedDict):
    """The `detail` of the ledger row that raises an alarm; see `Alarm`. The row that ends it has only `ended`."""

    stream: str
    action: str
    segment: str
    since: float
    from_decision: int
    before: float
    after: float
    rows: list[int]
    explore: float


def check_alarm(project: Project, task: str, *, who: str = "") -> Entry | None:
    """The ledger row of a new alarm if the outcomes of what is served have changed.

    Reads only what was decided and settled since the last check.
    """
    from headway.observe.served import ServedRows
    from headway.prove.streams import find

    if task in project.servings.compared:
        return None  # a vote between two policies is not an outcome of one
    served = project.served.get(task)
    if served is None:
        served = project.served[task] = ServedRows(project.database, project.query, task)
    if not served.update():
        return None
    mature = served.mature()
    changed = find(_stream_rows(project, task, served, mature), _known(project, task, mature))
    if changed is None:
        return None
    change = changed.change
    still_open = [alarm for alarm in alarms(project, task) if alarm.open]
    detail: AlarmDetail = {
        "stream": changed.stream,
        "action": changed.action,
        "segment": changed.segment,
        "since": float(mature.at[changed.row]),
        "from_decision": int(mature.seq[changed.row]),
        "before": round(change.before, 6),
        "after": round(change.after, 6),
        "rows": list(change.rows),
        "explore": EXPLORE if changed.matters else max((alarm.explore for alarm in still_open), default=0.0),
    }
    return raise_alarm(project, task, detail, who=who)


def _stream_rows(project: Project, task: str, served: ServedRows, rows: MatureRows) -> StreamRows:
    from headway.prove.streams import StreamRows

    changes = project.ledger.entries(task, "promote", "rollback")
    numbers, places = np.unique(rows.config, return_inverse=True)
    bodies = served.configurations(numbers.tolist())
    settings: dict[str, int] = {}
    of_config = [settings.setdefault(settings_of(bodies[number]), len(settings)) for number in numbers.tolist()]
    return StreamRows(
        reward=rows.reward,
        action=rows.action,
        role=rows.role,
        likely=rows.likely,
        own=rows.own,
        policy=np.searchsorted([entry.at for entry in changes], rows.at, side="right"),
        settings=np.array(of_config, dtype=np.int64)[places],
        actions=rows.actions,
        roles=rows.roles,
    )


def settings_of(body: str) -> str:
    """A configuration without what the loop changes by itself."""
    return dumps({key: value for key, value in loads(body).items() if key not in _BY_THE_LOOP}) if body else ""


def _known(project: Project, task: str, rows: MatureRows) -> list[Known]:
    """Earlier alarms: what they touch is compared from the change on, and not at all while they are open."""
    from headway.prove.streams import Known

    return [
        Known(action=alarm.action, row=None if alarm.open else int(np.searchsorted(rows.at, alarm.since)))
        for alarm in alarms(project, task)
    ]


def raise_alarm(project: Project, task: str, detail: AlarmDetail, *, who: str) -> Entry:
    """Write the row of an alarm; serving, proofs and learning read it from the ledger."""
    current = current_policy(project, project.settings.task(task))
    means = (detail["before"], detail["after"])
    why = sentence(detail["action"], detail["segment"], detail["since"], means, detail["rows"])
    return record_change(
        project, task, "alarm", current.ref, current.digest, expects=current.expects, why=why, who=who, detail=detail
    )


def end_alarm(project: Project, task: str, *, why: str, who: str = "") -> Entry | None:
    """End every open alarm of a task; None if there is none. A promotion or rollback ends them as well."""
    if project.ledger.heads(task).alarm is None:
        return None
    current = current_policy(project, project.settings.task(task))
    return record_change(
        project, task, "alarm", current.ref, current.digest, expects=current.expects, why=why, who=who,
        detail={"ended": why},
    )  # fmt: skip


def alarms(project: Project, task: str) -> list[Alarm]:
    """Every alarm of a task, oldest first, with the reason why it ended."""
    raised: list[Alarm] = []
    for entry in project.ledger.entries(task, "alarm", "promote", "rollback"):
        if entry.kind == "alarm" and "ended" not in entry.detail:
            raised.append(_alarm(entry))
            continue
        why = str(entry.detail.get("ended") or f"{entry.kind} of {entry.policy}")
        raised = [replace(alarm, ended=why, ended_at=entry.at) if alarm.open else alarm for alarm in raised]
    return raised


def open_alarms(project: Project, task: str, newest: Entry | None) -> list[Alarm]:
    """The open alarms of a task, oldest first; none without `Heads.alarm`."""
    return [] if newest is None else [alarm for alarm in alarms(project, task) if alarm.open]


def alert_failure(project: Project) -> str:
    """Why the last alert about an alarm failed; empty if it did not."""
    job = Jobs(project.database).last("alert")
    return "" if job is None or job.state != "failed" else str(job.result["error"]["message"])


def _alarm(entry: Entry) -> Alarm:
    detail = entry.detail
    before, after = detail["rows"]
    return Alarm(
        task=entry.task,
        stream=detail["stream"],
        action=detail["action"],
        segment=detail["segment"],
        since=detail["since"],
        from_decision=detail["from_decision"],
        before=detail["before"],
        after=detail["after"],
        rows=(before, after),
        explore=detail["explore"],
        policy=entry.policy,
        at=entry.at,
        seq=entry.seq,
    )
