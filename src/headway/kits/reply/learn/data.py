"""Rated replies as samples. A fifth of the prompts, chosen by a hash of what they ask, is always held out.

    samples = samples_of(rated, knobs)         # prompt and reply tokens, sign, weight
    parts = divided(samples)                   # what trains, and what only ever judges

Prompts that say nearly the same are one cluster, and a cluster is either trained on or held out. Which of the two is
decided by the cluster's own words, so that no later rating moves it.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

HELD_OUT = 0.2
_SHRINK = 10.0  # ratings of the middle that a user's mean is mixed with
_WORD = re.compile(r"[a-z0-9]+")
_COMMON = frozenset((
    "a", "an", "the", "of", "to", "in", "on", "at", "for", "and", "or", "is", "are", "was", "be", "it", "this",
    "that", "what", "which", "who", "how", "why", "when", "where", "do", "does", "did", "can", "could", "would",
    "should", "please", "me", "my", "i", "you", "your", "one", "sentence", "short", "answer", "tell", "give",
    "explain", "describe",
))  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedReply:
    """A kept reply with its consensus reward, as the trainer reads it."""

    id: str
    text: str  # the last turn of the user
    prompt: tuple[int, ...]
    reply: tuple[int, ...]
    logged: tuple[float, ...] = ()  # log-probabilities when it was written; empty: not known
    reward: float | None = None  # −1 to 1; None: not rated
    weight: float = 1.0  # below 1 if raters disagree
    rater: str = ""
    edited: tuple[int, ...] = ()  # what the reply should have been
    foreign: bool = False  # written by another model: at most a positive example
    flagged: bool = False  # by a safety detector: never a positive example
    at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One reply to learn from."""

    id: str
    cluster: str
    prompt: tuple[int, ...]
    reply: tuple[int, ...]
    logged: tuple[float, ...]
    reward: float
    desirable: bool
    weight: float
    edited: bool = False
    at: float = 0.0

    @property
    def liked(self) -> bool:
        """Whether its likelihood may be raised."""
        return self.desirable or self.edited

    def __len__(self) -> int:
        return len(self.prompt) + len(self.reply)


class DividedSamples(NamedTuple):
    """Samples to train on, and samples that only judge."""

    train: list[Sample]
    held_out: list[Sample]


def cluster_of(text: str) -> str:
    """A name for what a prompt asks: its telling words, without order. Texts that share them are one cluster."""
    words = [_stem(word) for word in _WORD.findall(text.lower()) if word not in _COMMON]
    return " ".join(sorted(set(words))) or " ".join(_WORD.findall(text.lower())) or text


def _stem(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def is_held_out(cluster: str) -> bool:
    """Whether a cluster only judges. It depends on nothing but the cluster's name."""
    digest = hashlib.blake2b(cluster.encode(), digest_size=8, person=b"headway-reply").digest()
    return int.from_bytes(digest, "big") / 2**64 < HELD_OUT


def divided(samples: Iterable[Sample]) -> DividedSamples:
    parts = DividedSamples([], [])
    for sample in samples:
        (parts.held_out if is_held_out(sample.cluster) else parts.train).append(sample)
    return parts


def graded(rated: Sequence[RatedReply], *, unrated: str = "skip", sequence: int = 1 << 20) -> list[Sample]:
    """Samples in a fixed order: a reply is desirable if its reward is above its user's mean, and weighs by how far.

    `unrated`: replies without a rating are skipped, or count as 0 ("zero"), or as 0 with a weight that halves every
    week ("decay"). An edit is a sample of its own, with the best reward. A reply of another model can only be a
    positive example, and a flagged one only a negative.
    """
    ordered = sorted(rated, key=lambda reply: (reply.at, reply.id))
    latest = max((reply.at for reply in ordered), default=0.0)
    means = _user_means(ordered)
    samples: list[Sample] = []
    for reply in ordered:
        samples.extend(_edit(reply))
        if not reply.reply:
            continue
        reward, weight = reply.reward, reply.weight
        if reply.flagged:
            reward = min(-0.5, -1.0 if reward is None else reward)
        elif reward is None:
            if unrated == "skip":
                continue
            reward, weight = 0.0, weight * _weight_unrated(unrated, latest - reply.at)
        distance = reward - means.get(reply.rater, 0.0)
        if distance == 0.0 or (reply.foreign and distance < 0.0):
            continue
        samples.append(
            Sample(
                id=reply.id, cluster=cluster_of(reply.text), prompt=reply.prompt, reply=reply.reply,
                logged=reply.logged, reward=reward, desirable=distance > 0.0 and not reply.flagged,
                weight=weight * abs(distance), at=reply.at,
            )
        )  # fmt: skip
    return _balanced([sample for sample in samples if len(sample) <= sequence])


def _weight_unrated(unrated: str, age_s: float) -> float:
    return 1.0 if unrated == "zero" else float(0.5 ** (age_s / 604_800.0))


def _edit(reply: RatedReply) -> list[Sample]:
    if not reply.edited or reply.flagged:
        return []
    return [
        Sample(
            id=f"{reply.id}/edit", cluster=cluster_of(reply.text), prompt=reply.prompt, reply=reply.edited, logged=(),
            reward=1.0, desirable=True, weight=reply.weight, edited=True, at=reply.at,
        )
    ]  # fmt: skip


def _user_means(rated: Iterable[RatedReply]) -> dict[str, float]:
    """The mean reward of each rater, shrunk to the middle of the scale."""
    rewards: dict[str, list[float]] = defaultdict(list)
    for reply in rated:
        if reply.reward is not None and not reply.flagged and not is_held_out(cluster_of(reply.text)):
            rewards[reply.rater].append(reply.reward)
    return {rater: sum(values) / (len(values) + _SHRINK) for rater, values in rewards.items()}


def _balanced(samples: list[Sample]) -> list[Sample]:
    """Weights whose mean is 1, with both signs as heavy as one another, by a factor of at most 3."""
    train = [sample for sample in samples if not is_held_out(sample.cluster)]
    heavy = {sign: sum(sample.weight for sample in train if sample.desirable is sign) for sign in (True, False)}
    if not sum(heavy.values()):
        return samples
    share = {
        sign: min(3.0, max(1.0 / 3.0, heavy[not sign] / heavy[sign])) ** 0.5 if heavy[sign] and heavy[not sign] else 1.0
        for sign in heavy
    }
    mean = sum(sample.weight * share[sample.desirable] for sample in train) / len(train)
    return [replace(sample, weight=min(4.0, sample.weight * share[sample.desirable] / mean)) for sample in samples]


def ordered(samples: Sequence[Sample], places: Sequence[int]) -> list[int]:
    """Places with clear and short cases first, in four levels; within a level the given order stays."""

    def ranks(values: Sequence[float]) -> dict[int, float]:
        order = sorted(values)
        below = [bisect_left(order, value) / max(1, len(places) - 1) for value in values]  # equal values share a rank
        return dict(zip(places, below, strict=True))

    doubt = ranks([-abs(samples[place].reward) for place in places])
    length = ranks([float(len(samples[place])) for place in places])
    level = {place: int(min(3.0, 2.0 * (doubt[place] + length[place]))) for place in places}
    return sorted(places, key=lambda place: level[place])
