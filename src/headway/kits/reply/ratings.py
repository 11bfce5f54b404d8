"""Ratings of replies: stars and thumbs as signals, edits and critiques as comments beside the reply.

rate(project, "dec_…", "4", rater="ann")          # stars; "+" and "-" are thumbs
comment(project, "dec_…", "edit", "It is 4.")     # what it should have said
withdraw(project, "dec_…", rater="ann")           # all of it, from one rater
erase(project, going)                             # copies of what `headway data delete` deletes
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Literal

import msgspec

from headway.files import read_regular
from headway.kits import models
from headway.kits.reply.duels import erase_duels
from headway.kits.reply.kept import (
    COMMENTS,
    EXAMPLES,
    KIT_NAME,
    REPLY,
    Comment,
    KeptReply,
    comments_detail,
    comments_of,
    kept_reply,
    with_replies,
)
from headway.kits.reply.settings import reply_settings
from headway.kits.reply.wire import base_of
from headway.nouns import Decision, Settled, errors, ids
from headway.observe import Erasing
from headway.project import Project

_STARS, _THUMB = "stars", "thumb"
_SIGNALS = {"edit": "edited", "critique": "critiqued"}


def rate(project: Project, decision: str, mark: str, *, rater: str = "") -> tuple[str, float]:
    """Store a mark: 1 to 5 are stars, + and - are thumbs; an earlier mark of this rater is replaced."""
    kept_reply(project, decision)
    mark = mark.strip()
    if mark in ("+", "-"):
        name, other, value = _THUMB, _STARS, 1.0 if mark == "+" else -1.0
    elif mark in ("1", "2", "3", "4", "5"):
        name, other, value = _STARS, _THUMB, float(mark)
    else:
        raise errors.InvalidInput(
            f"The rating is {mark[:40]!r}, expected 1 to 5, + or -.",
            code="bad_rating",
            hint="5 is best; + is good and - is bad.",
        )
    if other in _live(project, decision, rater):
        project.withdraw(decision, other, rater=rater)
    project.signal(decision, {name: value}, rater=rater)
    return name, value


def comment(project: Project, decision: str, kind: Literal["edit", "critique"], text: str, *, rater: str = "") -> None:
    """Store what the reply should have said, or what is wrong with it. The last one of a rater counts."""
    reply = kept_reply(project, decision)
    text = text.strip()
    if not text or len(text) > 100_000:
        raise errors.InvalidInput(
            f"The {kind} has {len(text):,} characters, expected 1 to 100,000.",
            code="bad_rating",
            hint="Write the text, or withdraw the rating.",
        )
    if kind == "edit" and not reply.foreign:
        _check_window(project, project.query.decision(decision), text)
    _add(project, decision, Comment(kind, project.redact(text), rater, project.clock()))
    project.signal(decision, {_SIGNALS[kind]: 1.0}, rater=rater)


def withdraw(project: Project, decision: str, *, rater: str = "") -> list[str]:
    """Withdraw everything that a rater said about a reply; the names of what was withdrawn."""
    kept_reply(project, decision)  # raises if there is none
    names = [name for name in _live(project, decision, rater) if name in (_STARS, _THUMB, *_SIGNALS.values())]
    for name in names:
        project.withdraw(decision, name, rater=rater)
    for kind, signal in _SIGNALS.items():
        if signal in names:
            _add(project, decision, Comment(kind, "", rater, project.clock()))
    return names


def _add(project: Project, decision: str, added: Comment) -> None:
    """Store a comment in place of the rater's earlier one of its kind: nobody fills the room of the others."""

    def with_it(data: bytes | None) -> bytes:
        others = [one for one in comments_of(data) if (one.rater, one.kind) != (added.rater, added.kind)]
        return comments_detail([*others, added]).data

    project.store.change_details(decision, KIT_NAME, COMMENTS, with_it)


def _live(project: Project, decision: str, rater: str) -> dict[str, float]:
    """The values of a rater that count now, by name."""
    live = project.query.signals(decision, live=True)
    return {signal.name: signal.value or 0.0 for signal in live if signal.rater == rater}


def rating_of(project: Project, decision: str) -> str:
    """The marks of a reply in words: "4 stars", "+", "edited"; empty if there are none."""
    values = project.query.values([ids.raw(decision)]).get(ids.raw(decision), {})
    words = []
    if _STARS in values:
        words.append(f"{values[_STARS]:g} {'star' if values[_STARS] == 1.0 else 'stars'}")
    if _THUMB in values:
        words.append("+" if values[_THUMB] > 0 else "-")
    return ", ".join([*words, *(name for name in _SIGNALS.values() if name in values)])


def history(project: Project, task: str, *, most: int = 20) -> Iterator[tuple[Decision, KeptReply, str]]:
    """The latest replies of a task, oldest first, with their marks."""
    for decision, reply in reversed(latest_replies(project, task, most)):
        yield decision, reply, rating_of(project, decision.id)


def latest_replies(project: Project, task: str, most: int) -> list[tuple[Decision, KeptReply]]:
    """The latest replies of a task, the newest first, among its latest decisions."""
    rows = (
        Settled(seq=0, decision=decision, reward=None, status="pending")
        for decision in project.query.latest(task, most * 5)
    )
    return [(row.decision, reply) for row, reply in islice(with_replies(project, rows), most)]


def _check_window(project: Project, decision: Decision, text: str) -> None:
    """An edit fits the model's window, or learning could not read it. Not checked where the model is not here."""
    try:
        from tokenizers import Tokenizer

        base = base_of(reply_settings(project.settings.task(decision.task)).base, project.folder)
        folder: Path = models.folder(base, project.settings.cache)
        window = int(json.loads(read_regular(folder / "config.json"))["max_position_embeddings"])
        count = len(Tokenizer.from_file(str(folder / "tokenizer.json")).encode(text, add_special_tokens=False).ids)
    except (errors.HeadwayError, ImportError, KeyError, TypeError, ValueError, OSError):
        return
    if count > window:
        raise errors.InvalidInput(
            f"The edit has {count:,} tokens, more than the model's window of {window:,}.",
            code="edit_too_long",
            hint="Shorten it.",
        )


def erase(project: Project, going: Erasing) -> int:
    """Delete the copies that no table of the store holds together; how many there were.

    | copy | goes with |
    |---|---|
    | a comparison that waits for its vote, or its file after it | its age, its rater, the decision of its question |
    | edits and critiques of a rater, in the details of a reply | the rater |
    | the tokens of a prompt that had liked replies as examples | the reply that was the example, its editor |

    Not covered: a comparison with a vote is a decision of its own, with the text of its question; it goes by its age
    or id.
    """
    changed = _comments(going)
    return erase_duels(project, going) + len(changed) + _prompts(going, set(changed))


def _comments(going: Erasing) -> list[str]:
    """The decisions that lose a comment of the rater, once for each."""
    rater, changed = going.wanted.rater, []
    if rater is None:
        return []
    for decision, data in going.details(KIT_NAME, COMMENTS):
        comments = comments_of(data)
        others = [one for one in comments if one.rater != rater]
        if len(others) < len(comments):
            going.put(decision, KIT_NAME, COMMENTS, comments_detail(others).data)
            changed += [decision] * (len(comments) - len(others))
    return changed


def _prompts(going: Erasing, changed: set[str]) -> int:
    """Replies whose prompt had an example that goes lose the tokens of the prompt; their turns remain."""
    count = 0
    for decision, data in going.details(KIT_NAME, EXAMPLES):
        examples = msgspec.json.decode(data, type=list[str])
        gone = going.of_ids(examples) | (changed & set(examples))
        reply = going.detail(decision, KIT_NAME, REPLY) if gone else None
        if reply is None:
            continue
        fields = {**msgspec.json.decode(reply), "prompt_tokens": [], "logprob_model": []}
        going.put(decision, KIT_NAME, REPLY, msgspec.json.encode(fields))
        going.put(decision, KIT_NAME, EXAMPLES, b"[]")
        count += 1
    return count
