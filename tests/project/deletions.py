"""A project with rated decisions, and everything that its database holds."""

from __future__ import annotations

from collections.abc import Callable

from headway.project import Project

__all__ = ["ARMS", "TOML", "Clock", "Opened", "everything", "fill", "table"]

Opened = Callable[..., Project]
ARMS = ["small", "large"]
TOML = "[tasks.route]\nreward = { reward = 1.0 }\nrange = [-5, 5]\n"


def table(project: Project, task: str = "route") -> dict[str, tuple[str, float | None, float]]:
    """The settled rewards by decision: status, reward and weight."""
    project.settle(task)
    return {row.decision.id: (row.status, row.reward, row.weight) for row in project.query.settled(task)}


def everything(project: Project) -> str:
    """All rows of all tables, as text."""
    collected = []
    for name in sorted(project.database.tables()):
        for row in project.database.query(f"SELECT * FROM {name}"):
            collected.append(f"{name} {[bytes(cell) if isinstance(cell, memoryview) else cell for cell in row]}")
    return "\n".join(collected)


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def fill(project: Project, n: int = 20) -> list[str]:
    ids = []
    for place in range(n):
        pick = project.decide("route", f"question number {place}", ARMS, state={"n": place})
        project.signal(pick.id, reward=place / 10, rater="ann")
        if place % 2:
            project.signal(pick.id, reward=-place / 10, rater="bob")
        ids.append(pick.id)
    return ids
