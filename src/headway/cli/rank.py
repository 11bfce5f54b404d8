"""`headway rank` and `headway score`: predicted rewards, without a decision."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from headway.cli.decide import read_text, situation_options, typed_state
from headway.cli.format import number
from headway.cli.output import Output
from headway.cli.show import RecordTable, renders, value
from headway.cli.show import text as text_column
from headway.cli.verb import Session, quoted, task_argument, verb
from headway.nouns.errors import InvalidInput
from headway.nouns.explanation import Ranked

__all__ = ["rank", "score"]


@verb(
    "rank",
    """headway rank route '["small", "large"]' --text "Prove that sqrt(2) is irrational\"""",
    "headway rank next-action candidates.json --json",
)
@task_argument()
@click.argument("candidates", default="")
@click.option("--text", default="", help='What the decision is about; "-" reads standard input.')
@situation_options
@click.option("--policy", metavar="REF", help="The policy that predicts; the current one by default.")
def rank(
    session: Session, task: str, candidates: str, text: str, state: tuple[str, ...], role: str, policy: str | None
) -> None:
    """Rank candidates by predicted reward; nothing is logged.

    CANDIDATES is a JSON array of names or objects, a file that holds one, or "-" for standard input; without it, the
    task's actions.
    """
    if text == "-" and candidates == "-":
        raise click.UsageError("Only one of CANDIDATES and --text can be read from standard input.")
    offers = read_candidates(candidates)
    with session.project() as project:
        ranking = project.rank(task, offers, read_text(text), state=typed_state(state), role=role, policy=policy)
        synthetic = session.synthetic(project, task)
    session.show(Ranking(task=task, ranking=ranking, synthetic=synthetic))
    session.next(f"headway decide {task} {quoted(text) if text not in ('', '-') else '…'}")


@verb(
    "score",
    'headway score route large --text "Prove that sqrt(2) is irrational"',
    'headway score next-action --type fix --description "Add error handling to the auth module" --scope small',
)
@task_argument()
@click.argument("candidate", default="")
@click.option("--type", "kind", help="The kind of action, for example fix or feature.")
@click.option("--description", help="What it does.")
@click.option("--scope", help="How much it changes, for example small, medium or large.")
@click.option("--text", default="", help='What the decision is about; "-" reads standard input.')
@situation_options
@click.option("--policy", metavar="REF", help="The policy that predicts; the current one by default.")
def score(
    session: Session,
    task: str,
    candidate: str,
    kind: str | None,
    description: str | None,
    scope: str | None,
    text: str,
    state: tuple[str, ...],
    role: str,
    policy: str | None,
) -> None:
    """Predict the reward of one candidate; nothing is logged.

    Name the candidate, or describe it with --type, --description and --scope.
    """
    words = {"type": kind, "description": description, "scope": scope}
    features = {name: value for name, value in words.items() if value is not None}
    name = candidate or description or ""
    if not name:
        raise click.UsageError("Name the candidate, or describe it with --description.")
    offer: Any = {"name": name, **features} if features else name
    with session.project() as project:
        (row,) = project.rank(task, [offer], read_text(text), state=typed_state(state), role=role, policy=policy)
        synthetic = session.synthetic(project, task)
    session.show(CandidateScore(task=task, candidate=row, synthetic=synthetic))
    session.next(f"headway rank {task}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Candidates in order of predicted reward."""

    task: str
    ranking: Sequence[Ranked]
    synthetic: int

    def document(self) -> dict[str, Any]:
        ranking = [candidate.document() for candidate in self.ranking]
        return {"task": self.task, "ranking": ranking, "synthetic": self.synthetic}


_RANKING = RecordTable[tuple[int, Ranked]](
    value("rank", lambda row: row[0]),
    text_column("candidate", lambda row: row[1].name),
    value("predicted", lambda row: row[1].predicted),
    value("±", lambda row: row[1].std),
)


@renders(Ranking)
def _ranking(out: Output, ranking: Ranking) -> None:
    _RANKING.print(out, enumerate(ranking.ranking, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateScore:
    """The predicted reward of one candidate."""

    task: str
    candidate: Ranked
    synthetic: int

    def document(self) -> dict[str, Any]:
        return {"task": self.task, **self.candidate.document(), "synthetic": self.synthetic}


@renders(CandidateScore)
def _score(out: Output, score: CandidateScore) -> None:
    candidate = score.candidate
    out.line(f"{number(candidate.predicted)} ± {number(candidate.std)}  {candidate.name}")


def read_candidates(given: str) -> list[Any] | None:
    """A JSON array from the command line, a file or standard input."""
    if not given:
        return None
    where, text = "the command line", given
    if given == "-":
        where, text = "standard input", sys.stdin.read()
    elif not given.lstrip().startswith(("[", "{")):
        where = f"the file {given!r}"
        try:
            text = Path(given).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise InvalidInput(
                f"The candidates cannot be read from {where}: {reason}.",
                code="bad_candidates",
                hint="""Give a JSON array such as '["small", "large"]', a file that holds one, or -.""",
            ) from None
    try:
        candidates = json.loads(text)
    except ValueError as error:
        raise InvalidInput(
            f"The candidates from {where} are not JSON: {error}.",
            code="bad_candidates",
            hint="""Write an array such as '["small", "large"]' or '[{"name": "a", "scope": "small"}]'.""",
        ) from None
    if not isinstance(candidates, list):
        raise InvalidInput(
            f"The candidates from {where} are {type(candidates).__name__}, expected an array.",
            code="bad_candidates",
            hint="Put the candidates between [ and ].",
        )
    return candidates
