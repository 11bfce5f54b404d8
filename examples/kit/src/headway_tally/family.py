"""The family `tally`: the action with the best mean reward among situations with the same value of one variable."""

from collections import defaultdict
from dataclasses import asdict, dataclass

import numpy as np

from headway.decide import explore
from headway.nouns import Learned, Opinions, errors, knob


@dataclass(frozen=True)
class TallyKnobs:
    """What `headway learn --set` may change."""

    by: str = knob("colour", "The state variable whose values are told apart.")
    prior: float = knob(1.0, "How many rewards of the overall mean each cell starts with.", low=0.0, high=1e9)


class Tally:
    """The policy. It gives opinions and nothing else; exploration is the pipeline's."""

    family = "tally"

    def __init__(self, by, cells, default):
        self.by, self.cells, self.default = by, cells, default

    def opinions(self, situations, candidates, seeds, *, confidence=True, std=False):
        mean = np.array(
            [
                [self.cells.get((str(one.state.get(self.by)), arm.name), self.default) for arm in candidates]
                for one in situations
            ]
        )
        sure = np.ones(len(situations)) if confidence else None
        return Opinions(explore.greedy(mean), sure, mean=mean)


def read(knobs, tensors, extra, encoder):
    """The policy out of its stored form."""
    means = tensors["means"].tolist()
    return Tally(
        knobs["by"], {tuple(cell): mean for cell, mean in zip(extra["cells"], means, strict=True)}, extra["default"]
    )


class TallyLearner:
    """Counts. The same rows, knobs and seed give the same policy."""

    def __init__(self, encoder=None):
        self.encoder = encoder

    def learn(self, experience, knobs, seed, progress=None):
        own = TallyKnobs(**{name: value for name, value in knobs.items() if name in ("by", "prior")})
        sums, rewards = defaultdict(lambda: [0.0, 0]), []
        for part in ("train", "tune"):
            for row in experience.part(part):
                if row.reward is not None:
                    cell = sums[str(row.decision.situation.state.get(own.by)), row.decision.action]
                    cell[0], cell[1] = cell[0] + row.reward, cell[1] + 1
                    rewards.append(row.reward)
        if not rewards:
            raise errors.InvalidInput("No decision has a reward.", code="nothing_to_learn", hint="Send signals first.")
        default, cells = float(np.mean(rewards)), sorted(sums)
        means = [(sums[cell][0] + own.prior * default) / (sums[cell][1] + own.prior) for cell in cells]
        return Learned(
            family="tally",
            tensors={"means": np.array(means)},
            knobs=asdict(own),
            metrics={"cells": float(len(cells))},
            baselines={"mean": default},
            trained_on={"rows": len(rewards)},
            extra={"cells": cells, "default": default},
        )
