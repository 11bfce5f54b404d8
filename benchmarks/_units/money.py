"""Do counts, money and quality of a project equal the truth, and do the intervals of its sentence cover it?"""

from __future__ import annotations

from dataclasses import dataclass
from math import isclose

from _situations.client import Client

from _units.world import KINDS, SETTINGS, Requests, Truth
from headway.nouns.worth import Measure, TaskWorth
from headway.observe import recent
from headway.project import Project

__all__ = ["Spoken", "money"]

REQUESTS = 400


@dataclass(frozen=True, slots=True)
class Spoken:
    """What one project said, against the truth. None: it said that the number is unknown."""

    kind: str
    counts: bool  # decisions, outcomes, first choices and money equal the truth
    saved: bool | None  # whether the interval covers it
    quality: bool | None
    said: str = ""


def money(seed: int) -> Spoken:
    """One project; kinds of trouble take turns."""
    kind = KINDS[seed % len(KINDS)]
    with Client(SETTINGS, seed=seed) as client:
        truth = Requests(client, kind, seed=seed).serve(REQUESTS)
        status = client.project.status().tasks[0]
        counts = _equal(client.project, truth, client.task)
        worth = status.worth
        assert worth is not None
        return Spoken(
            kind=kind,
            counts=counts and (status.decisions, status.units) == (truth.requests, truth.requests),
            saved=_covers(worth.saved, truth.saved(worth.against)) if worth.saved else None,
            quality=_quality(worth, truth),
            said=worth.text,
        )


def _quality(worth: TaskWorth, truth: Truth) -> bool | None:
    if worth.ratio is not None:
        return _covers(worth.ratio, truth.ratio(worth.against))
    return None if worth.gap is None else _covers(worth.gap, truth.gap(worth.against))


def _covers(measure: Measure, value: float) -> bool:
    return measure.low <= value <= measure.high


def _equal(project: Project, truth: Truth, task: str) -> bool:
    counts = project.query.counts(task)
    shown = recent(project.database, project.query, task, window=truth.requests, points=1)
    costs = [part.signals["cost_usd"] for part in shown.actions if "cost_usd" in part.signals]
    return (
        counts.decisions == counts.units == truth.requests
        and {name: number for name, number in counts.by_status.items() if number} == dict(truth.statuses)
        and project.query.by_action(task) == dict(truth.first)
        and {part.name: part.decisions for part in shown.actions} == dict(truth.first)
        and isclose(sum(mean.total for mean in costs), truth.paid, rel_tol=1e-9)
    )
