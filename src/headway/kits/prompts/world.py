"""The prompts world: episodes of up to five mutations on a prompt, many at once.

    world = PromptsWorld(64, examples("train", 700, seed=7), encoder("hashing"), judge)
    observations, _ = world.reset(seed=7)                                  # [copy, width]: embeddings, never a label
    observations, rewards, terminated, truncated, info = world.step(actions)
    world.action_masks()                                                   # [copy, 5]: applicable mutations

An episode starts with a prompt of the set. Each step applies one mutation to the present text; the judge returns the
reward and whether the prompt is solved. It terminates when the prompt is solved, after five mutations, or when no
mutation would change the text; it is never truncated. A masked mutation changes nothing and costs what the judge says.
Copies reset in the same step, as Gymnasium 1.x calls it.

It has the shape of gymnasium's VectorEnv without needing the package.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from enum import Enum
from functools import lru_cache
from random import Random
from types import SimpleNamespace
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from headway.kits.prompts.kinds import MUTATIONS
from headway.kits.prompts.mutations import allowed, mutate
from headway.nouns import Encoder, Floats, Situation, errors

MOST_STEPS = 5
_REMEMBERED = 1 << 15  # embeddings: 32 MB at width 256


class Subject(Protocol):
    """Anything with the text of a prompt."""

    @property
    def text(self) -> str: ...


S = TypeVar("S", bound=Subject)
S_contra = TypeVar("S_contra", bound=Subject, contravariant=True)


class Judge(Protocol[S_contra]):
    """Judges a step: rewards [row], and whether the prompt is solved [row]."""

    def judge(
        self,
        subjects: Sequence[S_contra],
        kinds: NDArray[np.int64],
        texts: Sequence[str],
        changed: NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> tuple[Floats, NDArray[np.bool_]]: ...


class Autoreset(Enum):
    SAME_STEP = "SameStep"


class Box(NamedTuple):
    """Like gymnasium.spaces.Box, with the fields that a learner uses."""

    low: float
    high: float
    shape: tuple[int, ...]
    dtype: Any


class Discrete(NamedTuple):
    n: int
    start: int = 0


@lru_cache(1 << 16)
def after(text: str, kind: int) -> str:
    """The text after a mutation; the text itself seeds the choice of wording."""
    return mutate(text, MUTATIONS[kind], Random(zlib.crc32(text.encode()) + kind)).text


@lru_cache(1 << 16)
def may(text: str) -> tuple[bool, ...]:
    return allowed(text)


class PromptsWorld(Generic[S]):
    """`count` episodes side by side."""

    def __init__(
        self,
        count: int,
        subjects: Sequence[S],
        encoder: Encoder,
        judge: Judge[S],
        *,
        most_steps: int = MOST_STEPS,
    ) -> None:
        if not subjects or count < 1 or not 1 <= most_steps <= MOST_STEPS:
            raise errors.InvalidInput(
                f"{len(subjects)} prompts, {count} copies, {most_steps} steps: one of these is invalid.",
                code="bad_world",
                hint=f"Give at least one prompt and one copy, and 1 to {MOST_STEPS} steps.",
            )
        self.num_envs = count
        self.single_observation_space = Box(-1.0, 1.0, (encoder.width,), np.dtype(np.float32))
        self.single_action_space = Discrete(len(MUTATIONS))
        self.metadata: dict[str, Any] = {"autoreset_mode": Autoreset.SAME_STEP, "render_modes": []}
        self.action_names = MUTATIONS
        self.spec = SimpleNamespace(id="prompts", max_episode_steps=most_steps)
        bounds = getattr(judge, "returns", None)  # of an episode of MOST_STEPS, or fewer, mutations
        if bounds is not None:
            self.returns: tuple[float, float] = bounds
        self._subjects, self._encoder, self._judge, self._most = list(subjects), encoder, judge, most_steps
        self._rng = np.random.default_rng(0)
        self._at = np.zeros(count, dtype=np.int64)
        self._steps = np.zeros(count, dtype=np.int64)
        self._texts = [""] * count
        self._known: dict[str, NDArray[Any]] = {}

    def reset(self, *, seed: int | None = None) -> tuple[NDArray[Any], dict[str, Any]]:
        if seed is not None:
            self._rng = np.random.default_rng([seed, 0x9204])
        for place in range(self.num_envs):
            self._begin(place)
        return self._seen(self._texts), {}

    def step(
        self, actions: Any
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        kinds = np.asarray(actions, dtype=np.int64).reshape(self.num_envs)
        before = self._texts
        texts = [after(text, int(kind)) for text, kind in zip(before, kinds, strict=True)]
        changed = np.array([one != other for one, other in zip(before, texts, strict=True)], dtype=np.bool_)
        rewards, solved = self._judge.judge([self._subjects[at] for at in self._at], kinds, texts, changed, self._rng)
        self._steps += 1
        self._texts = texts
        over = solved | (self._steps >= self._most) | np.array([not any(may(text)) for text in texts])
        cut = np.zeros(self.num_envs, dtype=np.bool_)
        ended = np.flatnonzero(over)
        if not len(ended):
            return self._seen(texts), rewards, over, cut, {}
        last = list(texts)
        for place in ended.tolist():
            self._begin(place)
        both = self._seen([*self._texts, *(last[place] for place in ended)])
        final = np.zeros_like(both[: self.num_envs])
        final[ended] = both[self.num_envs :]
        return both[: self.num_envs], rewards, over, cut, {"final_obs": final, "_final_obs": over, "solved": solved}

    def action_masks(self) -> NDArray[np.bool_]:
        """[copy, mutation]; if none would change the text (only before a first step), all are allowed."""
        masks = np.array([may(text) for text in self._texts], dtype=np.bool_)
        masks[~masks.any(axis=1)] = True
        return masks

    def situations(self) -> list[Situation]:
        """What a decision about each copy's prompt would be asked with."""
        return [Situation(task="", text=text) for text in self._texts]

    def close(self) -> None:
        """Nothing to close."""

    def _begin(self, place: int) -> None:
        self._at[place] = self._rng.integers(len(self._subjects))
        self._steps[place] = 0
        self._texts = list(self._texts)
        self._texts[place] = self._subjects[self._at[place]].text

    def _seen(self, texts: Sequence[str]) -> NDArray[Any]:
        """[text, width]; recent texts are cached."""
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new:
            if len(self._known) + len(new) > _REMEMBERED:
                self._known.clear()
                new = list(dict.fromkeys(texts))
            self._known.update(zip(new, self._encoder.encode(new).astype(np.float32), strict=True))
        return np.stack([self._known[text] for text in texts])
