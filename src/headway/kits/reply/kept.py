"""Replies as they are stored: in the details of the decision that chose who answers.

    for row, reply in kept(project, "reply"): ...           # rated replies, with their reward, oldest first
    kept_reply(project, "dec_…")                            # one of them

The text and the turns are redacted like every stored text. Tokens would spell out what was redacted, so a reply whose
text or prompt had to be redacted has none, and neither has one of an upstream (`foreign`): at most, its text is an
example.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import IO, TYPE_CHECKING, Any

import msgspec

from headway.kits.models import Completion, Turn
from headway.nouns import Decision, Detail, ReplyText, Settled, errors, is_own
from headway.observe import Database, Query

if TYPE_CHECKING:
    from headway.project import Project


KIT_NAME = "reply"
REPLY, COMMENTS, EXAMPLES = "reply", "comments", "examples"  # the names of the details
_TURNS = "turns"
_MOST_TURNS = 900_000  # bytes of one detail; a longer conversation loses its oldest turns here
_MOST_PROMPT_TOKENS = 50_000
_PAGE = 100  # rows whose replies are in memory at once


class Comment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What somebody wrote about a reply: the better text (`edit`), or what is wrong with it (`critique`)."""

    kind: str
    text: str
    rater: str = ""
    at: float = 0.0


class KeptReply(msgspec.Struct, frozen=True, kw_only=True):
    """One reply with everything that learning needs."""

    text: str
    turns: tuple[Turn, ...] = ()  # the conversation that it answers, with the system's turn
    prompt_tokens: tuple[int, ...] = ()
    tokens: tuple[int, ...] = ()  # all sampled tokens, including the one that ended the reply
    logprob_model: tuple[float, ...] = ()  # of the untempered model; empty: not scored yet
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int = 0
    max_tokens: int = 0
    stop: tuple[str, ...] = ()
    finish: str = "stop"  # or "length"
    base: str = ""  # the hash of the base model's weights
    adapter: str = ""  # the content hash of the adapter's bundle; "": the base alone
    template: str = ""  # the hash of the chat template
    model: str = ""  # the name of the base, or of the upstream
    dropped_turns: int = 0  # oldest first, to fit the model's window
    latency_s: float = 0.0
    foreign: bool = False  # another program's text: at most a positive example
    redacted: bool = False  # a secret was removed, and the tokens with it
    role: str = ""
    comments: tuple[Comment, ...] = ()
    examples: tuple[str, ...] = ()  # decisions whose liked replies were in the prompt: its tokens spell them

    @property
    def exact(self) -> bool:
        """Whether its tokens are known, so that it can be learned from by its probability."""
        return bool(self.tokens) and not self.foreign

    @property
    def edits(self) -> tuple[Comment, ...]:
        """Better texts: the last one of each rater."""
        return self._last("edit")

    @property
    def critiques(self) -> tuple[Comment, ...]:
        return self._last("critique")

    def _last(self, kind: str) -> tuple[Comment, ...]:
        by_rater = {comment.rater: comment for comment in self.comments if comment.kind == kind}
        return tuple(comment for comment in by_rater.values() if comment.text)

    @classmethod
    def of(cls, completion: Completion, turns: Sequence[Turn], **more: object) -> KeptReply:
        """A completion as it is stored, before redaction."""
        fields = {
            name: getattr(completion, name)
            for name in ("text", "prompt_tokens", "tokens", "logprob_model", "temperature", "top_p", "seed")
        }
        fields |= {"finish": completion.finish, "dropped_turns": completion.dropped_turns, "model": completion.model}
        return msgspec.convert({**fields, "turns": tuple(turns), **more}, cls)


def redacted(reply: KeptReply, redact: Callable[[str], str]) -> KeptReply:
    """The reply without secrets; if there was one, also without the tokens that spell it."""
    text = redact(reply.text)
    turns = tuple(Turn(turn.role, redact(turn.content)) for turn in reply.turns)
    comments = tuple(msgspec.structs.replace(one, text=redact(one.text)) for one in reply.comments)
    stop = tuple(map(redact, reply.stop))
    clean = msgspec.structs.replace(reply, text=text, turns=turns, comments=comments, stop=stop)
    if text == reply.text and turns == reply.turns:
        return clean
    return msgspec.structs.replace(clean, prompt_tokens=(), tokens=(), logprob_model=(), redacted=True)


def supported_edits(reply: KeptReply, trusted: Collection[str]) -> KeptReply:
    """The reply with the edits that the project itself, a trusted key or two keys with the same words have written."""
    same = Counter(edit.text for edit in reply.edits)
    edits = tuple(edit for edit in reply.edits if is_own(edit.rater) or edit.rater in trusted or same[edit.text] > 1)
    others = tuple(comment for comment in reply.comments if comment.kind != "edit")
    return msgspec.structs.replace(reply, comments=(*others, *edits))


# -- details


def to_details(reply: KeptReply) -> tuple[Detail, ...]:
    """The details to store with the decision."""
    fields = msgspec.structs.asdict(reply)
    turns, comments, examples = (fields.pop(name) for name in ("turns", "comments", "examples"))
    if len(reply.prompt_tokens) > _MOST_PROMPT_TOKENS:
        fields["prompt_tokens"] = ()  # the turns say the same
    details = [
        Detail(KIT_NAME, REPLY, msgspec.json.encode(fields)),
        Detail(KIT_NAME, _TURNS, msgspec.json.encode(_fitting(turns))),
    ]
    if comments:
        details.append(comments_detail(comments))
    if examples:
        details.append(Detail(KIT_NAME, EXAMPLES, msgspec.json.encode(examples)))
    return tuple(details)


def comments_detail(comments: Sequence[Comment]) -> Detail:
    return Detail(KIT_NAME, COMMENTS, msgspec.json.encode(list(comments)))


def comments_of(data: bytes | None) -> list[Comment]:
    """What `comments_detail` stored."""
    return [] if data is None else msgspec.json.decode(data, type=list[Comment])


def _fitting(turns: Sequence[Turn]) -> list[Turn]:
    """The newest turns that one detail can hold."""
    fitting: list[Turn] = []
    size = 0
    for turn in reversed(turns):
        size += len(msgspec.json.encode(turn))
        if size > _MOST_TURNS:
            break
        fitting.append(turn)
    return fitting[::-1]


def from_details(details: dict[str, bytes], decision: str = "") -> KeptReply | None:
    """The reply that `to_details` stored; None if the decision has none."""
    if REPLY not in details:
        return None
    try:
        reply = msgspec.json.decode(details[REPLY], type=KeptReply)
        turns = msgspec.json.decode(details.get(_TURNS, b"[]"), type=tuple[Turn, ...])
        comments = msgspec.json.decode(details.get(COMMENTS, b"[]"), type=tuple[Comment, ...])
        examples = msgspec.json.decode(details.get(EXAMPLES, b"[]"), type=tuple[str, ...])
    except msgspec.MsgspecError as error:
        raise errors.Damaged(
            f"The reply of {decision or 'a decision'} cannot be read: {error}.",
            code="reply_damaged",
            hint="Restore the store from a backup, or delete this decision.",
        ) from error
    return msgspec.structs.replace(reply, turns=turns, comments=comments, examples=examples)


# -- reading them back


def kept_reply(project: Project, decision: str) -> KeptReply:
    """The reply of one decision."""
    project.query.decision(decision)  # raises if there is none
    reply = from_details(project.query.details(decision, KIT_NAME), decision)
    if reply is None:
        raise errors.UnknownName(
            f"The decision {decision!r} has no reply.",
            code="unknown_reply",
            hint="`headway data log` lists the latest decisions.",
        )
    return reply


def explain(project: Project, decision: Decision) -> dict[str, ReplyText]:
    """What this kit adds to an explanation: the answer that it or the proxy kept."""
    data = project.query.details(decision.id, KIT_NAME).get(REPLY)
    try:
        return {} if data is None else {"reply": msgspec.json.decode(data, type=ReplyText)}
    except msgspec.DecodeError:  # not JSON, or without a text: another program's detail
        return {}


def kept(project: Project, task: str, *, unrated: bool = False) -> Iterator[tuple[Settled, KeptReply]]:
    """The replies of a task that are rated or edited, with their outcome, in the order in which it became known.

    `unrated` adds the others at the end; their outcome is pending. Edited replies without a rating are pending too.
    """
    rated = set()
    for row, reply in with_replies(project, project.query.settled(task, signals=True, raters=True)):
        if row.reward is not None:
            rated.add(row.decision.id)
            yield row, reply
    others = (
        Settled(seq=0, decision=decision, reward=None, status="pending")
        for decision in project.query.decisions(task)
        if decision.id not in rated
    )
    yield from (pair for pair in with_replies(project, others) if unrated or pair[1].edits)


def with_replies(project: Project, rows: Iterable[Settled]) -> Iterator[tuple[Settled, KeptReply]]:
    """Rows with their replies, read a page at a time; rows without one are left out."""
    remaining = iter(rows)
    while page := list(islice(remaining, _PAGE)):
        details = project.query.details_of([row.decision.id for row in page], KIT_NAME)
        for row in page:
            reply = from_details(details.get(row.decision.id, {}), row.decision.id)
            if reply is not None:
                yield row, reply


def writer(file: IO[str], database: Database, left_out: Counter[str]) -> Callable[[Sequence[dict[str, Any]]], None]:
    """A function that writes pages of exported records as interactions."""

    query = Query(database)

    def write(page: Sequence[dict[str, Any]]) -> None:
        for record in page:
            reply = from_details(query.details(record["id"], KIT_NAME), record["id"])
            if reply is None:
                left_out["no reply"] += 1
                continue
            asked = next((turn.content for turn in reversed(reply.turns) if turn.role == "user"), record["text"])
            row = {"timestamp": record["at"], "prompt": asked, "response": reply.text, "reward": record["reward"]}
            file.write(f"{json.dumps(row, ensure_ascii=False)}\n")

    return write
