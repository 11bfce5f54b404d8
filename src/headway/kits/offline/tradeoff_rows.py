"""Reads a task's decisions for the curve of quality against cost."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from headway.nouns.errors import InvalidInput

if TYPE_CHECKING:
    from headway.kits.offline.tradeoff import Tradeoff
    from headway.project import Project

__all__ = ["traded"]

MOST = 200_000  # the latest rows, which the curve keeps in memory


def traded(
    project: Project, task: str, *, quality: str, cost: str, at_least: float | None = None, of: str | None = None
) -> Tradeoff:
    """The curve of a quality signal against a cost signal. Failed decisions have quality 0."""
    import numpy as np

    from headway.encode.fit import fit
    from headway.kits.offline.tradeoff import tradeoff
    from headway.project import encoder_spec, speaking

    settings = project.settings.task(task)
    project.settle(task)
    left: Counter[str] = Counter()
    rows = []
    for row in speaking(project.query.settled(task, signals=True), left):
        good = row.signals.get(quality, 0.0 if row.status == "failed" else None)
        price = row.signals.get(cost)
        if good is not None and price is not None:
            rows.append((row.decision, good, price))
    rows = rows[-MOST:]
    if not rows:
        raise InvalidInput(
            f"No settled decision of {task!r} has both {quality!r} and {cost!r}.",
            code="too_few_rows",
            hint="Send both as signals, or name others with --quality and --cost.",
        )
    arms = project.query.arms(task)
    column = {name: place for place, name in enumerate(arms)}
    logged = np.zeros((len(rows), len(arms)))
    for place, (decision, _, _) in enumerate(rows):
        for candidate, share in zip(decision.candidates, decision.probabilities, strict=True):
            logged[place, column[candidate.name]] = share
    situations = [decision.situation for decision, _, _ in rows]
    encoder = project.servings.encoder(encoder_spec(project, settings))
    return tradeoff(
        features=fit(situations[:2000], encoder).vectors(situations, encoder),
        action=np.array([column[decision.action] for decision, _, _ in rows]),
        logged=logged,
        quality=np.array([good for _, good, _ in rows], dtype=np.float64),
        cost=np.array([price for _, _, price in rows], dtype=np.float64),
        arms=arms,
        at_least=at_least,
        of=of,
        seed=settings.seed,
    )
