"""The identity world: logged decisions in which the situation names the best arm."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from headway.nouns import Candidate, Decision, Settled, Situation

ARMS = ("blue", "green", "red")
CANDIDATES = tuple(Candidate(name) for name in ARMS)


def row(
    seq: int,
    situation: Situation,
    action: str,
    reward: float | None,
    *,
    candidates: tuple[Candidate, ...] = CANDIDATES,
    propensity: float | None = None,
) -> Settled:
    """One settled decision of a log that chose uniformly; without a reward it is censored."""
    share = 1.0 / len(candidates)
    decision = Decision(
        id=f"dec_{seq}",
        situation=situation,
        candidates=candidates,
        probabilities=(share,) * len(candidates),
        action=action,
        propensity=share if propensity is None else propensity,
        policy="uniform@0",
        policy_hash="",
        config_hash="",
        encoder="",
        exploration="",
        seed=seq,
        at=float(seq),
    )
    return Settled(seq=seq, decision=decision, reward=reward, status="rewarded" if reward is not None else "censored")


class MemoryLog:
    """An Experience in memory: the first four fifths are train, the rest is tune."""

    def __init__(self, rows: Sequence[Settled]) -> None:
        self.rows = list(rows)

    def __iter__(self) -> Iterator[Settled]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, name: str) -> Sequence[Settled]:
        assert name in ("train", "tune"), "a learner asked for rows that it must not see"
        cut = len(self.rows) * 4 // 5
        return self.rows[:cut] if name == "train" else self.rows[cut:]


def by_text(place: int, number: int) -> Situation:
    """The text names the best arm among other words."""
    return Situation(task="identity", text=f"paint item {number % 17} in {ARMS[place]} please")


def by_numbers(place: int, number: int) -> Situation:
    """The number at the index of the best arm is high; nothing else is known."""
    return Situation(
        task="identity", state={f"x{i}": float(i == place) + 0.01 * (number % 5) for i in range(len(ARMS))}
    )


def by_category(place: int, number: int) -> Situation:
    """A category names the best arm; a second, uninformative number is added."""
    return Situation(task="identity", state={"colour": ARMS[place], "noise": float(number % 3)})


WORLDS: dict[str, Callable[[int, int], Situation]] = {
    "text": by_text,
    "numbers": by_numbers,
    "category": by_category,
}


def identity(world: str, count: int, seed: int = 0) -> list[Settled]:
    """Uniformly logged rows: reward 1 for the arm that the situation names, else 0, with a little noise."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        place, arm = int(rng.integers(len(ARMS))), int(rng.integers(len(ARMS)))
        reward = float(place == arm) + float(rng.normal()) * 0.05
        rows.append(row(number, WORLDS[world](place, number), ARMS[arm], reward))
    return rows


def world_contract(make: Callable[..., Any], *, count: int = 4, steps: int = 60, seed: int = 7) -> None:
    """`make(count=…)` gives copies with the shape of Gymnasium's VectorEnv.

    Checked: shapes and types of everything that `reset` and `step` give, masks that always leave an action, finite
    rewards, final observations of episodes, and that seed and actions alone determine the result.
    """
    first, second = make(count=count), make(count=count)
    try:
        assert first.num_envs == count, f"count={count} gives {first.num_envs} copies"
        one, other = _played(first, steps, seed), _played(second, steps, seed)
        for at, (here, there) in enumerate(zip(one, other, strict=True)):
            for mine, theirs in zip(here, there, strict=True):
                assert np.array_equal(mine, theirs), f"step {at}: the same seed and actions give something else"
        assert not np.array_equal(one[0][0], _played(first, 1, seed + 1)[0][0]), "the seed changes nothing"
    finally:
        first.close()
        second.close()
    returns = getattr(first, "returns", None)
    assert returns is None or -np.inf < returns[0] < returns[1] < np.inf, f"`returns` is {returns!r}, not (low, high)"
    alone = make(count=1)
    observations, _ = alone.reset(seed=seed)
    alone.close()
    assert len(observations) == 1, "one copy gives one observation"


def _played(envs: Any, steps: int, seed: int) -> list[tuple[Any, ...]]:
    """The results of random allowed actions: (observations, rewards, terminated, truncated) per step."""
    rng = np.random.default_rng(seed)
    observations, info = envs.reset(seed=seed)
    _is_observation(envs, observations)
    assert isinstance(info, dict), f"reset gives {type(info).__name__} as info"
    history: list[tuple[Any, ...]] = [(observations.copy(),)]
    same_step = _mode(envs) == "SameStep"
    for _ in range(steps):
        observations, rewards, terminated, truncated, info = envs.step(_actions(envs, rng))
        _is_observation(envs, observations)
        count = envs.num_envs
        assert np.shape(rewards) == (count,), f"rewards have the shape {np.shape(rewards)}, expected {(count,)}"
        assert np.isfinite(rewards).all(), f"a reward is not a finite number: {rewards}"
        for name, ended in (("terminated", terminated), ("truncated", truncated)):
            assert np.shape(ended) == (count,), f"{name} has the shape {np.shape(ended)}, expected {(count,)}"
            assert np.asarray(ended).dtype == np.bool_, f"{name} is {np.asarray(ended).dtype}, expected bool"
        over = terminated | truncated
        if same_step and over.any():
            final, said = info["final_obs"], info["_final_obs"]
            assert np.array_equal(said, over), "_final_obs is true where an episode ended, and nowhere else"
            assert np.shape(final[over][0]) == envs.single_observation_space.shape
        history.append((observations.copy(), np.array(rewards), np.array(terminated), np.array(truncated)))
    return history


def _is_observation(envs: Any, observations: Any) -> None:
    expected = (envs.num_envs, *envs.single_observation_space.shape)
    assert np.shape(observations) == expected, f"observations have the shape {np.shape(observations)}, not {expected}"
    assert np.isfinite(observations).all(), "an observation is not a finite number"


def _actions(envs: Any, rng: np.random.Generator) -> Any:
    """One allowed action per copy, drawn by our own generator."""
    space, count = envs.single_action_space, envs.num_envs
    if hasattr(space, "nvec"):
        return rng.integers(space.nvec, size=(count, len(space.nvec)))
    if not hasattr(space, "n"):
        return rng.uniform(space.low, space.high, size=(count, *space.shape)).astype(space.dtype)
    masks = envs.action_masks() if hasattr(envs, "action_masks") else np.ones((count, int(space.n)), dtype=np.bool_)
    assert masks.shape == (count, int(space.n)), f"masks have the shape {masks.shape}, expected {(count, int(space.n))}"
    assert masks.any(axis=1).all(), "a mask leaves no action"
    return np.array([rng.choice(np.flatnonzero(mask)) for mask in masks], dtype=np.int64) + int(space.start)


def _mode(envs: Any) -> str:
    """The autoreset mode, as Gymnasium 1.x names it."""
    mode = envs.metadata.get("autoreset_mode", "NextStep")
    return str(getattr(mode, "value", mode))
