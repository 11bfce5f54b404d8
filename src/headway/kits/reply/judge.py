"""A judge: another model that votes on blind pairs, if it agrees with the ratings of this task's users.

    told = agreement(project, "reply", judge)        # on pairs of a liked and a disliked reply
    judge_pairs(project, blind_pairs(…), judge, rater="judge")

A judge that was not shown to agree with people does not vote. Its votes have its own name: unless `trust_keys` names
it, it cannot decide a verdict alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from headway.kits.models import Generator, Prompt, Turn
from headway.kits.reply.comparison import BlindPair, vote
from headway.kits.reply.kept import kept
from headway.kits.reply.votes import wilson
from headway.nouns import Conflict
from headway.project import Project

_FEWEST, _MOST = 20, 100  # pairs that are needed, and asked about
_LONGEST = 4_000  # characters of an answer
_SYSTEM = "You compare two answers. Say which one is better for its question: 1 or 2. Say nothing else."


class JudgeAgreement(NamedTuple):
    """How often a judge preferred what the users liked."""

    right: int
    wrong: int
    unclear: int

    @property
    def low(self) -> float:
        """The lower end of the 95% interval of the share of agreement."""
        clear = self.right + self.wrong
        return wilson(self.right, clear)[0] if clear else 0.0

    @property
    def calibrated(self) -> bool:
        return self.right + self.wrong >= _FEWEST and self.low > 0.5


def judged(judge: Generator, one: tuple[str, str], other: tuple[str, str]) -> float:
    """1: the first of two (question, answer) is better; 0: the second; ½: it did not say."""
    both = enumerate((one, other), start=1)
    parts = [f"[{place}] Question: {ask}\n    Answer: {text[:_LONGEST]}" for place, (ask, text) in both]
    turns = (Turn("system", _SYSTEM), Turn("user", "\n\n".join(parts)))
    said = judge.generate([Prompt(turns=turns, max_tokens=4, temperature=0.0)])[0].text
    chosen = next((letter for letter in said if letter.isdigit()), "")
    return {"1": 1.0, "2": 0.0}.get(chosen, 0.5)


def agreement(project: Project, task: str, judge: Generator) -> JudgeAgreement:
    """Ask about pairs of a liked and a disliked reply, in an order that depends on the pair alone."""
    project.settle(task)
    liked: list[tuple[str, str]] = []
    others: list[tuple[str, str]] = []
    for row, reply in kept(project, task):
        if row.reward and reply.text.strip():
            (liked if row.reward > 0.0 else others).append((row.decision.situation.text, reply.text))
    right = wrong = unclear = 0
    for good, bad in _pairs(liked, others):
        first = hashlib.sha256("\0".join((*good, *bad)).encode()).digest()[0] % 2 == 0
        value = judged(judge, *((good, bad) if first else (bad, good)))
        value = value if first else 1.0 - value
        right, wrong, unclear = right + (value > 0.5), wrong + (value < 0.5), unclear + (value == 0.5)
    return JudgeAgreement(right, wrong, unclear)


def _pairs(
    liked: Sequence[tuple[str, str]], others: Sequence[tuple[str, str]]
) -> list[tuple[tuple[str, str], tuple[str, str]]]:
    """Each reply once at most; replies to the same question first."""
    left = list(others)
    pairs: list[tuple[tuple[str, str], tuple[str, str]]] = []
    for good in sorted(liked, key=lambda one: one[0] not in {question for question, _ in others}):
        if not left or len(pairs) == _MOST:
            break
        place = next((at for at, bad in enumerate(left) if bad[0] == good[0]), 0)
        pairs.append((good, left.pop(place)))
    return pairs


def required(told: JudgeAgreement) -> None:
    """Raise unless the judge is calibrated."""
    if not told.calibrated:
        clear = told.right + told.wrong
        raise Conflict(
            f"The judge agrees with your ratings on {told.right} of {clear} pairs; at least {_FEWEST} pairs and an "
            "agreement that is surely above one half are needed.",
            code="judge_not_calibrated",
            hint="Vote yourself (--ask), rate more replies of either sign, or ask another judge.",
        )


def judge_pairs(project: Project, pairs: Iterable[BlindPair], judge: Generator, *, rater: str) -> int:
    """The judge's votes on blind pairs; how many are for one reply. Saying nothing clear is a vote for neither."""
    count = 0
    for pair in pairs:
        value = judged(judge, (pair.question, pair.first), (pair.question, pair.second))
        vote(project, pair, value, rater=rater)
        count += value != 0.5
    return count
