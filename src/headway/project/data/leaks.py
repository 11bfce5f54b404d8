"""Leak checks of stored rows: fields that reveal the outcome, found before learning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from headway.nouns import Settled
from headway.observe import PARTS, SplitBy, part_of, spread_windows

if TYPE_CHECKING:
    from headway.observe import TaskFrame
    from headway.project.project.folder import Opened
    from headway.prove import Leaks


_MAX_ROWS = 20_000  # read in windows spread over all rows
_WINDOWS = 10


def check_leaks(
    project: Opened,
    task: str,
    *,
    parts: Sequence[str] = (),
    mined: bool = False,
    by: SplitBy = "group",
    frame: TaskFrame | None = None,
) -> Leaks:
    """The leaks among the settled decisions of a task; `parts`, split `by`, limits them to a learner's rows."""
    from headway.prove import LeakDetector

    watch = LeakDetector()
    counted = project.rewards(task).signals
    for row in _spread(project, frame or project.query.frame(task), parts or tuple(PARTS), by, mined=mined):
        labels = {name: value for name, value in row.signals.items() if not counted or name in counted}
        if row.reward is not None:
            labels["reward"] = row.reward
        decision = row.decision
        taken = decision.candidates[decision.index]
        watch.add(decision.situation, taken, labels, part=part_of(decision), at=decision.at)
    return watch.leaks()


def _spread(project: Opened, frame: TaskFrame, parts: Sequence[str], by: SplitBy, *, mined: bool) -> Iterator[Settled]:
    """The settled rows of these parts, or those in evenly spread windows if there are many."""
    last = project.query.last_settled(frame.task)
    seqs = spread_windows(frame, parts, by, upto=last, mined=mined, windows=_WINDOWS, most=_MAX_ROWS)
    return project.query.outcomes(seqs, signals=True)
