"""The world `scaffold`: A is grown, helps B for a long while, is pruned, and B succeeds by what was seen at the start.

    world = scaffold(count=64)
    best_memoryless()               # 1/3: the exact value of the best policy without a memory; the optimum is 1

Step 0 shows which of three blueprints the host needs, once. A seed of that blueprint must be germinated in slot A then.
It scaffolds for 55 steps in which nothing but WAIT is allowed. In step 56 slot B must get the same blueprint, in step
57 A must be pruned, in step 58 B must be fossilised; then the episode ends and pays 1 if all of that was right, else 0.
Nothing that is observed after step 0 depends on the blueprint, so that

- the last choices depend on an observation 56 steps earlier, and the first one is paid 58 steps later;
- time is part of the observation, so every observation occurs at most once in an episode, the value is linear in the
  choice at each observation, and the best policy without a memory needs no chance: `best_memoryless` looks at all.

The features are time, the blueprint (step 0 only), the stages of A and B, and the feedback: whether the last action
was of use, and its operation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.kits.grow.factored.space import Factored, Head, Observations
from headway.kits.grow.worlds import StepResult, random_from, random_state

SPACE = Factored(
    heads=(
        Head("op", ("WAIT", "GERMINATE", "SET_ALPHA_TARGET", "PRUNE", "FOSSILIZE", "ADVANCE")),
        Head("slot", ("A", "B")),
        Head("blueprint", ("NORM", "CONV_SMALL", "ATTENTION")),
    ),
    needs={
        "WAIT": (), "GERMINATE": ("slot", "blueprint"), "SET_ALPHA_TARGET": ("slot",), "PRUNE": ("slot",),
        "FOSSILIZE": ("slot",), "ADVANCE": ("slot",),
    },
    conditional=("slot",),
)  # fmt: skip
WAIT, GERMINATE, PRUNE, FOSSILIZE = 0, 1, 3, 4
GROW_B, PRUNE_A, FOSSILIZE_B, LENGTH = 56, 57, 58, 59
_BLUEPRINTS, _FEEDBACK = 3, 7
_FEATURES = 1 + _BLUEPRINTS + 3 + 3 + _FEEDBACK
# The operation that each step allows beside WAIT, and its slot.
_MOVES: Mapping[int, tuple[int, int]] = {
    0: (GERMINATE, 0), GROW_B: (GERMINATE, 1), PRUNE_A: (PRUNE, 0), FOSSILIZE_B: (FOSSILIZE, 1),
}  # fmt: skip


class _Inside(NamedTuple):
    """One episode: what the host needs, what is in A and B (−1: nothing), and what was done last."""

    need: int
    a: int = -1
    b: int = -1
    pruned: bool = False
    fossilised: bool = False
    last: int = -1  # the operation; −1: none yet

    def seen(self, time: int) -> tuple[Any, ...]:
        """What the policy can tell apart."""
        return (time, self.need if time == 0 else -1, self.a >= 0, self.pruned, self.b >= 0, self.last)

    def choices(self, time: int) -> Iterator[tuple[int, int]]:
        """(operation, blueprint) that are allowed; the slot follows from the operation."""
        yield WAIT, 0
        move = _MOVES.get(time)
        if move is not None and (time == 0 or self.a >= 0) and (move[0] != FOSSILIZE or self.b >= 0):
            for blueprint in range(_BLUEPRINTS if move[0] == GERMINATE else 1):
                yield move[0], blueprint

    def after(self, time: int, op: int, blueprint: int) -> _Inside:
        moved = self._replace(last=op)
        if op == GERMINATE:
            return moved._replace(a=blueprint) if time == 0 else moved._replace(b=blueprint)
        return moved._replace(pruned=moved.pruned or op == PRUNE, fossilised=moved.fossilised or op == FOSSILIZE)

    @property
    def pays(self) -> float:
        return float(self.a == self.need == self.b and self.pruned and self.fossilised)


def best_memoryless() -> float:
    """The exact value of the best policy without a memory, by looking at every one that differs."""

    def best(time: int, states: dict[_Inside, float]) -> float:
        if time == LENGTH:
            return sum(share * state.pays for state, share in states.items())
        groups: dict[tuple[Any, ...], list[_Inside]] = {}
        for state in states:
            groups.setdefault(state.seen(time), []).append(state)
        allowed = [tuple(group[0].choices(time)) for group in groups.values()]
        values = []
        for chosen in product(*allowed):
            after: dict[_Inside, float] = {}
            for group, (op, blueprint) in zip(groups.values(), chosen, strict=True):
                for state in group:
                    moved = state.after(time, op, blueprint)
                    after[moved] = after.get(moved, 0.0) + states[state]
            values.append(best(time + 1, after))
        return max(values)

    return best(0, {_Inside(need): 1.0 / _BLUEPRINTS for need in range(_BLUEPRINTS)})


class Scaffold:
    """Copies of the world; all of them are in the same step."""

    def __init__(self, count: int) -> None:
        self.count, self.space, self.features, self.horizon = count, SPACE, _FEATURES, LENGTH
        self.indices: tuple[int, ...] = ()
        self.feedback = tuple(range(_FEATURES - _FEEDBACK, _FEATURES))
        self.returns, self.scaled = (0.0, 1.0), True
        self._none = np.zeros((count, 0), dtype=np.int64)
        self._rng = np.random.default_rng(0)
        self.time = 0
        self._begin()

    def _begin(self) -> None:
        self.time = 0
        self.need = self._rng.integers(0, _BLUEPRINTS, self.count)
        self.a, self.b = np.full(self.count, -1), np.full(self.count, -1)
        self.pruned, self.fossilised = np.zeros(self.count, dtype=bool), np.zeros(self.count, dtype=bool)
        self.last = np.full(self.count, -1)

    def reset(self, seed: int) -> tuple[Observations, Mapping[str, Any]]:
        self._rng = np.random.default_rng(seed)
        self._begin()
        return self._seen(), self._masks()

    def step(self, actions: NDArray[Any]) -> StepResult:
        op, blueprint = actions[:, 0], actions[:, 2]
        grown = op == GERMINATE
        if self.time == 0:
            self.a = np.where(grown, blueprint, self.a)
        else:
            self.b = np.where(grown, blueprint, self.b)
        self.pruned = self.pruned | (op == PRUNE)
        self.fossilised = self.fossilised | (op == FOSSILIZE)
        self.last = op.copy()
        self.time += 1
        over = np.full(self.count, self.time == LENGTH)
        rewards = np.zeros(self.count)
        info: dict[str, Any] = {}
        if self.time == LENGTH:
            right = (self.a == self.need) & (self.b == self.need) & self.pruned & self.fossilised
            rewards = right.astype(np.float64)
            info["final"] = self._seen()
            self._begin()
        return StepResult(self._seen(), self._masks(), rewards, over, np.zeros(self.count, dtype=bool), info)

    def _seen(self) -> Observations:
        shown = np.zeros((self.count, _BLUEPRINTS))
        if self.time == 0:
            shown = np.eye(_BLUEPRINTS)[self.need]
        stages = [self.a < 0, (self.a >= 0) & ~self.pruned, self.pruned, self.b < 0, self.b >= 0, self.fossilised]
        op = np.eye(len(SPACE.lead.choices) + 1)[self.last][:, :-1]  # −1: none
        columns = [np.full(self.count, self.time / LENGTH)[:, None], shown, np.stack(stages, axis=1)]
        success = (self.last > WAIT)[:, None]
        return Observations(np.concatenate([*columns, success, op], axis=1).astype(np.float64), self._none)

    def _masks(self) -> Mapping[str, Any]:
        op = np.zeros((self.count, len(SPACE.lead.choices)), dtype=bool)
        slot = np.zeros((self.count, len(SPACE.lead.choices), 2), dtype=bool)
        op[:, WAIT] = True
        slot[:, :, 0] = True
        move = _MOVES.get(self.time)
        if move is not None:
            op[:, move[0]] = (self.time == 0) | (self.a >= 0)
            if move[0] == FOSSILIZE:
                op[:, FOSSILIZE] &= self.b >= 0
            slot[:, move[0], 0], slot[:, move[0], 1] = move[1] == 0, move[1] == 1
        return {"op": op, "slot": slot}

    def state(self) -> dict[str, Any]:
        names = ("need", "a", "b", "pruned", "fossilised", "last")
        told = {name: getattr(self, name).copy() for name in names}
        return {**told, "time": np.array([self.time]), "random": random_state(self._rng)}

    def restore(self, state: Mapping[str, Any]) -> tuple[Observations, Mapping[str, Any]]:
        for name in ("need", "a", "b", "pruned", "fossilised", "last"):
            setattr(self, name, np.array(state[name]))
        self.time, self._rng = int(state["time"][0]), random_from(state["random"])
        return self._seen(), self._masks()

    def close(self) -> None:
        pass


def scaffold(*, count: int) -> Scaffold:
    """The world `scaffold`."""
    return Scaffold(count)


scaffold.family = "recurrent"  # type: ignore[attr-defined]  # what practises in it, if nobody says otherwise
