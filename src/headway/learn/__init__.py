"""learn — turns experience into a policy, with baselines to compare it with.

Takes: Experience, knobs, a seed.   Gives: Learned: tensors, knobs, metrics and baselines.
Never: reads rows of the prove part, makes a file, opens a socket, reads a clock.
May import: decide, encode, nouns, observe, reward.
"""

from typing import TYPE_CHECKING

from headway.nouns import door

if TYPE_CHECKING:
    from headway.learn.age import Ages as Ages, ages_of as ages_of
    from headway.learn.counts import RowCounts as RowCounts, nothing_to_learn as nothing_to_learn
    from headway.learn.sums import blocks as blocks
else:
    __all__, __getattr__ = door(__name__)
