"""The seams between rooms. Whoever fits one of these can be injected by `project`; nobody inherits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from headway.nouns.records import Candidate, Settled, Situation

if TYPE_CHECKING:  # numpy is not a noun: it is named in types and never imported here
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
else:
    Floats = Any

__all__ = [
    "Cache",
    "Clock",
    "Encoder",
    "Experience",
    "Floats",
    "Learned",
    "Learner",
    "ManyPolicy",
    "Opinion",
    "Opinions",
    "Policy",
    "Progress",
]

Clock = Callable[[], float]
Progress = Callable[[str, int, int | None], None]  # what, done, of how many


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a policy thinks of a situation: a probability per candidate, aligned with them."""

    probabilities: Floats  # [candidate]; sums to 1
    confidence: float = 1.0  # in its first choice; below the task's floor the fallback decides
    memory: object = None  # recurrent policies: what to pass in at the next step
    mean: Floats | None = None  # predicted reward per candidate, where the family predicts one
    std: Floats | None = None


class Policy(Protocol):
    """Decides. Immutable once built; safe to call from several threads."""

    @property
    def family(self) -> str: ...

    def distribution(
        self, situation: Situation, candidates: Sequence[Candidate], *, memory: object = None, seed: int = 0
    ) -> Opinion: ...


@dataclass(frozen=True, slots=True)
class Opinions:
    """The opinions on many situations with the same candidates: row i is bit for bit the single `Opinion` on i."""

    probabilities: Floats  # [row, candidate]
    confidence: Floats | None = None  # [row]; None: it was not asked for
    mean: Floats | None = None  # [row, candidate]
    std: Floats | None = None


class ManyPolicy(Policy, Protocol):
    """A policy that can also be asked about many situations at once. Optional: others are asked one by one."""

    def opinions(
        self,
        situations: Sequence[Situation],
        candidates: Sequence[Candidate],
        seeds: Sequence[int],
        *,
        confidence: bool = True,
        std: bool = False,
    ) -> Opinions: ...


class Encoder(Protocol):
    """Turns text into a vector. `version` names everything that the numbers depend on."""

    @property
    def version(self) -> str: ...

    @property
    def width(self) -> int: ...

    def encode(self, texts: Sequence[str]) -> Floats: ...  # [text, width]


class Cache(Protocol):
    """Keeps vectors by key; losing one costs time, never correctness."""

    def get(self, key: bytes) -> Floats | None: ...

    def put(self, key: bytes, vector: Floats) -> None: ...


class Experience(Protocol):
    """Settled decisions of one task, streamed as often as asked, always in the same order."""

    def __iter__(self) -> Iterator[Settled]: ...

    def __len__(self) -> int: ...

    def part(self, name: str) -> Iterable[Settled]: ...  # "train" or "tune"; learners never see "prove"


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What a learner gives back: tensors and JSON that rebuild the policy bit for bit, and how it went."""

    family: str
    tensors: Mapping[str, Any]  # name → numpy array
    knobs: Mapping[str, Any]
    metrics: Mapping[str, float]
    baselines: Mapping[str, float]
    trained_on: Mapping[str, Any]
    extra: Mapping[str, Any] = field(default_factory=dict)


class Learner(Protocol):
    """Learns from experience. Pure: the same experience, knobs and seed give the same result."""

    def learn(
        self, experience: Experience, knobs: Mapping[str, Any], seed: int, progress: Progress | None = None
    ) -> Learned: ...
