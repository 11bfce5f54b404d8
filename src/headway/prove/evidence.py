"""Evidence for the gate, of four kinds: logged decisions, preferences, fresh episodes of a world, held-out rows.

from_log(chunks, task="route", candidate="bandit@4f2a", against="rules@0")     # off-policy, from logged propensities
from_preferences(wins, losses, …)                                             # blind A/B of two replies
from_world(candidate_returns, current_returns, …)                             # the same seeds for both policies
from_heldout(candidate_scores, current_scores, …)                             # later rows that training never saw

Each is a pure function of its arguments: the same data and policies give the same evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headway.nouns.errors import InvalidInput
from headway.nouns.evidence import Diagnostic, Estimate, Evidence, Guard
from headway.prove.about import About, compose
from headway.prove.diagnostics import Floors, Window, diagnose
from headway.prove.display import Display
from headway.prove.guards import GuardRule, judge_metrics, judge_segments
from headway.prove.log import Log
from headway.prove.paired import from_heldout, from_preferences, from_world
from headway.prove.proof import LogProof
from headway.prove.raters import standing
from headway.prove.tally import MetricTally

__all__ = ["About", "evidence_of", "from_heldout", "from_log", "from_preferences", "from_world"]

LOOK = 100  # initial number of rows between two points of the plot's curve


def from_log(
    chunks: Iterable[Log],
    about: About,
    *,
    guards: Sequence[GuardRule] = (),
    segment_tolerance: float = 0.0,
    floors: Floors | None = None,
    training: Window | None = None,
    display: bool = True,
) -> Evidence:
    """Evidence from logged decisions, streamed once, in the order in which their outcomes became known.

    `display` adds cross-fitted estimates with bootstrap intervals where the rows fit in memory; the gate's own numbers
    do not depend on it. Failed and censored rows without a reward are counted; they block if they depend on the action.
    """
    proof = LogProof(plan=about.plan, hashing=not about.data_hash)
    shown = Display(seed=about.seed) if display else None
    for chunk in chunks:
        step = LOOK if proof.rows < 100 * LOOK else max(LOOK, len(chunk))
        for start in range(0, len(chunk), step):
            proof.update(chunk if step >= len(chunk) else chunk.rows(start, start + step))
        if shown is not None:
            shown.add(chunk)
    return evidence_of(
        proof,
        about,
        guards=guards,
        segment_tolerance=segment_tolerance,
        floors=floors,
        training=training,
        shown=shown,
    )


def evidence_of(
    proof: LogProof,
    about: About,
    *,
    guards: Sequence[GuardRule] = (),
    segment_tolerance: float = 0.0,
    floors: Floors | None = None,
    training: Window | None = None,
    shown: Display | None = None,
) -> Evidence:
    """The evidence from a running proof so far; cheap enough to compute after every few rows."""
    if not proof.arms:
        raise InvalidInput(
            f"There is no settled decision of {about.task!r} to compute a proof from.",
            code="no_evidence",
            hint="Send outcomes with `headway signal`, then prove again.",
        )
    tally, alpha = proof.tally, about.share
    n, total = tally.n, tally.scores.total
    judged = (
        *judge_metrics(guards, proof.guards),
        *judge_segments(proof.segments, segment_tolerance),
        _failures(proof.failures),
    )
    difference, values = _estimates(proof, shown)
    threshold = proof.threshold(alpha)
    return compose(
        about,
        kind="log",
        n=n,
        difference=difference,
        values=values,
        statistic=total - about.margin * n,
        statistic_worse=-total,
        threshold=threshold,
        rule=about.rule,
        alpha=alpha,
        counts=dict(proof.counts),
        data_hash=proof.data_hash,
        needed=about.still_needed(tally.variance, n, tally.scores.mean),
        diagnostics=_diagnostics(proof, about.margin, floors, training),
        guards=judged,
        curve=proof.path(alpha) if shown is not None else (),
        bounds=proof.bounds(alpha),
        ended=proof.ended,
        raters=standing(proof.raters, proof.without, tally, alpha=alpha, margin=about.margin, threshold=threshold),
    )


def _diagnostics(
    proof: LogProof, margin: float, floors: Floors | None, training: Window | None
) -> tuple[Diagnostic, ...]:
    excluded = proof.missing.scores.n > 0 and proof.counts.get("without reward", 0) > proof.counts.get("pending", 0)
    return diagnose(
        proof.checks, proof.tally, proof.missing, proof.keys, arms=proof.arms, floors=floors, training=training,
        excluded=excluded, margin=margin,
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
