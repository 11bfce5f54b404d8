"""How much the rows of a task count by their age, from the rows themselves and from its alarms."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headway.learn import Ages, ChangedAction, best_half_life, has_changed
from headway.observe import SplitBy, part_of
from headway.project.alarm import alarms

if TYPE_CHECKING:
    from headway.nouns import Header, Settled
    from headway.project.project.folder import Opened


_MOST = 10_000  # rows that the half-life is chosen on, the newest ones


def ages_of_rows(project: Opened, task: str, *, upto: int, by: SplitBy) -> Ages:
    """The weights for learning from the rows up to `upto`. Rows that only a proof may read take no part in it."""
    newest: deque[tuple[int, Settled]] = deque(maxlen=_MOST)
    for count, row in enumerate(project.query.settled(task, after=max(0, upto - 4 * _MOST), upto=upto)):
        newest.append((count, row))
    if not newest:
        return Ages(upto=upto)
    last = newest[-1][0]
    places = {row.seq: count for count, row in newest}
    rows = [row for _, row in newest if row.reward is not None and part_of(row.decision, by) != "prove"]
    per_row = max(1.0, (upto - newest[0][1].seq + 1) / len(newest))
    changes = _changes(project, task, rows)
    after = [row for row in rows if not any(change.covers(row) for change in changes)]
    if not after:
        return Ages(upto=upto)
    half_life = best_half_life(after, lambda row: last - places[row.seq])
    return Ages(half_life=half_life, upto=upto, per_row=per_row, changes=changes)


def _changes(project: Opened, task: str, rows: Sequence[Settled]) -> tuple[ChangedAction, ...]:
    """The last change of every action by the alarms; one about all that is served counts where rows confirm it."""
    latest: dict[tuple[str, str], int] = {}
    for alarm in (alarm for alarm in alarms(project, task) if not alarm.key):
        names = [alarm.action] if alarm.action else _changed_actions(rows, alarm.from_decision)
        for name in names:
            where = (name, alarm.segment)
            latest[where] = max(latest.get(where, 0), alarm.from_decision)
    return tuple(ChangedAction(action, role, number) for (action, role), number in sorted(latest.items()))


def _changed_actions(rows: Sequence[Settled], from_decision: int) -> list[str]:
    before: dict[str, list[float]] = {}
    after: dict[str, list[float]] = {}
    for row in rows:
        part = before if row.decision.seq < from_decision else after
        part.setdefault(row.decision.action, []).append(row.reward or 0.0)
    return [name for name in sorted(before) if has_changed(before[name], after.get(name, ()))]


def as_read(header: Header, row: Settled) -> Settled:
    """A row with the weight that the bundle's first training gave it; rows that were folded in later keep theirs."""
    trained: Mapping[str, Any] = header.trained_on
    if row.seq > int(trained.get("folded_from", trained.get("upto", 0))):
        return row
    return replace(row, weight=Ages.read(trained.get("age")).weight(row))
