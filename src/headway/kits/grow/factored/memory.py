"""What a policy remembers of an episode: a fold over the observations that are stored, one per step.

    memory = recall(project, pipeline, last, body["state"])      # after the latest stored decision

The latest memories are kept (LRU). One that is not kept, because the process is new or the episode old, is folded again
from the store and has the same bits: the server may be killed between any two steps. Every kept memory carries the id
of the decision that it belongs to, so that one whose decision was refused or deleted is never used.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np

from headway.kits.grow.factored.pipeline import FactoredPipeline
from headway.kits.grow.factored.space import FactoredPolicy, Observations
from headway.nouns import Decision, Floats, State, errors
from headway.project import Opened, Serving

OBSERVATION = "observation"  # the state variable with an observation's numbers
INDICES = "indices"  # the one with its indices
MOST = 4096  # episodes whose memory is kept
_PER_EPISODE = 2  # after the last stored step, and after one that is being stored


@dataclass(frozen=True, slots=True)
class KeptMemory:
    """The memory after one decision."""

    decision: str
    step: int
    memory: Floats  # [1, width]


class EpisodeMemories:
    """The memories of the episodes that were asked about last. Thread-safe."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._kept: OrderedDict[tuple[str, str], tuple[KeptMemory, ...]] = OrderedDict()
        self._lock = Lock()
        self.servings: dict[tuple[str, str, str], Serving] = {}  # of episodes that began under another policy

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, task: str, episode: str) -> tuple[KeptMemory, ...]:
        """The kept memories of an episode, latest step first."""
        with self._lock:
            kept = self._kept.get((task, episode), ())
            if kept:
                self._kept.move_to_end((task, episode))
            return kept

    def keep(self, task: str, episode: str, memory: KeptMemory) -> None:
        with self._lock:
            known = [kept for kept in self._kept.get((task, episode), ()) if kept.step < memory.step]
            self._kept[task, episode] = (memory, *known)[:_PER_EPISODE]
            self._kept.move_to_end((task, episode))
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)


def memories(project: Opened) -> EpisodeMemories:
    """What this process remembers of the project's episodes."""
    kept: EpisodeMemories | None = project.kept.get("grow")
    return project.kept.setdefault("grow", EpisodeMemories()) if kept is None else kept


def recall(project: Opened, pipeline: FactoredPipeline, last: Decision, names: Sequence[str]) -> Floats:
    """The memory after the decision `last`: kept, or folded again from what is stored."""
    task, episode = last.task, last.situation.episode
    assert episode is not None
    if not pipeline.policy.memory_width:
        return pipeline.start()
    kept = memories(project).of(task, episode)
    for one in kept:
        if one.decision == last.id:
            return one.memory
    memory, first = pipeline.start(), 0
    steps = project.query.steps(task, episode, first=kept[-1].step if kept else 0, before=_step(last) + 1)
    ids = {_step(step): step.id for step in steps}
    base = next((one for one in kept if ids.get(one.step) == one.decision), None)
    if base is not None:
        memory, first = base.memory, base.step + 1
        steps = [step for step in steps if _step(step) >= first]
    elif kept:
        steps = project.query.steps(task, episode, before=_step(last) + 1)
    memory = fold_memory(pipeline.policy, steps, memory, names, first=first)
    memories(project).keep(task, episode, KeptMemory(last.id, _step(last), memory))
    return memory


def fold_memory(
    policy: FactoredPolicy, steps: Sequence[Decision], memory: Floats, names: Sequence[str], *, first: int = 0
) -> Floats:
    """The memory after these decisions, one at a time as they were made; Conflict if a step is missing."""
    for place, decision in enumerate(steps, start=first):
        if decision.situation.step != place:
            raise errors.Conflict(
                f"Step {place} of the episode {decision.situation.episode!r} was deleted, and the policy's memory "
                "cannot be built without it.",
                code="episode_incomplete",
                hint="Start another episode.",
            )
        memory = policy.scores(observation_of(policy, decision.situation.state, names), memory).memory
    return memory


def observation_of(policy: FactoredPolicy, state: State, names: Sequence[str]) -> Observations:
    """What a policy sees of a state: the numbers of `observation`, or else of the variables `names` in their order.

    Whole numbers that the policy looks up are in `indices`.
    """
    if OBSERVATION in state or not names:
        numbers = _numbers(OBSERVATION, state.get(OBSERVATION, ()))
    else:
        numbers = [number for name in names if name != INDICES for number in _numbers(name, _given(state, name))]
    if len(numbers) != policy.features and policy.features:
        where = f"state.{OBSERVATION}" if OBSERVATION in state or not names else f"state ({', '.join(names)})"
        raise _bad(f"{where} has {len(numbers)} numbers, expected {policy.features}")
    indices = _numbers(INDICES, state.get(INDICES, ()))
    if len(indices) != len(policy.indices) and policy.indices:
        raise _bad(f"state.{INDICES} has {len(indices)} numbers, expected {len(policy.indices)}")
    for place, (index, size) in enumerate(zip(indices, policy.indices, strict=False)):
        if index != int(index) or not 0 <= index < size:
            raise _bad(f"state.{INDICES}[{place}] is {index:g}, expected a whole number from 0 to {size - 1}")
    return Observations(
        np.array([numbers[: policy.features]], dtype=np.float64).reshape(1, policy.features),
        np.array([indices[: len(policy.indices)]], dtype=np.int64).reshape(1, len(policy.indices)),
    )


def _given(state: State, name: str) -> Any:
    if name not in state:
        raise _bad(f"state.{name} is missing")
    return state[name]


def _numbers(name: str, value: Any) -> list[float]:
    if isinstance(value, str):
        raise _bad(f"state.{name} is text, expected numbers")
    return [float(number) for number in value] if isinstance(value, Sequence) else [float(value)]


def _bad(what: str) -> errors.InvalidInput:
    return errors.InvalidInput(
        f"{what}.", code="bad_observation", hint="The policy reads exactly what it saw when it practised."
    )


def _step(decision: Decision) -> int:
    assert decision.situation.step is not None, "a decision of an episode has a step"
    return decision.situation.step
