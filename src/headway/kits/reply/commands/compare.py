"""`headway compare` for reply tasks: the table, blind votes with --ask, and the votes of a judge.

A judge that was not shown to agree with people does not vote. Its votes have its own name: unless `trust_keys` names
it, it cannot decide a verdict alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from headway.cli import OptionHook, Output, Session, renders
from headway.files import read_regular
from headway.kits.models import Generator, Prompt, Turn
from headway.kits.reply.comparison import BlindPair, vote
from headway.kits.reply.kept import kept
from headway.kits.reply.votes import wilson
from headway.nouns import errors, plural
from headway.project import Project

if TYPE_CHECKING:
    from headway.kits.reply.comparison import ReplyComparison


_KEYS = {"1": 1.0, "2": 0.0, "=": 0.5}


def _run(session: Session, values: dict[str, Any]) -> int | None:
    """A reply task is compared by what both policies write."""
    ask, rater, count, judge = (values.pop(name) for name in ("ask", "rater", "count", "judge"))
    with session.project() as project:
        kind = project.settings.task(values["task"]).kind
        if kind != "reply":
            if ask or judge:
                raise errors.InvalidInput(
                    f"{values['task']!r} is not a reply task.", code="not_a_reply_task", hint="Omit --ask and --judge."
                )
            return None
        if judge:
            return _judge(session, project, values, judge, count=count)
        if ask:
            return _ask(session, project, values, rater=rater or "", count=count)
        from headway.kits.reply.comparison import comparison

        told = comparison(
            project, values["task"], policy=values["policy"], against=values["against"], count=count,
            seed=values["seed"], progress=session.out.progress,
        )  # fmt: skip
    session.show(told)
    session.next(f"headway compare {values['task']} --ask" if told.e_value < 20 else f"headway prove {values['task']}")
    return 0


def _ask(session: Session, project: Project, values: dict[str, Any], *, rater: str, count: int) -> int:
    """Show pairs without names, and store a vote each; q ends it and leaves the pair that is shown unanswered."""
    from headway.kits.reply.comparison import e_value, vote

    task, wins, losses = values["task"], 0, 0
    questions, pairs = _asked(project, values, count)
    voted = shown = 0
    for pair in pairs:
        shown += 1
        value = _answer(session.out, pair)
        if value is None:
            break
        vote(project, pair, value, rater=rater)
        voted += 1
    if not shown:
        session.out.line(f"Both policies gave the same reply to each of {plural(len(questions), 'question')}.")
    verdict = project.prove(values["policy"], against=values["against"] or "current", task=task) if voted else None
    evidence = None if verdict is None else verdict.evidence
    if evidence is not None:
        wins, losses = evidence.counts.get("wins", 0), evidence.counts.get("losses", 0)
    told = {"task": task, "voted": voted, "wins": wins, "losses": losses, "e_value": e_value(wins, losses)}
    session.out.document(told)
    session.out.line(
        f"{plural(voted, 'vote')} stored. So far {wins} for the candidate, {losses} against it; "
        f"e-value {told['e_value']:.3g} (20 promotes)."
    )
    session.next(f"headway prove {task}")
    return 0


def _judge(session: Session, project: Project, values: dict[str, Any], model: str, *, count: int) -> int:
    """Let a model vote, if it agrees with the ratings."""
    from headway.kits.reply.generators import open_generator

    task = values["task"]
    with open_generator(project, model) as (judge, _):
        told = agreement(project, task, judge)
        required(told)
        _, pairs = _asked(project, values, count)
        voted = judge_pairs(project, pairs, judge, rater=f"judge:{model}")
    session.out.document({"task": task, "judge": model, "right": told.right, "wrong": told.wrong, "voted": voted})
    session.out.line(f"{model} agrees with {told.right} of {told.right + told.wrong} ratings, and gave {voted} votes.")
    session.next(f"headway prove {task}")
    return 0


def _asked(project: Project, values: dict[str, Any], count: int) -> tuple[list[str], Iterator[BlindPair]]:
    """The questions of a file, or held-out ones; and a pair of replies to each, written as they are read."""
    from headway.kits.reply.comparison import blind_pairs, questions_of

    task, file = values["task"], values["tasks"]
    questions = (_read(file) if file else [text for text, _ in questions_of(project, task)])[:count]
    return questions, blind_pairs(
        project, task, questions, policy=values["policy"], against=values["against"], seed=values["seed"]
    )


def _answer(out: Output, pair: BlindPair) -> float | None:
    """The vote, or None at the end."""
    out.line()
    out.line(pair.question, style="bold")
    out.line(f"[1] {pair.first.strip()}")
    out.line(f"[2] {pair.second.strip()}")
    while True:
        try:
            key = click.prompt("Which is better: 1, 2, = (neither), q (stop)", default="=", err=True).strip().lower()
        except (click.Abort, EOFError):
            return None
        if key == "q":
            return None
        if key in _KEYS:
            return _KEYS[key]


def _read(path: Path) -> list[str]:
    try:
        lines = [line.strip() for line in read_regular(path).decode().splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise errors.InvalidInput(
            f"The questions in {str(path)!r} cannot be read.", code="bad_file", hint="One question per line, in UTF-8."
        ) from error
    return [line for line in lines if line]


@renders("ReplyComparison")
def _show(out: Output, told: ReplyComparison) -> None:
    rows = [(name, _number(mine), _number(theirs)) for name, (mine, theirs) in told.rows.items()]
    out.table(("", told.policy, told.against), rows, right=(told.policy, told.against))
    if told.win_rate is None:
        out.line("Nobody has compared them yet.")
    else:
        rate, low, high = told.win_rate
        out.line(
            f"Votes: {told.wins} wins, {told.losses} losses, {told.ties} ties; win rate {rate:.0%} ({low:.0%} to "
            f"{high:.0%}), e-value {told.e_value:.3g} (20 promotes)."
        )
    for note in told.notes:
        out.note(note)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


COMPARE = OptionHook(
    options=(
        click.Option(["--ask"], is_flag=True, help="Reply tasks: vote on pairs of replies without their names."),
        click.Option(
            ["--judge"], metavar="MODEL",
            help="Reply tasks: an upstream or local model votes, if it agrees with the ratings.",
        ),
        click.Option(["--rater"], metavar="NAME", help="Reply tasks, with --ask: who votes."),
        click.Option(
            ["--count"], type=click.IntRange(1, 10_000), default=24, show_default=True,
            help="Reply tasks: questions to compare by, or pairs to vote on.",
        ),
    ),
    run=_run,
)  # fmt: skip


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
        raise errors.Conflict(
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
