"""Signals about decisions and episodes: checked against the task's reward, stored, and settled into outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from headway.nouns import Signal, errors, ids
from headway.project.decide.inputs import checked_name, checked_time
from headway.reward import MEASURED, check

if TYPE_CHECKING:
    from headway.project.project.folder import Opened


def signal(project: Opened, rows: list[Signal], *, early: bool) -> int:
    """Store signals of one subject; returns the number of new ones."""
    new = project.store.signal(rows, early=early)
    project.tell((), rows)
    task = project.recent_tasks.get(rows[0].subject)
    if task is not None:
        project.signalled(task)
    return new


def withdraw(project: Opened, subject: str, name: str, *, rater: str = "", key: str = "") -> None:
    """Withdraw a signal, so that it no longer counts."""
    row = Signal(subject=_subject(subject), name=name, value=None, rater=rater, key=key, at=project.clock())
    project.store.signal([row])


def checked(
    project: Opened,
    subject: str,
    values: Mapping[str, float],
    *,
    rater: str = "",
    key: str = "",
    at: float | None = None,
    label: str = "",
) -> list[Signal]:
    """Signals as rows, each value checked against the task's reward."""
    subject = _subject(subject)
    if not values:
        raise errors.InvalidInput(
            "There is no signal to store.", code="no_signal", hint="Name at least one: reward=1.0 or solved=1."
        )
    task = project.recent_tasks.get(subject) or project.query.task_of(subject)
    rewards = project.rewards(task) if task else None
    when = project.clock() if at is None else checked_time(at)
    return [
        Signal(
            subject=subject,
            name=checked_name("signal", project.redact(name)),
            value=check(name, value) if rewards is None else rewards.check(name, value),
            label=project.redact(label),
            rater=rater,
            key=key,
            at=when,
        )
        for name, value in values.items()
    ]


def unread(project: Opened, task: str, names: Iterable[str]) -> list[str]:
    """A sentence for every signal that neither the reward nor a guard of the task reads; it names the nearest one.

    A reward that is a Python function may read any signal. What Headway itself measures is always welcome.
    """
    read = project.read_signals(task)
    welcome = (*MEASURED, *project.settings.task(task).traits.signals)
    return [
        f"Nothing reads the signal {name!r} of the task {task!r}: it is stored and changes no reward or guard. "
        f"{errors.did_you_mean(name, read)}"
        for name in names
        if read and name not in read and name not in welcome
    ]


def _subject(subject: str) -> str:
    return subject if ids.is_episode(subject) else ids.parse_decision(subject)
