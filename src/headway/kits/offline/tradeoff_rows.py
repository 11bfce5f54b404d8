"""Reads a task's decisions for the curve of quality against cost."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headway.nouns import InvalidInput

if TYPE_CHECKING:
    from headway.kits.offline.tradeoff import Tradeoff
    from headway.nouns import Settled
    from headway.project import Project
    from headway.reward import Rewards


NEWEST = 5_000  # decisions that a curve is drawn from, unless more are wanted
QUALITY = "quality"  # what the reward without its cost terms is called


@dataclass(frozen=True, slots=True, kw_only=True)
class TradedSignals:
    """What is traded against what: a signal, or the reward without its cost terms, against a cost signal."""

    quality: str
    cost: str
    rewards: Rewards | None = None  # what gives the quality; None: the signal of that name

    def value(self, row: Settled) -> float | None:
        """The quality of a decision. Failed decisions have the quality that a failure is worth, or 0 for a signal."""
        if self.rewards is None:
            return row.signals.get(self.quality, 0.0 if row.status == "failed" else None)
        return self.rewards.outcome(row.signals, age_s=0.0, decision=row.decision).reward


def traded_signals(project: Project, task: str, quality: str | None = None, cost: str | None = None) -> TradedSignals:
    """The signals that are named, or else the task's reward without cost and the signal that counts its money."""
    from headway.reward import cost_signal, cost_terms

    rewards = project.rewards(task)
    sent = project.query.signal_names(task)
    cost = cost or cost_signal(rewards, sent)
    if not cost:
        raise InvalidInput(
            f"No signal of {task!r} counts money.",
            code="cost_missing",
            hint="Send cost_usd with each outcome, or name another signal: --cost latency_s",
        )
    if quality is not None:
        return TradedSignals(quality=quality, cost=cost)
    without = rewards.without({*cost_terms(rewards), cost})
    if rewards.signals and not without.signals:
        raise InvalidInput(
            f"The reward of {task!r} has no term but cost.",
            code="quality_missing",
            hint="Name the signal to have more of: --quality solved",
        )
    return TradedSignals(quality=QUALITY, cost=cost, rewards=without)


def traded(
    project: Project,
    task: str,
    *,
    quality: str | None = None,
    cost: str | None = None,
    at_least: float | None = None,
    of: str | None = None,
    newest: int = NEWEST,
) -> Tradeoff:
    """The curve of quality against cost over the newest decisions; see `traded_signals` for the defaults."""
    import numpy as np

    from headway.encode import fit
    from headway.kits.offline.tradeoff import tradeoff
    from headway.observe import latest_draws
    from headway.project import encoder_spec, speaking

    settings = project.settings.task(task)
    project.settle(task)
    signals = traded_signals(project, task, quality, cost)
    left: Counter[str] = Counter()
    rows = []
    latest = latest_draws(project.database, project.query, task, newest)
    for row in speaking(project.query.outcomes(latest, signals=True), left):
        good, price = signals.value(row), row.signals.get(signals.cost)
        if good is not None and price is not None:
            rows.append((row.decision, good, price))
    if not rows:
        raise InvalidInput(
            f"No settled decision of {task!r} has both {signals.quality!r} and {signals.cost!r}.",
            code="too_few_rows",
            hint="Send both as signals, or name others with --quality and --cost.",
        )
    if not any(price for _, _, price in rows):
        raise InvalidInput(
            f"{signals.cost} is 0 on every decision of {task!r}, so there is nothing to save.",
            code="cost_missing",
            hint="Set price_in and price_out of the upstreams, or name another signal: --cost latency_s",
        )
    arms = sorted({candidate.name for decision, _, _ in rows for candidate in decision.candidates})
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
