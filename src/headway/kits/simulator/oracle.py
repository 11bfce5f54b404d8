"""The best policy with the information that exists, by dynamic programming.

The oracle knows of a problem: its family, its difficulty, which wordings of its statement trip solvers up, the exact
chance of every solver in that state (solvers.CHANCES), and how often a wrong draft of that family and difficulty passes
the visible tests. It does not know what a single draft will be: that follows from a hash and cannot be foreseen from
anything that a policy sees. It plans all MOST_STEPS actions ahead and acts on what `verify` says, like any policy.

    V(t, draft, prompt) = max over actions of  −price + E[V(t + 1, …)],   stop: the chance that the draft is right

No policy that sees statement and history only can be better on average, up to what repeated checks tell about the share
of wrong drafts that pass them, which the oracle takes as known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.kits.simulator.outcomes import OutcomeTable
from headway.kits.simulator.problem import CodeProblem
from headway.kits.simulator.solvers import CHANCES, SCRIPTED, SPLIT_FROM, Subjects
from headway.kits.simulator.world import (
    ACTIONS,
    DECOMPOSE_PRICE,
    MOST_STEPS,
    MUTATION_PRICE,
    RETRY_PRICE,
    VERIFY_PRICE,
    SimWorld,
    position,
)

_SOLVER_PRICES = tuple(solver.price for solver in SCRIPTED.values())
_MUTATE = -1  # any mutation that answers a trait


class Cell(NamedTuple):
    """What the oracle knows about a problem."""

    skills: tuple[int, ...]
    difficulty: int
    traits: int  # how many
    slip: float  # the share of wrong drafts that pass the visible tests


class _Now(NamedTuple):
    """The state of an episode, as far as it matters to the oracle."""

    steps: int
    check: int  # -1: no draft; 0 unchecked, 1 passed, 2 failed
    arm: int  # of the draft
    level: int  # the number of the draft's chance in CHANCES
    answered: int  # traits
    split: bool


def cells(problems: Sequence[CodeProblem], subjects: Subjects, table: OutcomeTable) -> list[Cell]:
    """[problem]: what the oracle knows."""
    kinds = [(problem.family, problem.difficulty) for problem in problems]
    slips: dict[tuple[str, int], float] = {}
    for kind in dict.fromkeys(kinds):
        places = [place for place, other in enumerate(kinds) if other == kind]
        wrong = [table.visible[place, 1 : subjects.sources[place]].mean() for place in places]
        slips[kind] = round(float(np.mean(wrong)), 2)
    counts = [int(bits).bit_count() for bits in subjects.traits]
    return [
        Cell(tuple(subjects.skills[place].tolist()), problem.difficulty, counts[place], slips[kinds[place]])
        for place, problem in enumerate(problems)
    ]


@cache
def _best(cell: Cell, now: _Now) -> tuple[float, int]:
    """(value, action) in a state; the action _MUTATE stands for any that answers a trait."""
    right = _right(cell, now)
    if now.steps == MOST_STEPS:
        return right, position("stop")
    options = [(right, position("stop"))]
    later = now._replace(steps=now.steps + 1)
    for arm, price in enumerate(_SOLVER_PRICES):
        drafted = later._replace(check=0, arm=arm, level=_level(cell, now, arm, told=False))
        options.append((_best(cell, drafted)[0] - price, arm))
    if now.check == 0:
        passes = right + (1.0 - right) * cell.slip
        value = passes * _best(cell, later._replace(check=1))[0]
        value += (1.0 - passes) * _best(cell, later._replace(check=2, level=0))[0]
        options.append((value - VERIFY_PRICE, position("verify")))
    if now.check == 2:
        again = later._replace(check=0, level=_level(cell, now, now.arm, told=True))
        options.append((_best(cell, again)[0] - _SOLVER_PRICES[now.arm] - RETRY_PRICE, position("retry")))
    if now.answered < cell.traits:
        options.append((_best(cell, later._replace(answered=now.answered + 1))[0] - MUTATION_PRICE, _MUTATE))
    if not now.split and cell.difficulty >= SPLIT_FROM:
        options.append((_best(cell, later._replace(split=True))[0] - DECOMPOSE_PRICE, position("decompose")))
    return max(options, key=lambda option: option[0])


def _right(cell: Cell, now: _Now) -> float:
    """The chance that the draft is right."""
    if now.check in (-1, 2):
        return 0.0
    chance = CHANCES[now.level]
    return chance if now.check == 0 else chance / (chance + (1.0 - chance) * cell.slip)


def _level(cell: Cell, now: _Now, arm: int, *, told: bool) -> int:
    margin = cell.skills[arm] - cell.difficulty - (cell.traits - now.answered) + told
    margin += now.split and cell.difficulty >= SPLIT_FROM
    return max(0, min(len(CHANCES) - 1, margin + 3))


@dataclass(slots=True)
class Oracle:
    """Plays the oracle on a world whose copies began with `start`."""

    cells: list[Cell]

    def values(self) -> NDArray[np.float64]:
        """[problem]: the exact expected value at the beginning."""
        return np.array([_best(cell, _Now(0, -1, 0, 0, 0, False))[0] for cell in self.cells])

    def choose(self, world: SimWorld, levels: NDArray[np.int64]) -> NDArray[np.int64]:
        """[copy]: the best actions. `levels` is the oracle's note about each newest draft; it is updated here."""
        chosen = np.zeros(world.num_envs, dtype=np.int64)
        for place in range(world.num_envs):
            cell = self.cells[world.at[place]]
            traits = int(world.subjects.traits[world.at[place]])
            answered = (traits & int(world.prompts[place])).bit_count()
            drafted = world.draft[place] >= 0
            check = int(world.check[place]) if drafted else -1
            arm = int(world.arm[place]) if drafted else 0
            level = int(levels[place]) if check in (0, 1) else 0
            now = _Now(int(world.steps[place]), check, arm, level, answered, bool(world.split[place]))
            action = _best(cell, now)[1]
            if action == _MUTATE:
                left = traits & ~int(world.prompts[place])
                action = len(SCRIPTED) + (left & -left).bit_length() - 1
            elif action < len(SCRIPTED):
                levels[place] = _level(cell, now, action, told=False)
            elif ACTIONS[action] == "retry":
                levels[place] = _level(cell, now, now.arm, told=now.check == 2)
            chosen[place] = action
        return chosen
