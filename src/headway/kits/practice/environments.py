"""Gymnasium environments as worlds: many copies stepped together in this process.

    envs = environment("cartpole", count=16)       # a short name, a registered id, or "module:Id-v0"
    observations, _ = envs.reset(seed=7)
    observations, rewards, terminated, truncated, info = envs.step(actions)

An environment with a native vector form (`vector_entry_point`) uses it. `Together` steps others one after another; its
loop costs about a microsecond per copy. If an environment is wrapped only in Gymnasium's bookkeeping (order checks, the
time limit), that is done here and the bare environment is stepped.

`metadata["autoreset_mode"]` defines the result of an episode's last step, as in Gymnasium 1.x. `Together` resets in the
same step: observations are the next episode's first ones, and `info["final_obs"]` holds the final observations where
`info["_final_obs"]` is true.

Not covered: environments in other processes; observations other than boxes and whole numbers; actions other than
Discrete, MultiDiscrete and Box.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headway.nouns import Catalogue, errors

ENVIRONMENTS: Mapping[str, str] = MappingProxyType(
    {"cartpole": "CartPole-v1", "acrobot": "Acrobot-v1", "lunarlander": "LunarLander-v3"}
)
# Between which the return of an episode lies, where the rules of the world say so.
_RETURNS: Mapping[str, tuple[float, float]] = MappingProxyType(
    {"CartPole-v1": (0.0, 500.0), "CartPole-v0": (0.0, 200.0), "Acrobot-v1": (-500.0, 0.0)}
)
_BOOKKEEPING = {"PassiveEnvChecker", "OrderEnforcing", "TimeLimit"}


class Environments(Protocol):
    """The interface of a rollout: gymnasium's VectorEnv, or anything with this shape.

    Optional: `action_masks() -> bool [copy, action]`, the allowed actions; `action_names`, the names of the choices;
    `rest(place)`: stop stepping that copy until the next `reset`; it returns zeros;
    `features`, if an observation is the vector of a situation by these `encode.state.Features`, without the leading
    constant: the policy can then decide on situations.

    For proofs: `returns = (low, high)`, between which the return of an episode lies; `situations()`, a Situation per
    copy, if decisions of the task are asked with more than the observation; `info["metrics"]`, name → [copy], values of
    a step that guards may name.
    """

    num_envs: int
    single_observation_space: Any
    single_action_space: Any
    metadata: dict[str, Any]

    def reset(self, *, seed: int | None = None) -> tuple[NDArray[Any], dict[str, Any]]: ...

    def step(
        self, actions: Any, /
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]: ...

    def close(self) -> None: ...


def _gymnasium() -> Any:
    try:
        import gymnasium
    except ModuleNotFoundError:
        raise errors.MissingExtra("A Gymnasium world", "gymnasium", "worlds") from None
    return gymnasium


def identify(name: str, folder: Path | None = None) -> str:
    """The Gymnasium id of a world; an unknown name is refused with the nearest known one.

    The module of "module:Id-v0" is imported, from `folder` if it exists there, else from Python's path.
    """
    gymnasium = _gymnasium()
    wanted = ENVIRONMENTS.get(name, name)
    module, colon, own = wanted.rpartition(":")
    try:
        if colon:
            _import(module, folder)
        gymnasium.spec(own)
    except (gymnasium.error.Error, ImportError, ValueError) as error:
        known = [*ENVIRONMENTS, *gymnasium.registry]
        raise errors.UnknownName(
            f"There is no world called {name!r} ({_short(error)}).",
            code="unknown_world",
            hint=f"{errors.did_you_mean(name, known)} For your own world, use 'module:Id-v0'.",
        ) from error
    return wanted


def copies(catalogue: Catalogue, name: str, *, count: int, **settings: Any) -> Environments:
    """`count` copies of a world: one that a kit provides, or any Gymnasium environment."""
    path = catalogue.all("worlds").get(name)
    if path is None:
        return environment(name, count=count, **settings)
    world: Environments = catalogue.load(path)(count=count, **settings)
    return world


def cartpole(*, count: int, **settings: Any) -> Environments:
    return environment("cartpole", count=count, **settings)


def acrobot(*, count: int, **settings: Any) -> Environments:
    return environment("acrobot", count=count, **settings)


def lunarlander(*, count: int, **settings: Any) -> Environments:
    return environment("lunarlander", count=count, **settings)


def environment(name: str, *, count: int, native: bool = True, **settings: Any) -> Environments:
    """`count` copies of a world; without `native` its vector form is not used: `Together` resets in the same step."""
    gymnasium = _gymnasium()
    wanted = identify(name).rpartition(":")[2]
    spec = gymnasium.spec(wanted)
    try:
        if spec.vector_entry_point is not None and not settings and native:
            envs = gymnasium.make_vec(wanted, num_envs=count, vectorization_mode="vector_entry_point")
        else:
            made = [gymnasium.make(wanted, disable_env_checker=True, **settings) for _ in range(count)]
            envs = Together([_flat(copy) for copy in made])
    except gymnasium.error.DependencyNotInstalled as error:
        raise errors.MissingExtra(f"The world {name!r}", _missing(error), "worlds") from error
    except (TypeError, gymnasium.error.Error) as error:
        raise errors.InvalidInput(
            f"The world {name!r} cannot be made: {_short(error)}.", code="bad_world", hint="Check its settings."
        ) from error
    if wanted in _RETURNS and not settings:
        envs.returns = _RETURNS[wanted]
    copies_: Environments = envs
    return copies_


class Together:
    """Copies of an environment, stepped one after another in this process; a finished one is reset in the same step."""

    def __init__(self, copies: list[Any]) -> None:
        from gymnasium.vector import AutoresetMode

        self.num_envs = len(copies)
        self.single_observation_space = copies[0].observation_space
        self.single_action_space = copies[0].action_space
        self.metadata = {**copies[0].metadata, "autoreset_mode": AutoresetMode.SAME_STEP}
        self.action_names = getattr(copies[0].unwrapped, "action_names", None)
        self._whole = copies
        self._most, self._bare = _unwrapped(copies)
        self._awake = list(enumerate(self._bare))
        self._steps = [0] * len(copies)
        space = self.single_observation_space
        self._shape, self._dtype = space.shape, space.dtype
        self._masks = all(hasattr(copy.unwrapped, "action_masks") for copy in copies)
        if self._masks:
            self.action_masks = self._action_masks

    def reset(self, *, seed: int | None = None) -> tuple[NDArray[Any], dict[str, Any]]:
        observations = np.empty((self.num_envs, *self._shape), dtype=self._dtype)
        self._awake = list(enumerate(self._bare))
        for place, copy in enumerate(self._whole):
            observations[place], _ = copy.reset(seed=None if seed is None else seed + place)
            self._steps[place] = 0
        return observations, {}

    def rest(self, place: int) -> None:
        self._awake = [copy for copy in self._awake if copy[0] != place]

    def step(
        self, actions: Any
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        count, most = self.num_envs, self._most
        observations = np.zeros((count, *self._shape), dtype=self._dtype)
        rewards = [0.0] * count
        terminated = [False] * count
        truncated = [False] * count
        final: NDArray[Any] | None = None
        ended: NDArray[np.bool_] | None = None
        # A list of plain numbers where actions are whole numbers: environments index with them.
        given = actions.tolist() if actions.dtype.kind in "iu" and actions.ndim == 1 else actions
        for place, copy in self._awake:
            observation, rewards[place], over, cut, _ = copy.step(given[place])
            if most:
                self._steps[place] += 1
                cut = cut or self._steps[place] >= most
            if over or cut:
                terminated[place], truncated[place] = bool(over), bool(cut) and not over
                if final is None or ended is None:
                    final, ended = np.zeros_like(observations), np.zeros(count, dtype=np.bool_)
                final[place], ended[place] = observation, True
                observation, _ = self._whole[place].reset()
                self._steps[place] = 0
            observations[place] = observation
        info = {} if final is None else {"final_obs": final, "_final_obs": ended}
        return observations, np.array(rewards, dtype=np.float64), np.array(terminated), np.array(truncated), info

    def _action_masks(self) -> NDArray[np.bool_]:
        return np.array([copy.unwrapped.action_masks() for copy in self._whole], dtype=np.bool_)

    def close(self) -> None:
        for copy in self._whole:
            copy.close()


def _flat(copy: Any) -> Any:
    """Observations of several parts (Dict) as one row of numbers, the parts in the order of their names."""
    from gymnasium.spaces import Dict
    from gymnasium.wrappers import FlattenObservation

    return FlattenObservation(copy) if isinstance(copy.observation_space, Dict) else copy


def _unwrapped(copies: list[Any]) -> tuple[int, list[Any]]:
    """(the time limit to apply here, the environments to step): the bare ones if only bookkeeping wraps them."""
    spec, inner, names = copies[0].spec, copies[0], set()
    while inner is not inner.unwrapped:
        names.add(type(inner).__name__)
        inner = inner.env
    if spec is None or not names <= _BOOKKEEPING:
        return 0, copies
    return int(spec.max_episode_steps or 0), [copy.unwrapped for copy in copies]


def _import(module: str, folder: Path | None) -> None:
    """Import a module for its registrations; its own error is part of the message."""
    places = [] if folder is None else [str(folder.resolve())]
    sys.path[:0] = places
    try:
        importlib.invalidate_caches()
        importlib.import_module(module)
    except (ImportError, ValueError):
        raise
    except Exception as error:
        raise errors.InvalidInput(
            f"The module {module!r} cannot be imported: {type(error).__name__}: {_short(error)}.",
            code="bad_world",
            hint=f"`python -c 'import {module}'` shows the whole error.",
        ) from error
    finally:
        for place in places:
            sys.path.remove(place)


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200].rstrip(".")


def _missing(error: Exception) -> str:
    text = str(error).lower()
    return next((name for name in ("box2d", "pygame", "mujoco", "jax") if name in text), "gymnasium")
