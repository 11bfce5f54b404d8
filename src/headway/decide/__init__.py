"""decide — picks an action for a situation, now.

Takes: Situation, candidates, a seed.   Gives: the exact probability of every candidate, and the one that was drawn.
Never: writes a row, computes a gradient, opens a socket, reads a clock.
May import: encode, nouns.
"""

from typing import TYPE_CHECKING

from headway.nouns import door

if TYPE_CHECKING:
    from headway.decide import bandit as bandit, explore as explore
    from headway.decide.acting import (
        Acted as Acted,
        Author as Author,
        Draw as Draw,
        Explorer as Explorer,
        Pipeline as Pipeline,
        sticky as sticky,
    )
    from headway.decide.arms import Arms as Arms
    from headway.decide.bandit import Bandit as Bandit
    from headway.decide.baselines import baseline as baseline
    from headway.decide.chooser import Chooser as Chooser
    from headway.decide.conditions import BUILT_IN as BUILT_IN, parse as parse
    from headway.decide.explore import draw as draw, uniform as uniform, without_canary as without_canary
    from headway.decide.posteriors import Clusters as Clusters, Linear as Linear, rounded as rounded
    from headway.decide.stored import damaged as damaged, tensor as tensor
else:
    __all__, __getattr__ = door(__name__)
