"""heldout — who predicts later rows better, and the test of any pairs of scores.

Takes: rows that neither policy was trained on; pairs of scores.   Gives: evidence.
Never: says who earns more.
May import: project, prove, observe, nouns.
"""

from headway.nouns.kit import Kit

KIT = Kit(
    name="heldout",
    summary="Evidence from held-out rows of history without probabilities.",
    evidence={"heldout": "headway.kits.heldout.heldout:HELDOUT"},
)
