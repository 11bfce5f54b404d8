"""Answer in a conversation: the task's policy writes the reply, and both are stored as one decision.

    reply = answer(project, "reply", [Turn("user", "What is 2+2?")], episode="chat-1")
    reply.id, reply.kept.text                    # rate it: project.signal(reply.id, stars=5)

    pending = prepare(project, "reply", turns)   # in steps, for streams: who answers, under which id
    keep(project, pending, completion)           # stored only when it is complete

A conversation (`episode`) is answered by one policy while the shares of policies stay as they are. A reply that fails
on the way is not stored.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from headway.kits.models import Completion, Delta, Generator, Prompt, Turn
from headway.kits.reply.client import LanguageWorker
from headway.kits.reply.duels import latest_rewards
from headway.kits.reply.kept import KeptReply, redacted, supported_edits, to_details, with_replies
from headway.kits.reply.learn.material import LikedReply, as_turns, liked_replies, nearest
from headway.kits.reply.settings import reply_settings
from headway.kits.reply.wire import base_of
from headway.nouns import OWNER, Decision, PolicyRef, Reader, errors
from headway.project import Considered, Details, Project
from headway.settings import TaskSettings

_START, _START_OF_SIGN = 10, 3  # ratings, and those of either sign, from which an adapter is trained
_MOST_READ = 200  # ratings that examples are taken from
_LONGEST_TEXT = 100_000  # characters of the last turn that are stored as the decision's text


class PendingReply(NamedTuple):
    """A reply that is being written: who writes it, under which id, from which prompt."""

    considered: Considered
    prompt: Prompt
    turns: tuple[Turn, ...]
    base: str  # the model's name, or an upstream's
    adapter: str  # the content hash of the adapter; "": the base alone
    foreign: bool
    started: float
    examples: tuple[str, ...] = ()  # decisions whose liked replies are in the prompt

    @property
    def id(self) -> str:
        return self.considered.decision.id


class AnsweredTurn(NamedTuple):
    """A stored reply."""

    decision: Decision
    kept: KeptReply

    @property
    def id(self) -> str:
        return self.decision.id


def prepare(
    project: Project,
    task: str,
    turns: Sequence[Turn],
    *,
    episode: str | None = None,
    max_tokens: int | None = None,
    temperature: float | None = None,
    top_p: float | None = None,
    stop: Sequence[str] = (),
    seed: int | None = None,
    reader: Reader = OWNER,
    role: str = "",
) -> PendingReply:
    """Choose who answers; nothing is stored yet. What is None comes from the task's settings."""
    from headway.kits.reply.safety import detector_of

    settings = project.settings.task(task)
    own = reply_settings(settings)
    if not turns or turns[-1].role != "user" or not turns[-1].content.strip():
        raise errors.InvalidInput("There is nothing to answer.", code="bad_prompt", hint="End with a turn of the user.")
    detector_of(own.detectors, project.folder, light=True)  # raises before anything is written
    if own.system and turns[0].role != "system":
        turns = (Turn("system", own.system), *turns)
    details: Details = {"episode": episode, "key": reader.key, "role": role}
    considered = project.consider(task, turns[-1].content[:_LONGEST_TEXT], None, **details)
    action = considered.decision.action
    adapter = "" if PolicyRef.parse(action).built_in else project.registry.find(action)
    foreign = own.base in project.settings.upstreams
    liked = [] if adapter or foreign else _examples(project, settings, turns[-1].content, reader)
    system = 1 if turns[0].role == "system" else 0
    prompt = Prompt(
        turns=(*turns[:system], *as_turns(liked), *turns[system:]),
        max_tokens=own.max_tokens if max_tokens is None else max_tokens,
        temperature=own.temperature if temperature is None else temperature,
        top_p=own.top_p if top_p is None else top_p,
        stop=tuple(stop),
        seed=secrets.randbits(31) if seed is None else seed,
    )
    started, shown = time.perf_counter(), tuple(one.decision for one in liked)
    base = base_of(own.base, project.folder)
    return PendingReply(considered, prompt, tuple(turns), base, adapter, foreign, started, shown)


def _examples(project: Project, task: TaskSettings, text: str, reader: Reader) -> list[LikedReply]:
    """Liked replies as examples before the conversation, while there are too few ratings to train an adapter.

    They are the reader's to see, and the owner or two keys stand behind them: what one key alone writes or likes
    reaches no prompt but its own.
    """
    latest = latest_rewards(project.database, project.query, task.name, _MOST_READ)
    good, bad = (sum(sign * reward > 0.0 for reward in latest.values()) for sign in (1, -1))
    if not latest or (len(latest) >= _START and min(good, bad) >= _START_OF_SIGN):
        return []
    from headway.reward import agreed

    trusted, rewards = {*task.trust_keys, reader.key}, project.rewards(task.name)
    pairs = []
    rows = project.query.outcomes(list(latest), signals=True, raters=True)
    for row, reply in with_replies(project, (row for row in rows if reader.may_read(row.decision.key))):
        supported = supported_edits(reply, trusted)
        if supported.edits or agreed(row, rewards, trusted):
            pairs.append((row, supported))
    return nearest(liked_replies(pairs), text)


def keep(project: Project, pending: PendingReply, completion: Completion) -> AnsweredTurn:
    """Store the finished reply and its decision, together."""
    from headway.kits.reply.safety import detector_of

    kept = KeptReply.of(
        completion,
        pending.turns,
        max_tokens=pending.prompt.max_tokens,
        stop=pending.prompt.stop,
        base=completion.base,
        template=completion.template,
        adapter=pending.adapter,
        latency_s=round(time.perf_counter() - pending.started, 3),
        foreign=pending.foreign,
        role=pending.considered.decision.situation.role,
        examples=pending.examples,
    )
    kept = redacted(kept, project.redact)
    considered = pending.considered._replace(details=to_details(kept))
    (stored,) = project.submit([considered]).result()
    names = reply_settings(project.settings.task(stored.task)).detectors
    if detector_of(names, project.folder, light=True)(completion.text):
        project.signal(stored.id, safety_flag=1.0, rater="headway")
    return AnsweredTurn(stored, kept)


@contextmanager
def generator_of(project: Project, pending: PendingReply) -> Iterator[Generator]:
    """What writes the reply: the worker, with the adapter, or the upstream."""
    if not pending.foreign:
        yield LanguageWorker(project.folder, pending.base, adapter=pending.adapter)
        return
    from headway.kits.reply.generators import open_generator

    with open_generator(project, pending.base, patient=False) as (generator, _):
        yield generator


def answer(
    project: Project,
    task: str,
    turns: Sequence[Turn],
    *,
    say: Callable[[str], None] | None = None,
    episode: str | None = None,
    seed: int | None = None,
) -> AnsweredTurn:
    """The stored reply to a conversation; `say` gets its text piece by piece."""
    project.settle(task)  # without a loop nobody else does, and what was liked a moment ago may be an example
    pending = prepare(project, task, turns, episode=episode, seed=seed)
    with generator_of(project, pending) as generator:
        if say is None or pending.foreign:
            (completion,) = generator.generate([pending.prompt])
            if say is not None:
                say(completion.text)
        else:
            completion = _said(generator.stream(pending.prompt), say)
    return keep(project, pending, completion)


def _said(deltas: Iterator[Delta], say: Callable[[str], None]) -> Completion:
    completion: Completion | None = None
    for delta in deltas:
        if delta.text:
            say(delta.text)
        completion = delta.completion or completion
    assert completion is not None, "a stream ends with its completion, or raises"
    return completion
