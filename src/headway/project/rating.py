"""The raters of a task: how each of them rates, and what to ask them next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.observe.settle import given
from headway.reward.agree import Question, by_signal, questions
from headway.reward.raters import Agreed

if TYPE_CHECKING:
    from headway.project.facade import Project

__all__ = ["ask", "raters"]

_LOOKED_AT = 10_000  # of the latest decisions, for a question


def raters(project: Project, task: str) -> dict[str, Agreed[int]]:
    """By signal that several people give: what they agree on, and how each rates. Works with `consensus` off too."""
    return by_signal(project.rewards(task), given(project.database, project.query, task, several=True))


def ask(project: Project, task: str, *, count: int, signal: str | None = None) -> list[Question]:
    """Which of the latest decisions to ask about next, the one that a rating tells most about first."""
    decisions = (each for each in project.query.latest(task, _LOOKED_AT) if not each.draw_id)
    told = given(project.database, project.query, task)
    return questions(decisions, told, project.rewards(task), count=count, signal=signal)
