"""The world `sim`: episodes in which problems are solved by choosing solvers, prompts and checks, many at once.

    world = SimWorld(64, subjects, table, statements, HashingEncoder(256))
    observations, _ = world.reset(seed=7)                # [copy, width]: statement and history, never a label
    observations, rewards, terminated, truncated, info = world.step(actions)
    world.action_masks()                                 # [copy, action]

An episode is one problem. A solver writes a draft; `verify` runs the newest draft on the visible tests; `retry` asks
the same solver again and, after a failed check, tells it what failed; a mutation changes the prompt, `decompose` splits
the problem, both for later drafts. `stop` hands in the newest draft: it earns 1 if the hidden tests pass. Every action
has a price. After MOST_STEPS actions the newest draft is handed in.

The policy sees the statement and what happened so far. It never sees family, difficulty, traits or hidden tests, and
`verify` is the only thing that says how a draft did. What a draft comes to was found out by running it (outcomes.py).

`unfamiliar` is the share of episodes whose statement is mixed with noise, for practice only: a policy that meets them
learns to rely on checks where the words tell it nothing.

It has the shape of gymnasium's VectorEnv without needing the package.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.encode import Features
from headway.kits.prompts import MUTATIONS, Autoreset, Box, Discrete
from headway.kits.simulator import ACTIONS, SOLVERS
from headway.kits.simulator.outcomes import OutcomeTable
from headway.kits.simulator.solvers import SCRIPTED, Subjects, drafts
from headway.nouns import Encoder, Situation, errors

__all__ = ["ACTIONS", "MOST_STEPS", "PRICES", "SimWorld", "features_of", "position"]

MOST_STEPS = 8
MUTATION_PRICE, VERIFY_PRICE, RETRY_PRICE, DECOMPOSE_PRICE = 0.015, 0.01, 0.01, 0.03
PRICES = np.array(
    [
        *(solver.price for solver in SCRIPTED.values()),
        *[MUTATION_PRICE] * len(MUTATIONS),
        VERIFY_PRICE,
        RETRY_PRICE,  # and the solver's price
        DECOMPOSE_PRICE,
        0.0,
    ]
)
_FIRST_MUTATION = len(SOLVERS)
_VERIFY, _RETRY, _DECOMPOSE, _STOP = (ACTIONS.index(name) for name in ("verify", "retry", "decompose", "stop"))
# What a policy sees, beside the statement: numbers, and two categories.
_NUMBERS = (
    "steps",
    "spent",
    *(f"failed_{name}" for name in SOLVERS),
    *(f"with_{name}" for name in MUTATIONS),
    "decomposed",
)
_SCALES = (4.0, 0.25, *[1.0] * (len(_NUMBERS) - 2))
_CHECKED = ("unchecked", "passed", "failed")
_OWN = 0.5  # the weight of a statement's embedding in an episode with unfamiliar words
_CATEGORIES = (("draft", SOLVERS), ("check", _CHECKED))


def position(action: str) -> int:
    """The number of an action."""
    return ACTIONS.index(action)


def features_of(encoder: Encoder) -> Features:
    """How a situation of the world becomes a vector."""
    return Features(
        encoder=encoder.version,
        text_width=encoder.width,
        numbers=_NUMBERS,
        categories=_CATEGORIES,
        means=(6.0, *[0.0] * len(_NUMBERS)),
        scales=(1.0, *_SCALES),
    )


class SimWorld:
    """`count` episodes side by side."""

    def __init__(
        self,
        count: int,
        subjects: Subjects,
        table: OutcomeTable,
        statements: Sequence[str],
        encoder: Encoder,
        *,
        unfamiliar: float = 0.0,
    ) -> None:
        if count < 1 or not len(statements):
            raise errors.InvalidInput(
                f"{count} copies of {len(statements)} problems cannot be played.",
                code="bad_world",
                hint="Give at least one copy and one problem.",
            )
        self.num_envs = count
        self.features = features_of(encoder)
        self.single_observation_space = Box(
            -Features.LIMIT, Features.LIMIT, (self.features.width - 1,), np.dtype(np.float32)
        )
        self.single_action_space = Discrete(len(ACTIONS))
        self.metadata: dict[str, Any] = {"autoreset_mode": Autoreset.SAME_STEP, "render_modes": []}
        self.action_names = ACTIONS
        self.spec = SimpleNamespace(id="sim", max_episode_steps=MOST_STEPS)
        self.returns = (-MOST_STEPS * float(PRICES.max() + RETRY_PRICE), 1.0)
        self.subjects, self.table, self.statements = subjects, table, list(statements)
        texts = self.features.vectors([Situation(task="", text=text) for text in self.statements], encoder)
        self._texts = texts[:, 1 : 2 + encoder.width].astype(np.float32)  # [problem, embedding and length]
        self._unfamiliar = unfamiliar
        self._noise = np.zeros((count, encoder.width))  # of the embedding, in episodes with unfamiliar words
        self._own = np.ones(count)  # the weight of the embedding beside its noise
        self._rng = np.random.default_rng(0)
        self.at = np.zeros(count, dtype=np.int64)
        self.draws = np.zeros(count, dtype=np.uint64)
        self._clear(np.arange(count), begin=True)

    # -- episodes

    def reset(self, *, seed: int | None = None) -> tuple[NDArray[Any], dict[str, Any]]:
        if seed is not None:
            self._rng = np.random.default_rng([seed, 0x51A])
        self._begin(np.arange(self.num_envs))
        return self._seen(), {}

    def start(self, at: NDArray[np.int64], draws: NDArray[np.uint64]) -> NDArray[Any]:
        """Begin these problems with these numbers of attempts, instead of random ones."""
        self.at, self.draws = at.astype(np.int64).copy(), draws.astype(np.uint64).copy()
        self._clear(np.arange(self.num_envs))
        return self._seen()

    def step(
        self, actions: Any
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        chosen = np.asarray(actions, dtype=np.int64).reshape(self.num_envs)
        allowed = self.action_masks()[np.arange(self.num_envs), chosen]
        cost = PRICES[chosen] + np.where((chosen == _RETRY) & (self.arm >= 0), PRICES[np.maximum(self.arm, 0)], 0.0)
        self._write(np.flatnonzero(allowed & ((chosen < _FIRST_MUTATION) | (chosen == _RETRY))), chosen)
        self._check(np.flatnonzero(allowed & (chosen == _VERIFY)))
        mutating = np.flatnonzero(allowed & (chosen >= _FIRST_MUTATION) & (chosen < _VERIFY))
        self.prompts[mutating] |= 1 << (chosen[mutating] - _FIRST_MUTATION)
        self.split[np.flatnonzero(chosen == _DECOMPOSE)] = 1
        self.steps += 1
        self.spent += cost
        over = (chosen == _STOP) | (self.steps >= MOST_STEPS)
        solved = over & (self.draft >= 0) & self.table.hidden[self.at, np.maximum(self.draft, 0)]
        rewards = solved - cost
        info: dict[str, Any] = {"metrics": {"solved": solved.astype(np.float64), "cost": cost}}
        ended = np.flatnonzero(over)
        cut = np.zeros(self.num_envs, dtype=np.bool_)
        if not len(ended):
            return self._seen(), rewards, over, cut, info
        final = self._seen()
        self._begin(ended)
        info |= {"final_obs": final, "_final_obs": over, "solved": solved}
        return self._seen(), rewards, over, cut, info

    def action_masks(self) -> NDArray[np.bool_]:
        """[copy, action]: what would change something."""
        masks = np.ones((self.num_envs, len(ACTIONS)), dtype=np.bool_)
        for kind in range(len(MUTATIONS)):
            masks[:, _FIRST_MUTATION + kind] = (self.prompts >> kind & 1) == 0
        masks[:, _VERIFY] = (self.draft >= 0) & (self.check == 0)
        masks[:, _RETRY] = self.draft >= 0
        masks[:, _DECOMPOSE] = self.split == 0
        return masks

    def situations(self) -> list[Situation]:
        """What a decision about each copy would be asked with."""
        numbers = self._numbers()
        rows = []
        for place in range(self.num_envs):
            state: dict[str, Any] = dict(zip(_NUMBERS, numbers[place].tolist(), strict=True))
            if self.arm[place] >= 0:
                state["draft"] = SOLVERS[self.arm[place]]
                state["check"] = _CHECKED[self.check[place]]
            rows.append(Situation(task="", text=self.statements[self.at[place]], state=state))
        return rows

    def close(self) -> None:
        """Nothing to close."""

    # -- inside

    def _write(self, places: NDArray[np.intp], chosen: NDArray[np.int64]) -> None:
        """Drafts of the copies at these places."""
        again = chosen[places] == _RETRY
        arm = np.where(again, self.arm[places], np.minimum(chosen[places], _FIRST_MUTATION - 1))
        told = (again & (self.check[places] == 2)).astype(np.int64)
        self.draws[places] += np.uint64(1)
        self.draft[places] = drafts(
            self.subjects, self.at[places], arm, self.prompts[places], self.split[places], told, self.draws[places]
        )
        self.arm[places], self.check[places] = arm, 0

    def _check(self, places: NDArray[np.intp]) -> None:
        passed = self.table.visible[self.at[places], self.draft[places]]
        self.check[places] = np.where(passed, 1, 2)
        self.failed[places, self.arm[places]] += ~passed

    def _begin(self, places: NDArray[np.intp]) -> None:
        self.at[places] = self._rng.integers(len(self.statements), size=len(places))
        self.draws[places] = self._rng.integers(1 << 62, size=len(places)).astype(np.uint64)
        if self._unfamiliar:
            self._disguise(places)
        self._clear(places)

    def _disguise(self, places: NDArray[np.intp]) -> None:
        """Mix the statements of some episodes with noise, so that they read like those of a family never met."""
        noise = self._rng.standard_normal((len(places), self._noise.shape[1]))
        noise *= (1.0 - _OWN**2) ** 0.5 / np.linalg.norm(noise, axis=1, keepdims=True)
        chosen = self._rng.random(len(places)) < self._unfamiliar
        self._noise[places] = np.where(chosen[:, None], noise, 0.0)
        self._own[places] = np.where(chosen, _OWN, 1.0)

    def _clear(self, places: NDArray[np.intp], *, begin: bool = False) -> None:
        if begin:
            self.steps, self.prompts, self.split, self.arm, self.draft, self.check = (
                np.zeros(self.num_envs, dtype=np.int64) for _ in range(6)
            )
            self.spent = np.zeros(self.num_envs)
            self.failed = np.zeros((self.num_envs, len(SOLVERS)), dtype=np.int64)
        for values in (self.steps, self.spent, self.prompts, self.split, self.check, self.failed):
            values[places] = 0
        self.arm[places] = self.draft[places] = -1

    def _numbers(self) -> NDArray[np.float64]:
        """[copy, number], in the order of _NUMBERS."""
        bits = self.prompts[:, None] >> np.arange(len(MUTATIONS)) & 1
        return np.column_stack([self.steps, self.spent, self.failed, bits, self.split]).astype(np.float64)

    def _seen(self) -> NDArray[Any]:
        """The vectors of `features`, without the leading constant."""
        numbers = np.rint(self._numbers() / (Features.GRID * np.array(_SCALES))) * Features.GRID
        texts = self._texts[self.at]
        if self._unfamiliar:
            width = self._noise.shape[1]
            texts[:, :width] = (
                np.rint((texts[:, :width] * self._own[:, None] + self._noise) / Features.GRID) * Features.GRID
            )
        marks = np.zeros((self.num_envs, len(SOLVERS) + len(_CHECKED) + 2))
        drafted = np.flatnonzero(self.arm >= 0)
        marks[drafted, self.arm[drafted]] = 1.0
        marks[drafted, len(SOLVERS) + 1 + self.check[drafted]] = 1.0
        return np.concatenate([texts, numbers, marks], axis=1).astype(np.float32)
