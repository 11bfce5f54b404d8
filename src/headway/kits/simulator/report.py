"""Compares ways of solving problems on held-out ones: fixed arms, rules, a bandit, learned policies, the oracle.

    rows = played_rows(path, {"learned": [policy]}, encoder="hashing-1-w128", seed=0)
    played_summary(rows, seed=0)            # means, intervals and shares of the oracle (kit `offline`)

- fixed arm    one solver, then stop: the solver that is best on the practised problems
- rules        written by hand: small first; verify; if it fails, large; stop
- cascade      solvers in the order that is best on the practised problems, verify after each, stop when one passes
- bandit       one solver by the statement, then stop: ridge regressions on what every solver earned on every practised
               problem, which is more than a bandit would get to see
- learned      the first choice of a policy; with several policies (seeds), the mean of them
- oracle       the best policy with the information that exists (oracle.py)

All play the same problems with the same attempts. Fixed arm, cascade and bandit are chosen on practised problems only.

Plays ways of choosing on the same problems with the same attempts, and compares what they are worth.

played = played_by(part, chooser, attempts=4)      # [problem × attempt]: value net of cost, and whether it was solved
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headway.kits.simulator import ACTIONS, SOLVERS
from headway.kits.simulator.oracle import Oracle, cells
from headway.kits.simulator.split import ENCODER, Part, ProblemPart, problem_part
from headway.kits.simulator.world import MOST_STEPS, SimWorld, position
from headway.nouns import Progress

if TYPE_CHECKING:
    from headway.kits.practice import ActorCritic

ATTEMPTS = 8  # of every problem
HELD_OUT_PARTS: tuple[Part, ...] = ("test", "families")
_STOP, _VERIFY = position("stop"), position("verify")
_RIDGE = 1.0
_SMALL_FIRST = (SOLVERS.index("small"), SOLVERS.index("large"))
Floats = NDArray[np.float64]
Chooser = Callable[[SimWorld, NDArray[np.float32]], NDArray[np.int64]]  # world, observations → actions [copy]


def fixed_chooser(arm: int) -> Chooser:
    """One solver, then stop."""
    return lambda world, _: np.where(world.draft >= 0, _STOP, arm)


def cascade_chooser(order: Sequence[int]) -> Chooser:
    """Solvers in this order, verify after each but the last, stop when one passes."""
    after = np.full(len(SOLVERS), _STOP)
    after[list(order[:-1])] = order[1:]

    def choose(world: SimWorld, _: Any) -> NDArray[np.int64]:
        checked = np.where(world.check == 1, _STOP, after[world.arm])
        unchecked = np.where(world.arm == order[-1], _STOP, _VERIFY)
        chosen = np.where(world.check == 0, unchecked, checked)
        return np.where(world.draft < 0, order[0], chosen)

    return choose


def bandit_chooser(weights: NDArray[np.float64]) -> Chooser:
    """The solver with the highest prediction for the statement, then stop."""

    def choose(world: SimWorld, observations: NDArray[np.float32]) -> NDArray[np.int64]:
        best = _with_constant(observations[:, : len(weights) - 1]) @ weights
        return np.where(world.draft >= 0, _STOP, best.argmax(axis=1))

    return choose


def learned_chooser(policy: ActorCritic) -> Chooser:
    """The first choice of a policy among what is allowed."""

    def choose(world: SimWorld, observations: NDArray[np.float32]) -> NDArray[np.int64]:
        logits = policy.logits(_with_constant(observations))
        return np.asarray(np.where(world.action_masks(), logits, -np.inf).argmax(axis=1))

    return choose


def oracle_chooser(part: ProblemPart, count: int) -> Chooser:
    """The oracle, for one play of `count` episodes."""
    oracle = Oracle(cells(part.problems, part.subjects, part.table))
    levels = np.zeros(count, dtype=np.int64)
    return lambda world, _: oracle.choose(world, levels)


class Baselines:
    """What is chosen on the practised problems: the fixed arm, the order of the cascade, the bandit."""

    def __init__(self, arm: int, order: tuple[int, ...], weights: NDArray[np.float64]) -> None:
        self.arm, self.order, self.weights = arm, order, weights

    def choosers(self) -> dict[str, Chooser]:
        return {
            "fixed arm": fixed_chooser(self.arm),
            "rules": cascade_chooser(_SMALL_FIRST),
            "cascade": cascade_chooser(self.order),
            "bandit": bandit_chooser(self.weights),
        }

    @property
    def names(self) -> dict[str, str]:
        """What was chosen, in words."""
        return {"fixed arm": ACTIONS[self.arm], "cascade": ", ".join(ACTIONS[arm] for arm in self.order)}


def baselines(part: ProblemPart, *, seed: int, encoder: str = ENCODER, attempts: int = ATTEMPTS) -> Baselines:
    """Choose on practised problems."""
    play = partial(played_by, part, attempts=attempts, seed=seed, encoder=encoder)
    arms = [play(fixed_chooser(arm)).values for arm in range(len(SOLVERS))]
    means = [values.mean() for values in arms]
    orders = [order for size in (2, 3, 4) for order in permutations(range(len(SOLVERS)), size)]
    values = [play(cascade_chooser(order)).values.mean() for order in orders]
    world = part.world(len(part.problems), encoder)
    seen = world.start(np.arange(len(part.problems)), np.zeros(len(part.problems), dtype=np.uint64))
    x = _with_constant(seen[:, : world.features.text_width + 1])
    targets = np.stack([rows.mean(axis=1) for rows in arms], axis=1)  # [problem, solver]
    weights = np.linalg.solve(x.T @ x + _RIDGE * np.eye(x.shape[1]), x.T @ targets)
    return Baselines(int(np.argmax(means)), orders[int(np.argmax(values))], weights)


def played_rows(
    path: Path,
    policies: Mapping[str, Sequence[ActorCritic]],
    *,
    encoder: str = ENCODER,
    seed: int = 0,
    attempts: int = ATTEMPTS,
    progress: Progress | None = None,
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """(rows for `played_summary`, what the baselines chose), on held-out problems and held-out families."""
    chosen = baselines(problem_part(path, "train"), seed=seed, encoder=encoder, attempts=attempts)
    rows: list[dict[str, Any]] = []
    for number, name in enumerate(HELD_OUT_PARTS):
        part = problem_part(path, name)
        play = partial(played_by, part, attempts=attempts, seed=seed + 1, encoder=encoder)
        for way, chooser in chosen.choosers().items():
            rows += _rows(part, name, way, [play(chooser)])
        for way, several in policies.items():
            rows += _rows(part, name, way, [play(learned_chooser(policy)) for policy in several])
        rows += _rows(part, name, "oracle", [play(oracle_chooser(part, len(part.problems) * attempts))])
        if progress is not None:
            progress("parts", number + 1, len(HELD_OUT_PARTS))
    return rows, chosen.names


def _rows(part: ProblemPart, name: str, way: str, plays: Sequence[PlayedProblems]) -> Iterator[dict[str, Any]]:
    """One row per problem: the mean over attempts, and over policies where there are several."""
    columns = {
        "value": np.mean([play.values.mean(axis=1) for play in plays], axis=0),
        "solved": np.mean([play.solved.mean(axis=1) for play in plays], axis=0),
        "cost": np.mean([play.costs.mean(axis=1) for play in plays], axis=0),
    }
    for place, problem in enumerate(part.problems):
        numbers = {key: round(float(column[place]), 9) for key, column in columns.items()}
        yield {"part": name, "way": way, "subject": problem.id, "family": problem.family, **numbers}


def _with_constant(observations: NDArray[Any]) -> NDArray[np.float64]:
    return np.concatenate([np.ones((len(observations), 1)), observations], axis=1).astype(np.float64)


@dataclass(frozen=True, slots=True)
class PlayedProblems:
    """[problem, attempt] each."""

    values: Floats
    solved: Floats
    costs: Floats
    actions: NDArray[np.int64]  # [problem, attempt, step]; -1 after the end


def played_by(
    part: ProblemPart, choose: Chooser, *, attempts: int, seed: int, encoder: str = ENCODER
) -> PlayedProblems:
    """Every problem `attempts` times; the same seed gives every chooser the same drafts."""
    problems = len(part.problems)
    count = problems * attempts
    world = part.world(count, encoder)
    draws = np.random.default_rng([seed, 0xE7A1]).integers(1 << 62, size=count).astype(np.uint64)
    at = np.repeat(np.arange(problems), attempts)
    observations = world.start(at, draws)
    values, costs, solved, over = np.zeros(count), np.zeros(count), np.zeros(count), np.zeros(count, dtype=np.bool_)
    actions = np.full((count, MOST_STEPS), -1)
    for step in range(MOST_STEPS):
        chosen = choose(world, observations)
        actions[~over, step] = chosen[~over]
        observations, rewards, ended, _, info = world.step(chosen)
        metrics = info["metrics"]
        values += np.where(over, 0.0, rewards)
        costs += np.where(over, 0.0, metrics["cost"])
        solved += np.where(over, 0.0, metrics["solved"])
        over |= ended
        if over.all():
            break
    shape = (problems, attempts)
    return PlayedProblems(
        values.reshape(shape), solved.reshape(shape), costs.reshape(shape), actions.reshape(*shape, MOST_STEPS)
    )
