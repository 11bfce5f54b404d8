"""Evidence for the gate from logged decisions.

from_log(chunks, task="route", candidate="bandit@4f2a", against="rules@0")     # off-policy, from logged propensities

A pure function of its arguments: the same data and policies give the same evidence. Kits bring other kinds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.nouns import Claims, Diagnostic, Estimate, Evidence, Guard, Prospect, errors
from headway.prove.about import About
from headway.prove.diagnostics import Window, diagnose, missing_width
from headway.prove.display import Display
from headway.prove.guard_bets import GuardRule
from headway.prove.guards import judge_guards
from headway.prove.log import Log
from headway.prove.power import sequence_needed
from headway.prove.proof import LogProof
from headway.prove.raters import standing
from headway.prove.state import freeze, thaw
from headway.prove.tally import MetricTally

LEAST = 1_000  # decisions before anything is said
_ERRORS = 1.5  # a difference of more than so many standard errors above the estimate is not likely
_CHANCE = 0.5  # of showing the difference within the decisions that are counted


def prospect(proof: LogProof, about: About) -> Prospect | None:
    """What the test can still show; None before there are enough rows, with a registered horizon, or without a limit.

    Counts the decisions by the traffic as it was logged, or with an experiment if one can be opened and needs fewer.
    """
    tally = proof.tally
    n = tally.n
    if not about.most or about.plan is not None or n < LEAST:
        return None
    likely = tally.scores.mean + _ERRORS * sqrt(tally.variance / n)
    variance, lowest = tally.variance, proof.bets.better.lowest
    if about.most_share and tally.shared_variance < variance:
        variance, lowest = tally.shared_variance, 0.0
    needed = sequence_needed(variance, likely - about.margin, about.share, _CHANCE, lowest=lowest)
    if needed is not None and n >= about.most:
        needed = max(needed, n + 1)
    return Prospect(likely=likely, needed=needed, most=about.most)


LOOK = 100  # initial number of rows between two points of the plot's curve


def from_log(
    chunks: Iterable[Log],
    about: About,
    *,
    guards: Sequence[GuardRule] = (),
    training: Window | None = None,
    display: bool = True,
) -> Evidence:
    """Evidence from logged decisions, streamed once, in the order in which they were made.

    `display` adds cross-fitted estimates with intervals (`ScoreSpread`) where the rows fit in memory; the gate's own
    numbers do not depend on it. Failed and censored rows without a reward are counted; they block if they depend on
    the action.
    """
    stream = LogStream(about, guards, display=display)
    for chunk in chunks:
        stream.add(chunk)
    return stream.evidence(training)


class LogStream:
    """The same, chunk by chunk: what a proof knows after some rows of its log."""

    def __init__(self, about: About, guards: Sequence[GuardRule] = (), *, display: bool = True) -> None:
        self._about, self._claimed = about, 0
        self.proof = log_proof(about, guards, hashing=not about.data_hash)
        self._drawn: LogProof | None = None  # without the decisions that something else made, once there are any
        self._shown = Display(reward_range=about.reward_range) if display else None

    def add(self, chunk: Log) -> None:
        """The next rows."""
        proof = self.proof
        claims = None if chunk.origin is None else chunk.origin.claimed
        if claims is not None and (self._drawn is not None or claims.any()):
            if self._drawn is None:
                self._drawn = proof.fork() if proof.arms else log_proof(self._about, hashing=False)
            self._drawn.update(_without(chunk, claims))
            self._claimed += int((claims & (chunk.worst | ~np.isnan(chunk.reward))).sum())
        step = LOOK if proof.rows < 100 * LOOK else max(LOOK, len(chunk))
        for start in range(0, len(chunk), step):
            proof.update(chunk if step >= len(chunk) else chunk.rows(start, start + step))
        if self._shown is not None:
            self._shown.add(chunk)

    def evidence(self, training: Window | None = None) -> Evidence:
        """What the rows so far say."""
        evidence = evidence_of(self.proof, self._about, training=training, shown=self._shown)
        if self._drawn is None:
            return evidence
        alone = self._drawn.statistic(self._about.margin), self._drawn.statistic_worse()
        return replace(evidence, claims=Claims(self._claimed, self._drawn.n, *alone))

    def frozen(self, beside: object) -> bytes | None:
        """The sums, and plain values beside them, as bytes; None while rows are kept for display."""
        if self._shown is None or not self._shown.beyond:
            return None
        return freeze([self.proof, self._drawn, self._claimed, beside])

    def thaw(self, data: bytes) -> Any:
        """Go on from there; the values beside them."""
        self.proof, self._drawn, self._claimed, beside = thaw(data)
        if self._shown is not None:
            self._shown.beyond = True
        return beside


def _without(chunk: Log, claimed: NDArray[np.bool_]) -> Log:
    """The chunk as if nothing had come of these rows: they take no part in a test."""
    reward, worst = np.where(claimed, np.nan, chunk.reward), chunk.worst & ~claimed
    chunk = replace(chunk, reward=reward, worst=worst, raters={}, without={}, origin=None)
    return replace(chunk, segments={}, guards={}, keys=None, sources=None)


def log_proof(about: About, guards: Sequence[GuardRule] = (), *, hashing: bool = True) -> LogProof:
    """A running proof with the error budget and the reward range of `about`."""
    return LogProof(
        plan=about.plan,
        alpha=about.share,
        alpha_worse=about.alpha_worse,
        reward_range=about.reward_range,
        hashing=hashing,
        guard=about.guard,
        most_share=about.most_share,
        guards=guards,
        margin=about.margin,
    )


def evidence_of(
    proof: LogProof,
    about: About,
    *,
    training: Window | None = None,
    shown: Display | None = None,
) -> Evidence:
    """The evidence from a running proof so far; cheap enough to compute after every few rows."""
    if not proof.arms:
        raise errors.InvalidInput(
            f"No results yet for {about.task!r}.",
            code="no_evidence",
            hint="Send outcomes with `headway signal`, then prove again.",
        )
    tally, n = proof.tally, proof.n
    judged = (
        *judge_guards(proof.rules, proof.guards, proof.segments),
        _failures(proof.failures),
    )
    difference, values = _estimates(proof, shown)
    return about.compose(
        kind="log",
        n=n,
        difference=difference,
        values=values,
        statistic=proof.statistic(about.margin),
        statistic_worse=proof.statistic_worse(),
        threshold=log(1.0 / proof.alpha),
        threshold_worse=log(1.0 / proof.alpha_worse),
        rule=about.bet,
        alpha=proof.alpha,
        counts=dict(proof.counts),
        data_hash=proof.data_hash,
        needed=about.still_needed(tally.variance, n, tally.scores.mean, proof.bets.better.lowest),
        diagnostics=_diagnostics(proof, about, training),
        guards=judged,
        curve=tuple(proof.curve) if shown is not None else (),
        bounds=proof.bounds(about.margin),
        ended=proof.ended,
        raters=standing(proof, margin=about.margin),
        prospect=prospect(proof, about),
    )


def _diagnostics(proof: LogProof, about: About, training: Window | None) -> tuple[Diagnostic, ...]:
    excluded = proof.checks.missing.scores.n > 0 and proof.counts.get("left out", 0) > 0
    return (
        *diagnose(
            proof.checks, proof.tally, proof.keys, arms=proof.arms, training=training,
            excluded=excluded, margin=about.margin, capped="capped" in about.declared,
        ),
        missing_width(
            n=proof.n,
            unknown=proof.bets.at_worst,
            deleted=proof.bets.deleted,
            moved=proof.bets.missing_width,
            reward_width=proof.bets.width,
            passed=proof.statistic(about.margin) > log(1.0 / proof.alpha),
        ),
    )  # fmt: skip


def _estimates(proof: LogProof, shown: Display | None) -> tuple[Estimate, dict[str, Estimate]]:
    """The difference and the values of the policies, for display."""
    ess = proof.checks.ess(0)
    difference = proof.tally.scores.estimate("dr", ess=ess)
    values = {
        "candidate": proof.candidate.estimate("dr", ess=ess),
        "current": proof.current.estimate("dr", ess=proof.checks.ess(1)),
        "behaviour": proof.behaviour.estimate("mean"),
    }
    return (difference, values) if shown is None else shown.estimates(difference, values)


def _failures(tally: MetricTally) -> Guard:
    """The built-in guard: how often calls fail or are never rated, whatever their reward. For information only."""
    estimate = tally.scores.estimate("dr")
    return Guard(
        name="failed or censored",
        difference=estimate,
        tolerance=1.0,
        ok=True,
        message=f"{estimate.value:+.1%} [{estimate.low:+.1%}, {estimate.high:+.1%}] of decisions; for information",
    )
