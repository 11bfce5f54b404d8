"""The interfaces between rooms. `project` injects any object that fits; nothing inherits from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from headway.nouns.alarm import Alarm
from headway.nouns.records import Candidate, Settled, Situation, Value

if TYPE_CHECKING:  # numpy is used in types only and never imported here
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
else:
    Floats = Any

__all__ = [
    "Cache",
    "Clock",
    "Crew",
    "Encoder",
    "Experience",
    "Floats",
    "Learned",
    "Learner",
    "Opinion",
    "Opinions",
    "Policy",
    "Progress",
    "SampleRequest",
]

Clock = Callable[[], float]
Progress = Callable[[str, int, int | None], None]  # what, done, total


@dataclass(frozen=True, slots=True)
class Opinion:
    """One row of `Opinions`: a policy's view of one situation."""

    probabilities: Floats  # [candidate]; sums to 1
    confidence: float = 1.0  # in its first choice; below the task's floor the fallback decides
    mean: Floats | None = None  # predicted reward per candidate, if the family predicts one
    std: Floats | None = None


@dataclass(frozen=True, slots=True)
class Opinions:
    """A policy's view of many situations with the same candidates. Each row depends on its own situation only."""

    probabilities: Floats  # [row, candidate]; each row sums to 1
    confidence: Floats | None = None  # [row]; None if not requested
    mean: Floats | None = None  # [row, candidate]: predicted rewards, if the family predicts them
    std: Floats | None = None  # [row, candidate]; None if not requested, or the family has none

    def row(self, index: int) -> Opinion:
        """The opinion on one situation."""
        return Opinion(
            self.probabilities[index],
            1.0 if self.confidence is None else float(self.confidence[index]),
            None if self.mean is None else self.mean[index],
            None if self.std is None else self.std[index],
        )


class Policy(Protocol):
    """Decides. Immutable once built; safe to call from several threads.

    A family implements only `opinions`; `decide.acting` turns opinions into the probabilities to draw from. A single
    situation is a batch of one and gets the same bits as in any other batch.
    """

    @property
    def family(self) -> str: ...

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
    """Turns text into a vector. `version` identifies everything that the numbers depend on."""

    @property
    def version(self) -> str: ...

    @property
    def width(self) -> int: ...

    def encode(self, texts: Sequence[str]) -> Floats: ...  # [text, width]


class Cache(Protocol):
    """Keeps vectors by key; losing one costs time, never correctness."""

    def get(self, key: bytes) -> Floats | None: ...

    def put(self, key: bytes, vector: Floats) -> None: ...


class SampleRequest(Protocol):
    """One request of sample traffic, with the reward of each action."""

    @property
    def text(self) -> str: ...

    @property
    def state(self) -> Mapping[str, Value]: ...

    def outcome(self, action: str) -> float: ...


class Crew(Protocol):
    """Workers that run one function on many shards: processes of this machine, or more.

    `work` names a function, "module:function", that takes one shard. Its result depends on the shard alone, so that
    neither the number of workers nor one that dies changes anything: its shard is run again. Results come in the order
    of the shards. Ending the iteration cancels the rest.

    Workers end with each call of `map`, or, inside `held`, stay for several calls. There the shard of a number goes to
    the same worker each time, while that lives. What the worker has kept of an earlier shard may save it work, but must
    not change a result.
    """

    @property
    def workers(self) -> int: ...

    def map(
        self, work: str, shards: Sequence[Any], *, what: str = "", progress: Progress | None = None
    ) -> Iterator[Any]: ...

    def held(self) -> AbstractContextManager[Crew]: ...


class Teller(Protocol):
    """Whom the background loop tells about alarms. No method but `wait` may wait."""

    @property
    def longest_s(self) -> float:
        """The longest that one message takes."""
        ...

    def use(self, project: Any) -> None:
        """The project from now on: its settings have changed."""
        ...

    def add(self, alarm: Alarm) -> None:
        """Tell that an alarm has begun."""
        ...

    def check(self, task: str) -> None:
        """Tell which alarms of the task have ended since the last call."""
        ...

    def pump(self) -> None:
        """Send what waits."""
        ...

    def wait(self, timeout_s: float) -> bool:
        """Whether everything was sent, well or not, within this time."""
        ...


class Experience(Protocol):
    """Settled decisions of one task; each iteration gives the same order."""

    def __iter__(self) -> Iterator[Settled]: ...

    def __len__(self) -> int: ...

    def part(self, name: str) -> Iterable[Settled]: ...  # "train" or "tune"; learners never see "prove"


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """The result of a learner: tensors and JSON that rebuild the policy bit for bit, and metrics."""

    family: str
    tensors: Mapping[str, Any]  # name → numpy array
    knobs: Mapping[str, Any]
    metrics: Mapping[str, float]
    baselines: Mapping[str, float]
    trained_on: Mapping[str, Any]
    extra: Mapping[str, Any] = field(default_factory=dict)
    beside: Mapping[str, Learned] = field(default_factory=dict)  # baselines by name: stored, and never candidates


class Learner(Protocol):
    """Learns from experience. Pure: the same experience, knobs and seed give the same result."""

    def learn(
        self, experience: Experience, knobs: Mapping[str, Any], seed: int, progress: Progress | None = None
    ) -> Learned: ...
