"""Whether a test is worth going on with: what is likely at most, and how many decisions would show it.

A question of planning, not of proof: ending a test for this reason can cost power and never causes a false promotion.
The constants were tuned by simulation: with 1.5 standard errors, uplifts of .05 and .025 are promoted as often and as
soon as with 2, and tests of equal policies end sooner; with 1 or less, too many tests of better ones are given up.
"""

from __future__ import annotations

from math import sqrt

from headway.nouns.evidence import Prospect
from headway.prove.about import About
from headway.prove.power import sequence_needed
from headway.prove.proof import LogProof

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
