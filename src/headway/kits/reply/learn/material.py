"""What the learner reads: the kept replies of a task with their outcomes, and where the base is. Loads no torch."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from headway.kits import models
from headway.kits.models import Turn
from headway.kits.reply.kept import KeptReply, kept
from headway.kits.reply.learn.data import RatedReply, cluster_of, is_held_out
from headway.kits.reply.settings import reply_settings
from headway.kits.reply.wire import base_of
from headway.nouns import PolicyRef, Settled, errors, plural
from headway.reward import SAFETY_FLAG

if TYPE_CHECKING:
    from headway.project import Project
    from headway.settings import TaskSettings


_CHAMPIONS = 3
_OTHERS = 16  # liked replies of each other role
_LOOK_S, _LONGEST_WAIT_S = 0.2, 60.0  # constant traffic slows training down, and does not stop it
_COMPUTED = "headway"  # who gives signals that are computed


@dataclass(frozen=True, slots=True)
class Champion:
    """A policy that was current: its adapter, and the last row that it was trained on."""

    ref: str
    tensors: Mapping[str, Any]
    extra: Mapping[str, Any]
    upto: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedMaterial:
    """Kept replies in the order in which they were written, the folder of the base, and the last champions."""

    rows: Sequence[tuple[Settled, KeptReply]]
    base: str
    folder: Path
    champions: Sequence[Champion] = ()  # newest first; the first is current
    detect: Callable[[str], bool] | None = None  # the task's safety detectors
    others: Sequence[tuple[str, str]] = ()  # held-out questions of other roles, with the replies that were liked
    busy: Callable[[], bool] = lambda: False  # whether somebody chats now


def material(project: Project, settings: TaskSettings) -> RatedMaterial:
    """The material of a task, after the safety detectors have seen its replies and rewards were computed for them."""
    from headway.kits.reply.rewards import shape
    from headway.kits.reply.safety import detector_of

    own = reply_settings(settings)
    detect = detector_of(own.detectors, project.folder)
    flag_replies(project, settings.name, detect)
    shape(project, settings.name)
    base = own.base
    if base in project.settings.upstreams:
        raise errors.InvalidInput(
            f"The base of {settings.name!r} is {_elsewhere(base)}.",
            code="model_unsupported",
            hint="Name a local model as its base: headway models list",
        )
    rows = sorted(
        kept(project, settings.name, unrated=True), key=lambda pair: (pair[0].decision.at, pair[0].decision.id)
    )
    folder = models.folder(base_of(base, project.folder), project.settings.cache)
    return RatedMaterial(
        rows=rows,
        base=base,
        folder=folder,
        champions=_champions(project, settings.name),
        detect=detect,
        others=_other_roles(project, settings),
        busy=lambda: somebody_chats(project),
    )


def somebody_chats(project: Project) -> bool:
    """Whether the project's worker is writing a reply, or is asked for one."""
    from headway.kits.reply.client import LanguageWorker

    try:
        health = LanguageWorker(project.folder, "").health()
    except errors.Unavailable:
        return False
    return health.running + health.waiting > 0


def wait_while(busy: Callable[[], bool], tell: Callable[[], None] = lambda: None) -> float:
    """Wait between two updates while somebody chats, within a limit, and call `tell` meanwhile. Seconds waited."""
    began = time.monotonic()
    while busy() and time.monotonic() - began < _LONGEST_WAIT_S:
        tell()
        time.sleep(_LOOK_S)
    return time.monotonic() - began


def _other_roles(project: Project, settings: TaskSettings) -> list[tuple[str, str]]:
    """Liked replies of the other tasks on this base, to questions that never train."""
    found: list[tuple[str, str]] = []
    base = reply_settings(settings).base
    for other in project.settings.tasks.values():
        if other.kind == "reply" and other.name != settings.name and reply_settings(other).base == base:
            held = [
                pair for pair in kept(project, other.name) if is_held_out(cluster_of(pair[0].decision.situation.text))
            ]
            found += [(one.question, one.answer) for one in liked_replies(held)[-_OTHERS:]]
    return found


def flag_replies(project: Project, task: str, detect: Callable[[str], bool]) -> int:
    """Set `safety_flag` on replies that a detector flags and that have none yet; how many that were."""
    count = 0
    for row, reply in list(kept(project, task, unrated=True)):
        if SAFETY_FLAG not in row.signals and detect(reply.text):
            count += project.signal(row.decision.id, {SAFETY_FLAG: 1.0})
    if count:
        project.settle(task)
    return count


def _champions(project: Project, task: str) -> list[Champion]:
    """The policies that were promoted last, newest first, without the base."""
    champions: dict[str, Champion] = {}
    for entry in reversed(project.ledger.entries(task, "promote", "rollback")):
        if PolicyRef.parse(entry.policy).built_in:
            continue
        if entry.policy_hash not in champions and len(champions) < _CHAMPIONS:
            header, tensors = project.registry.load(entry.policy_hash, task=task)
            champions[entry.policy_hash] = Champion(
                entry.policy, tensors, header.extra, int(header.trained_on.get("upto", 0))
            )
    return list(champions.values())


def rated_reply(
    row: Settled, reply: KeptReply, *, prompt: tuple[int, ...], tokens: tuple[int, ...], edited: tuple[int, ...] = ()
) -> RatedReply:
    """The reply as the trainer reads it."""
    raters = [rater for rater in row.raters if rater != _COMPUTED]
    return RatedReply(
        id=row.decision.id,
        text=row.decision.situation.text,
        prompt=prompt,
        reply=tokens,
        logged=reply.logprob_model,
        reward=row.reward,
        weight=row.weight,
        rater=raters[0] if len(raters) == 1 else "",
        edited=edited,
        foreign=reply.foreign,
        flagged=row.signals.get(SAFETY_FLAG, 0.0) > 0.0,
        at=row.decision.at,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingReadiness:
    """Whether an adapter would be trained now, and what speaks against it."""

    task: str
    due: bool
    ratings: int  # that training may read
    good: int
    bad: int
    held_out: int
    reasons: tuple[str, ...]


def readiness(project: Project, task: str, *, least: int, least_of_sign: int) -> TrainingReadiness:
    """Counts ratings without loading a model."""
    project.settle(task)
    rewards, held_out = _trainable(kept(project, task))
    mean = sum(rewards) / (len(rewards) + 10.0)
    good, bad = sum(reward > mean for reward in rewards), sum(reward < mean for reward in rewards)
    base = reply_settings(project.settings.task(task)).base
    reasons = [f"The base is {_elsewhere(base)}"] if base in project.settings.upstreams else []
    if len(rewards) < least:
        reasons.append(f"{plural(len(rewards), 'rating')} can be trained on, {least} are needed")
    for word, count in (("good", good), ("bad", bad)):
        if count < least_of_sign:
            reasons.append(f"{count} of them {'is' if count == 1 else 'are'} {word}, {least_of_sign} are needed")
    missing = project.due(task)
    if missing and not reasons:
        reasons.append(f"{missing:,} more ratings until the loop trains again")
    return TrainingReadiness(
        task=task, due=not reasons, ratings=len(rewards), good=good, bad=bad, held_out=held_out, reasons=tuple(reasons)
    )


def _trainable(rows: Iterable[tuple[Settled, KeptReply]]) -> tuple[list[float], int]:
    """The rewards that training may read, and how many are held out."""
    rewards, held_out = [], 0
    for row, reply in rows:
        if row.reward is None or not (reply.exact or reply.text):
            continue
        if is_held_out(cluster_of(row.decision.situation.text)):
            held_out += 1
        else:
            rewards.append(row.reward)
    return rewards, held_out


def _elsewhere(base: str) -> str:
    return f"the upstream {base!r}, whose weights are not here to be trained"


def liked_replies(rows: Iterable[tuple[Settled, KeptReply]]) -> list[LikedReply]:
    """Good answers: edits, and replies with a good rating that no detector flagged."""
    liked = []
    for row, reply in rows:
        question = row.decision.situation.text
        if row.signals.get(SAFETY_FLAG, 0.0) > 0.0:
            continue
        if reply.edits:
            liked.append(LikedReply(question, reply.edits[-1].text, 1.0, row.decision.id))
        elif row.reward is not None and row.reward > 0.0 and reply.text.strip():
            liked.append(LikedReply(question, reply.text, row.reward, row.decision.id))
    return liked


_WORD = re.compile(r"\w+")
_LONGEST = 1_000  # characters of an example's answer


class LikedReply(NamedTuple):
    """A question, an answer that was liked, and how much."""

    question: str
    answer: str
    reward: float
    decision: str = ""  # where it was liked


def nearest(liked: Sequence[LikedReply], text: str, *, most: int = 2) -> list[LikedReply]:
    """The liked replies whose questions are nearest to a text; the nearest comes last.

    Nearness is the cosine of word counts, with the reward as a small advantage. An answer to the same question is not
    an example: it would be copied.
    """
    asked = _counts(text)
    ranked = sorted(
        ((_cosine(asked, _counts(one.question)) + 0.1 * one.reward, place) for place, one in enumerate(liked)
         if one.question.strip() != text.strip() and len(one.answer) <= _LONGEST),
        reverse=True,
    )[:most]  # fmt: skip
    return [liked[place] for _, place in reversed(ranked)]


def as_turns(chosen: Sequence[LikedReply]) -> tuple[Turn, ...]:
    pairs = ((Turn("user", one.question), Turn("assistant", one.answer)) for one in chosen)
    return tuple(turn for pair in pairs for turn in pair)


def _counts(text: str) -> Counter[str]:
    return Counter(_WORD.findall(text.lower()))


def _cosine(one: Counter[str], other: Counter[str]) -> float:
    shared = sum(count * other[word] for word, count in one.items())
    norm = sqrt(sum(count**2 for count in one.values()) * sum(count**2 for count in other.values()))
    return shared / norm if norm else 0.0
