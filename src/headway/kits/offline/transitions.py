"""Logged decisions as steps of episodes: situation, action, reward and next situation.

    log = gather(experience, "train", features, encoder, arms, gamma=0.99, most=200_000)
    log.x[log.next[i]]                   # the successor of row i; −1 if the episode was over

A row's successor is the next decision of its episode. A row without an episode is an episode of one. The last row of a
**terminated** episode has no future. The last row of a **truncated** or open episode has an unknown future, so with
`gamma` above 0 the row is omitted (and counted), while its situation is still the successor of the row before it. The
same holds for rows without a reward. With `gamma` 0 only the reward matters, and every row with a reward counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from headway.encode import Features, Tracker, uncached
from headway.kits.practice import LoggedRows
from headway.learn import RowCounts, blocks, nothing_to_learn
from headway.nouns import Encoder, Ending, Experience, Floats, Policy, Settled, errors

Singles = NDArray[np.float32]
Kind = TypeVar("Kind", bound=Policy)
_CHUNK = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Transitions:
    """Situations [row], and the actions and rewards of the `usable` ones."""

    x: Singles  # [row, width]: including rows that are only successors
    action: NDArray[np.int64]
    reward: Singles
    weight: Singles  # 1, or less if raters disagree
    propensity: Floats
    offered: NDArray[np.bool_]  # [row, arm]
    next: NDArray[np.int64]  # [row]; −1: nothing followed
    usable: NDArray[np.int64]  # rows to learn from
    left_out: int  # rows with a reward and an unknown future

    def __len__(self) -> int:
        return len(self.usable)


def _look(
    experience: Experience, add: Callable[[Any], None], most: int, counts: RowCounts
) -> tuple[list[str], float, float]:
    """One pass over the train part: `add` gets each situation; returns the arms, and mean and deviation of rewards."""
    names: set[str] = set()
    rewards: deque[float] = deque(maxlen=most)
    for block in blocks(experience, "train"):
        for batch in block.batches():
            if not np.isfinite(batch.reward).all():
                seq = int(batch.seq[~np.isfinite(batch.reward)][0])
                what = f"The reward of the decision in row {seq} is not finite."
                raise errors.InvalidInput(what, code="not_finite", hint="Rescore it.")
            for situation in batch.situations:
                add(situation)
            names.update(batch.actions)
            rewards.extend(batch.reward.tolist())
        counts.add(block.counts)
    if not names:
        raise nothing_to_learn()
    values = np.array(rewards)
    return sorted(names), float(values.mean()), float(values.std())


def gather(
    experience: Experience,
    part: str,
    features: Features,
    encoder: Encoder | None,
    arms: Sequence[str],
    *,
    gamma: float,
    most: int,
) -> Transitions:
    """The newest `most` rows of a part: without a future, of those with a reward, by columns."""
    index = {name: place for place, name in enumerate(arms)}
    if gamma == 0.0:
        return _alone(experience, part, features, encoder, index, most)
    rows = list(deque(experience.part(part), maxlen=most))
    masks: dict[tuple[str, ...], NDArray[np.bool_]] = {}
    names = [tuple([candidate.name for candidate in row.decision.candidates]) for row in rows]
    offered = _offered(names, index, masks)
    after, known = _successors(rows, _endings(experience))
    paid = np.array([row.reward is not None and row.decision.action in index for row in rows], dtype=np.bool_)
    usable = paid & known
    return Transitions(
        x=_vectors(rows, features, encoder),
        action=np.array([index.get(row.decision.action, 0) for row in rows], dtype=np.int64),
        reward=np.array([row.reward or 0.0 for row in rows], dtype=np.float32),
        weight=np.array([row.weight for row in rows], dtype=np.float32),
        propensity=np.array([row.decision.propensity for row in rows], dtype=np.float64),
        offered=offered,
        next=after,
        usable=np.flatnonzero(usable),
        left_out=int((paid & ~known).sum()),
    )


def _alone(
    experience: Experience, part: str, features: Features, encoder: Encoder | None, index: Mapping[str, int], most: int
) -> Transitions:
    """Rows that nothing follows, in the order of the store."""
    masks: dict[tuple[str, ...], NDArray[np.bool_]] = {}
    kept: list[tuple[NDArray[Any], ...]] = []
    left = sum(block.rewarded for block in blocks(experience, part))  # of records it is not known: none are skipped
    for block in blocks(experience, part):
        left -= block.rewarded
        for batch in block.batches() if left < most else ():
            x, places = features.vectors(batch.situations, encoder), [index.get(name, -1) for name in batch.actions]
            paid = batch.reward.astype(np.float32), batch.weight.astype(np.float32), batch.propensity
            row = x.astype(np.float32), np.array(places, dtype=np.int64), *paid, _offered(batch.offered, index, masks)
            kept.append(row)
    none = np.empty(0)
    empty = np.empty((0, features.width)), none, none, none, none, np.empty((0, len(index)))
    columns = [np.concatenate(column)[-most:] for column in zip(*(kept or [empty]), strict=True)]
    kept.clear()
    x, action, reward, weight, propensity, offered = columns
    return Transitions(
        x=x.astype(np.float32, copy=False),
        action=np.maximum(action, 0).astype(np.int64),
        reward=reward.astype(np.float32, copy=False),
        weight=weight.astype(np.float32, copy=False),
        propensity=propensity,
        offered=offered.astype(np.bool_, copy=False),
        next=np.full(len(x), -1, dtype=np.int64),
        usable=np.flatnonzero(action >= 0),
        left_out=0,
    )


def _offered(
    names: Sequence[tuple[str, ...]], index: Mapping[str, int], masks: dict[tuple[str, ...], NDArray[np.bool_]]
) -> NDArray[np.bool_]:
    """[row, arm]; which arms were candidates."""
    offered = np.zeros((len(names), len(index)), dtype=np.bool_)
    for place, own in enumerate(names):
        if own not in masks:
            masks[own] = np.array([arm in own for arm in index], dtype=np.bool_)
        offered[place] = masks[own]
    return offered


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerLog:
    """What a learner reads: the rows of both parts, and what they look like."""

    train: Transitions
    tune: Transitions
    arms: list[str]
    features: Features
    mean: float  # of the rewards of the train part
    spread: float
    counts: RowCounts  # of rows by source and status

    @property
    def rows(self) -> float:
        return float(len(self.train) + len(self.tune))

    def trained_on(self) -> dict[str, Any]:
        return self.counts | {"train": len(self.train), "tune": len(self.tune)}

    def extra(self) -> dict[str, Any]:
        return {"arms": self.arms, "features": self.features.to_json()}


def resumed(resume: Policy | None, kind: type[Kind]) -> Kind | None:
    """The policy to continue from; one of another family is refused."""
    if resume is None or isinstance(resume, kind):
        return resume
    raise errors.InvalidInput(
        f"A {resume.family!r} policy cannot be resumed here.",
        code="not_resumable",
        hint=f"Resume a policy of the family {kind.family}, or omit the resume option.",
    )


def read_log(
    experience: Experience,
    encoder: Encoder | None,
    *,
    most: int,
    gamma: float = 0.0,
    check: Callable[[Features], None] | None = None,
    before: tuple[Features, Sequence[str]] | None = None,
) -> LearnerLog:
    """Read the train and the tune part, the newest `most` rows of each.

    `before`: the features and arms of a policy to continue from; new arms are appended. `check` may refuse
    the features before any row is encoded.
    """
    encoder = uncached(encoder)
    counts = RowCounts()
    tracker = Tracker()
    arms, mean, spread = _look(experience, tracker.add, most, counts)
    features = tracker.features(encoder) if before is None else before[0]
    if before is not None:
        arms = [*before[1], *(name for name in arms if name not in before[1])]
    if check is not None:
        check(features)
    for block in blocks(experience, "tune"):
        if not block.rewarded:  # of records: not read yet
            deque(block.batches(), maxlen=0)
        counts.add(block.counts)
    train, tune = (
        gather(experience, part, features, encoder, arms, gamma=gamma, most=most) for part in ("train", "tune")
    )
    return LearnerLog(train=train, tune=tune, arms=arms, features=features, mean=mean, spread=spread, counts=counts)


def as_logged(log: Transitions) -> LoggedRows:
    """The usable rows, each on its own."""
    rows = log.usable
    return LoggedRows(
        x=log.x if len(rows) == len(log.x) else log.x[rows], action=log.action[rows],
        reward=log.reward[rows].astype(np.float64),
        propensity=log.propensity[rows], offered=log.offered[rows], weight=log.weight[rows].astype(np.float64),
    )  # fmt: skip


def _endings(experience: Experience) -> Mapping[str, Ending]:
    """How episodes ended, if the experience knows; an episode without an entry is still open."""
    ask = getattr(experience, "endings", None)
    return {} if ask is None else cast(Mapping[str, Ending], ask())


def _successors(rows: Sequence[Settled], endings: Mapping[str, Ending]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The next row of the same episode (−1: none), and whether its future is known."""
    after, known = np.full(len(rows), -1, dtype=np.int64), np.ones(len(rows), dtype=np.bool_)
    episodes: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        episode = row.decision.situation.episode
        if episode is not None:
            episodes.setdefault(episode, []).append(place)
    for episode, places in episodes.items():
        places.sort(key=lambda place: _order(rows[place]))
        for one, other in pairwise(places):
            steps = rows[one].decision.situation.step, rows[other].decision.situation.step
            if None not in steps and cast(int, steps[1]) != cast(int, steps[0]) + 1:
                known[one] = False  # a step between them is missing
            else:
                after[one] = other
        known[places[-1]] = endings.get(episode) == "terminated"
    return after, known


def _order(row: Settled) -> tuple[int, float, int]:
    step = row.decision.situation.step
    return (-1 if step is None else step, row.decision.at, row.seq)


def _vectors(rows: Iterable[Settled], features: Features, encoder: Encoder | None) -> Singles:
    situations = [row.decision.situation for row in rows]
    vectors = np.empty((len(situations), features.width), np.float32)
    for begin in range(0, len(situations), _CHUNK):
        vectors[begin : begin + _CHUNK] = features.vectors(situations[begin : begin + _CHUNK], encoder)
    return vectors
