"""How much the rows of a task count by their age, from the rows themselves and from its alarms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headway.learn import Ages, ages_of
from headway.observe import SplitBy
from headway.project.alarm import alarms

if TYPE_CHECKING:
    from headway.nouns import Header, Settled
    from headway.observe import TaskFrame
    from headway.project.project.folder import Opened


def ages_of_rows(project: Opened, frame: TaskFrame, *, upto: int, by: SplitBy) -> Ages:
    """The weights for learning from the rows up to `upto`. Rows that only a proof may read take no part in it."""
    known = [
        (alarm.action, alarm.segment, alarm.from_decision) for alarm in alarms(project, frame.task) if not alarm.key
    ]
    return ages_of(frame, upto=upto, by=by, changes=known)


def as_read(header: Header, row: Settled) -> Settled:
    """A row with the weight that the bundle's first training gave it; rows that were folded in later keep theirs."""
    trained: Mapping[str, Any] = header.trained_on
    if row.seq > int(trained.get("folded_from", trained.get("upto", 0))):
        return row
    return replace(row, weight=Ages.read(trained.get("age")).weight(row))
