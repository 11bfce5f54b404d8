"""Alarms of a task: rows of the ledger of kind `alarm`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict

from headway.nouns.alarm import Alarm
from headway.project.prove.subject import current_policy
from headway.project.publish import record_change

if TYPE_CHECKING:
    from headway.project import Project
    from headway.promote.ledger import Entry

__all__ = ["AlarmDetail", "alarms", "check_alarm", "end_alarm", "open_alarms", "raise_alarm"]


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


def check_alarm(project: Project, task: str, *, who: str) -> Entry | None:  # noqa: ARG001 — the detector comes next
    """The row of a new alarm, if the outcomes changed since the last check."""
    return None


def raise_alarm(project: Project, task: str, detail: AlarmDetail, *, who: str) -> Entry:
    """Write the row of an alarm; serving, proofs and learning read it from the ledger."""
    current = current_policy(project, project.settings.task(task))
    return record_change(
        project, task, "alarm", current.ref, current.digest, expects=current.expects, who=who,
        why=f"{detail['stream']}: {detail['before']:.2f} before, {detail['after']:.2f} after", detail=detail,
    )  # fmt: skip


def end_alarm(project: Project, task: str, *, why: str, who: str) -> Entry | None:
    """End every open alarm of a task; None if there is none. A promotion or rollback ends them as well."""
    if project.ledger.heads(task).alarm is None:
        return None
    current = current_policy(project, project.settings.task(task))
    return record_change(
        project, task, "alarm", current.ref, current.digest, expects=current.expects, why=why, who=who,
        detail={"ended": why},
    )  # fmt: skip


def alarms(project: Project, task: str) -> list[Alarm]:
    """Every alarm of a task, oldest first."""
    raised: list[Alarm] = []
    for entry in project.ledger.entries(task, "alarm", "promote", "rollback"):
        if entry.kind == "alarm" and "ended" not in entry.detail:
            raised.append(_alarm(entry))
            continue
        why = str(entry.detail.get("ended") or f"{entry.kind} of {entry.policy}")
        raised = [replace(alarm, ended=why, ended_at=entry.at) if alarm.open else alarm for alarm in raised]
    return raised


def open_alarms(project: Project, task: str) -> list[Alarm]:
    """The open alarms of a task, oldest first. Reads no more than one row if there are none."""
    return [] if project.ledger.heads(task).alarm is None else [alarm for alarm in alarms(project, task) if alarm.open]


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
