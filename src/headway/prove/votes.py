"""Evidence from blind comparisons: how often the candidate was preferred."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from math import log

from headway.nouns.errors import InvalidInput
from headway.nouns.evidence import Estimate, Evidence
from headway.prove import intervals, sequential
from headway.prove.about import About, compose

__all__ = ["from_preferences"]

_WORSE = 10.0  # the e-value from which the votes are against a candidate; a policy that acts is taken back


def from_preferences(wins: int, losses: int, about: About, *, ties: int = 0) -> Evidence:
    """Evidence from a blind comparison: how often the candidate's reply was preferred. Ties are dropped.

    The e-process may be read after every vote; `about.alpha` is replaced by the one for preferences, under which the
    first challenger passes at E ≥ 20. The Wilson interval is for display only.
    """
    if min(wins, losses, ties) < 0:
        raise InvalidInput(
            f"{wins!r} wins, {losses!r} losses and {ties!r} ties: counts cannot be negative.",
            code="bad_preferences",
            hint="Count votes for the candidate, for the current policy, and undecided ones.",
        )
    alpha = sequential.challenger_alpha(sequential.PREFERENCE_ALPHA, about.challenger, about.promotions)
    n = wins + losses
    low, high = intervals.wilson(wins, n)
    rate = wins / n if n else 0.5
    estimate = Estimate(value=rate - 0.5, low=low - 0.5, high=high - 0.5, n=n, ess=float(n), method="win rate − ½")
    return compose(
        about,
        kind="preference",
        n=n,
        difference=estimate,
        values={"candidate": replace(estimate, value=rate, low=low, high=high, method="win rate")},
        statistic=sequential.e_process(wins, losses),
        statistic_worse=sequential.e_process(losses, wins),
        threshold=log(1.0 / alpha),
        threshold_worse=log(_WORSE),
        rule=sequential.E_PROCESS,
        alpha=alpha,
        counts={"wins": wins, "losses": losses, "ties": ties},
        data_hash=hashlib.sha256(f"{wins} {losses} {ties}".encode()).hexdigest(),
        needed=_votes_needed(wins, losses, log(1.0 / alpha)),
    )


def _votes_needed(wins: int, losses: int, threshold: float) -> int | None:
    """Votes still needed at the present win rate; None if it is not above one half."""
    if wins <= losses:
        return None
    n = wins + losses
    rate = wins / n
    low, high = n, n
    while sequential.e_process(round(high * rate), high - round(high * rate)) < threshold:
        low, high = high, high * 2
        if high > 10_000_000:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        won = round(middle * rate)
        if sequential.e_process(won, middle - won) < threshold:
            low = middle
        else:
            high = middle
    return max(0, high - n)
