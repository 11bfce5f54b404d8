"""heldout — who predicts later rows better, the test of any pairs of scores, and intervals of a mean.

Takes: rows that neither policy was trained on; pairs of scores.   Gives: evidence.
Never: says who earns more.
May import: project, prove, observe, nouns.
"""

from typing import TYPE_CHECKING

from headway.nouns import Kit, door

if TYPE_CHECKING:
    from headway.kits.heldout.intervals import bootstrap as bootstrap, normal as normal
    from headway.kits.heldout.paired import from_world as from_world, plan_pairs as plan_pairs
else:
    __all__, __getattr__ = door(__name__)

KIT = Kit(
    name="heldout",
    summary="Evidence from held-out rows of history without probabilities.",
    evidence={"heldout": "headway.kits.heldout.heldout:HELDOUT"},
)
