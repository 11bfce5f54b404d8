"""Blind comparisons over HTTP: two replies to a held-out question, whose order nobody can look up before the vote.

    asked = choose(project, "reply", None, None)               # whom to compare, and by which question
    duel = seal(project, asked, ("One reply", "The other"))    # the order is drawn; who gets the duel cannot see it
    vote(project, "reply", duel.id, 1.0, rater="ann")          # 1: left is better; 0: right; ½: neither

A comparison is a decision that is stored before the replies are shown: one without a vote counts (`votes.py`). Which
reply is on the left is drawn once more and waits in a file of `.headway/work/duels`, so that neither the log nor any
summary of it tells the order. A duel is voted on once, by whom it was made for; after a day the file is forgotten, and
the comparison stays unanswered. Deletions reach it (`erase`).
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import msgspec

from headway.files import read_regular
from headway.kits.models import Prompt
from headway.kits.reply.settings import question_prompt, reply_settings
from headway.nouns import OWNER, Decision, Reader, errors
from headway.observe import EVEN_PAIR, Database, Erasing, Query, decode_candidates
from headway.project import Project

PREFERRED = "preferred"
_KEPT_S = 24 * 3600.0
_MOST_OPEN = 500  # the oldest are forgotten first
_MOST_COUNTED = 500  # comparisons by which the next question is chosen
_NAME = re.compile(r"[0-9a-f]{32}\Z")


class DuelQuestion(NamedTuple):
    """Whom to compare, by which question, and how both are asked."""

    task: str
    candidate: str
    against: str
    question: str
    prompt: Prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class Duel:
    """Two replies to a held-out question. Which policy wrote which is answered after the vote."""

    wire_name = "DuelAnswer"
    id: str  # it says nothing about the order
    task: str
    candidate: str
    against: str
    question: str
    left: str
    right: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteTally:
    """The votes on two policies, and the e-value after each of them; the gate passes at `passes_at`."""

    wire_name = "VotesAnswer"
    task: str
    candidate: str
    against: str
    wins: int
    losses: int
    ties: int
    e_value: float
    passes_at: float
    votes: list[float]  # 1: the candidate was preferred; 0: the other policy; 0.5: neither
    e_values: list[float]


class VotedDuel(NamedTuple):
    """What a vote has disclosed."""

    decision: str
    left: str  # the policy that wrote the left reply
    right: str


def opponents(project: Project, task: str, policy: str | None, against: str | None) -> tuple[str, str]:
    """Whom to compare; UnknownName if there are no two."""
    from headway.kits.reply.comparison import two_policies

    if project.settings.task(task).kind != "reply":
        raise errors.UnknownName(
            f"{task!r} is not a reply task.", code="not_a_reply_task", hint="Compare its policies with headway compare."
        )
    return two_policies(project, task, policy, against)


def choose(
    project: Project,
    task: str,
    policy: str | None,
    against: str | None,
    *,
    tried: Collection[str] = (),
    reader: Reader = OWNER,
) -> DuelQuestion:
    """The held-out question that these two policies were compared by least often, but none of `tried`.

    It is one that the reader may read, or a general one.
    """
    from headway.kits.reply.comparison import digest, questions_of

    mine, theirs = opponents(project, task, policy, against)
    settings = reply_settings(project.settings.task(task))
    used = Counter(_compared(project, task, {mine, theirs}))
    questions = [text for text, _ in questions_of(project, task, reader)]
    free = [text for text in questions if text not in tried] or questions
    question = min(free, key=lambda text: used[digest(text)])
    prompt = question_prompt(settings, question, seed=secrets.randbits(31), max_tokens=settings.max_tokens)
    return DuelQuestion(task, mine, theirs, question, prompt)


def _compared(project: Project, task: str, pair: set[str]) -> Iterator[str]:
    """The questions of the newest comparisons of two policies, by digest."""
    from headway.kits.reply.comparison import QUESTION, digest

    newest = latest_even_pairs(project.database, project.query, task, _MOST_COUNTED)
    for row in project.query.outcomes(newest):
        if {candidate.name for candidate in row.decision.candidates} == pair:
            situation = row.decision.situation
            yield str(situation.state.get(QUESTION) or digest(situation.text))


def seal(project: Project, asked: DuelQuestion, replies: tuple[str, str], *, key: str = "") -> Duel:
    """Store the comparison, draw the order of the replies of the candidate and of the other policy, and put it away."""
    from headway.kits.reply.comparison import QUESTION, digest

    state = {QUESTION: digest(asked.question)}
    considered = project.consider(asked.task, "", (asked.candidate, asked.against), state=state, key=key)
    project.submit([considered]).result()
    order = secrets.randbelow(2)
    left, right = replies[order], replies[1 - order]
    situation = replace(considered.decision.situation, text=project.redact(asked.question))
    drawn = replace(considered.decision, situation=situation, action=(asked.candidate, asked.against)[order])
    folder = _folder(project)
    folder.mkdir(parents=True, exist_ok=True)
    _forget(project)
    name = secrets.token_hex(16)
    _write_new(folder / f"{name}.json", msgspec.json.encode(drawn))
    shown = {each: getattr(asked, each) for each in ("task", "candidate", "against", "question")}
    return Duel(id=name, **shown, left=left, right=right)


def vote(project: Project, task: str, duel: str, value: float, *, rater: str = "") -> VotedDuel:
    """Store the vote. The same vote again gives the same answer; another one is refused."""
    path = _folder(project) / f"{duel}.json"
    decision = _read(path) if _NAME.match(duel) else None
    if decision is None or decision.task != task or decision.key != rater:
        raise errors.UnknownName(
            "There is no such comparison to vote on.",
            code="unknown_duel",
            hint="Ask for a new one; a comparison is forgotten after a day.",
        )
    if project.servings.evenly(project.settings.task(task)).config_hash != decision.config_hash:
        raise errors.Conflict(
            "The configuration of the task has changed since the order was drawn.",
            code="stale_duel",
            hint="Ask for a new one.",
        )
    left, right = decision.action, next(each.name for each in decision.candidates if each.name != decision.action)
    claim = path.with_suffix(".voted")
    try:
        _write_new(claim, str(value).encode())
    except FileExistsError:
        if read_regular(claim).decode("ascii") != str(value):
            raise errors.Conflict(
                "This comparison has a vote already, and who wrote which reply is known since.",
                code="duel_voted",
                hint="Ask for a new one.",
            ) from None
    first = project.query.decision(decision.id).action
    project.signal(decision.id, {PREFERRED: value if first == left else 1.0 - value}, rater=rater)
    return VotedDuel(decision.id, left, right)


# -- files


def _folder(project: Project) -> Path:
    return project.home / "work" / "duels"


def _read(path: Path) -> Decision | None:
    """None: it is not there, or older than a day."""
    try:
        if path.stat().st_mtime < time.time() - _KEPT_S:
            return None
        return msgspec.json.decode(read_regular(path), type=Decision)
    except (OSError, msgspec.MsgspecError):
        return None


def _write_new(path: Path, body: bytes) -> None:
    """Only the owner may read it. FileExistsError if it is there."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(body)


def _forget(project: Project) -> None:
    """Remove what is older than a day, and the oldest of too many."""
    aged: list[tuple[float, Path]] = []
    for path in _folder(project).glob("*.json"):
        with suppress(FileNotFoundError):
            aged.append((path.stat().st_mtime, path))
    aged.sort(reverse=True)
    oldest = time.time() - _KEPT_S
    for place, (at, path) in enumerate(aged, start=1):
        if at < oldest or place >= _MOST_OPEN:
            _remove(path)


def erase_duels(project: Project, going: Erasing) -> int:
    """Remove the files that a deletion reaches, and all that are older than a day; how many it reaches."""
    if not going.dry_run:
        _forget(project)
    wanted = going.wanted
    found = [(path, read) for path in _folder(project).glob("*.json") if (read := _read(path)) is not None]
    if wanted.task is not None:
        found = [(path, read) for path, read in found if read.task == wanted.task]
    texts = going.of_texts([read.situation.text for _, read in found])
    ids = going.of_ids([read.id for _, read in found])
    reached = [path for path, read in found if _is_named(going, read) or read.situation.text in texts or read.id in ids]
    for path in reached if not going.dry_run else ():
        _remove(path)
    return len(reached)


def _is_named(going: Erasing, duel: Decision) -> bool:
    """Whether a deletion names a duel by its age, or by who asked for it."""
    wanted = going.wanted
    old = wanted.before is not None and duel.at < wanted.before
    return old or (wanted.rater is not None and duel.key == wanted.rater)


def _remove(path: Path) -> None:
    """The file of a duel, and that of its vote."""
    path.unlink(missing_ok=True)
    path.with_suffix(".voted").unlink(missing_ok=True)


def latest_rewards(database: Database, query: Query, task: str, most: int) -> dict[int, float]:
    """The latest rewards by the store's number of the decision, among ten times as many outcomes, oldest first."""
    rows = database.query(
        "SELECT decision, reward FROM "
        "(SELECT decision, reward, seq FROM settled WHERE task_id = ? ORDER BY seq DESC LIMIT ?) AS s "
        "WHERE reward IS NOT NULL AND NOT EXISTS (SELECT 1 FROM settled n WHERE n.replaces = s.seq) "
        "ORDER BY seq DESC LIMIT ?",
        (query.name_id("task", task), 10 * most, most),
    )
    return {int(seq): float(reward) for seq, reward in reversed(rows)}


def comparisons(database: Database, query: Query, task: str, *, since: float = 0.0) -> list[int]:
    """The store's numbers of the decisions between two candidates, oldest first."""
    task_id = query.name_id("task", task)
    sets = database.query(
        "SELECT id, body FROM candidate_sets WHERE id IN "
        "(SELECT DISTINCT candidate_set_id FROM decisions WHERE task_id = ?)",
        (task_id,),
    )
    rows = database.query_in(
        "SELECT seq FROM decisions WHERE candidate_set_id IN ({}) AND task_id = ? AND at > ?",
        [number for number, body in sets if len(decode_candidates(body)) == 2],
        (task_id, int(since * 1e6)),
    )
    return sorted(int(seq) for (seq,) in rows)


def latest_even_pairs(database: Database, query: Query, task: str, most: int) -> list[int]:
    """The store's numbers of the latest even draws between two candidates, oldest first, by an index of their own."""
    rows = database.query(
        f"SELECT seq FROM decisions WHERE task_id = ? AND {EVEN_PAIR} ORDER BY seq DESC LIMIT ?",
        (query.name_id("task", task), most),
    )
    return [int(seq) for (seq,) in reversed(rows)]
