"""When outcomes last changed: what was decided before then no longer speaks for a policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headway.project.alarm import alarms

if TYPE_CHECKING:
    from headway.nouns import Alarm
    from headway.project.project.folder import Opened
    from headway.promote import Entry


BEFORE_CHANGE = "before outcomes changed"  # what the counts of an evidence call these decisions


def latest_alarms(project: Opened, task: str) -> list[Alarm]:
    """The alarms of the last change: those raised while an earlier one of them was open belong together.

    Those that only one key shows change nothing.
    """
    together: list[Alarm] = []
    for alarm in (alarm for alarm in alarms(project, task) if not alarm.key):
        if together and all(before.ended_at is not None and before.ended_at <= alarm.at for before in together):
            together = []
        together.append(alarm)
    return together


def learned_before(together: Sequence[Alarm], candidate: Entry | None) -> bool:
    """Whether a candidate was learned before these alarms were raised."""
    return bool(together) and (candidate is None or candidate.seq < together[0].seq)


def change_row(project: Opened, task: str) -> int:
    """The number of the ledger row that raised the first alarm of the last change; 0 if there was none."""
    together = latest_alarms(project, task)
    if not together:
        return 0
    return next(entry.n for entry in project.ledger.entries(task, "alarm") if entry.seq == together[0].seq)


def changed_from(project: Opened, task: str) -> int:
    """The number of the first decision after the last change, as far as the alarm can tell; 0 if there was none."""
    together = latest_alarms(project, task)
    return min((alarm.from_decision for alarm in together), default=0)


def last_change(project: Opened, task: str) -> float:
    """The time at which the last change was noticed; 0 if there was none.

    Not the time at which it happened: the decisions in between are those that raised the alarm. A test that began with
    them would begin with outcomes that were picked for being low.
    """
    together = latest_alarms(project, task)
    return together[0].at if together else 0.0
