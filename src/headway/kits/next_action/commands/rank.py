"""`headway rank` and `headway score`: predicted rewards, without a decision."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

import click

from headway.cli import Column, Output, RecordTable, Session, renders, situation_options, task_argument, verb, written
from headway.files import read_regular
from headway.kits.next_action.ranking import Ranked, asked_about, rank as ranked
from headway.nouns import errors


@verb(
    "rank",
    'headway rank route --text "Prove that sqrt(2) is irrational" --candidates small,large',
    "headway rank next-action candidates.json --json",
)
@task_argument()
@click.argument("candidates", default="")
@click.option("--text", default="", help='What the decision is about; "-" reads standard input.')
@click.option("--candidates", "names", metavar="A,B,…", help="The candidates by name, as in `decide`.")
@situation_options
@click.option("--state-file", type=click.Path(dir_okay=False, path_type=Path), help="A JSON object with the state.")
@click.option("--policy", metavar="REF", help="The policy that predicts; the current one by default.")
def rank(
    session: Session,
    task: str,
    candidates: str,
    text: str,
    names: str | None,
    state: dict[str, Any],
    role: str,
    state_file: Path | None,
    policy: str | None,
) -> None:
    """Rank candidates by predicted reward; nothing is logged.

    CANDIDATES is a JSON array of names or objects, a file that holds one, or "-" for standard input; without it, the
    task's actions. A ranking task without a state takes that of its latest decision, and says so.
    """
    if text == "-" and candidates == "-":
        raise click.UsageError("Only one of CANDIDATES and --text can be read from standard input.")
    if candidates and names:
        raise click.UsageError("CANDIDATES and --candidates are the same: give one of them.")
    offers = [name.strip() for name in names.split(",")] if names else read_candidates(candidates)
    with session.project() as project:
        given = {**read_state(state_file), **state} or None
        asked = asked_about(project, task, session.read(text), given, role)
        ranking = ranked(project, task, offers, asked.text, state=asked.state, role=asked.role, policy=policy)
        synthetic = session.synthetic(project, task)
    session.show(Ranking(task=task, ranking=ranking, synthetic=synthetic, state_of=asked.state_of))
    about = quote(text) if text not in ("", "-") else '"Summarise this page"'
    session.next(f"headway decide {task} {about}" + (f" --candidates {quote(names)}" if names else ""))


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
@click.option("--files", type=click.IntRange(0), help="How many files it changes.")
@click.option("--text", default="", help='What the decision is about; "-" reads standard input.')
@situation_options
@click.option("--state-file", type=click.Path(dir_okay=False, path_type=Path), help="A JSON object with the state.")
@click.option("--policy", metavar="REF", help="The policy that predicts; the current one by default.")
def score(
    session: Session,
    task: str,
    candidate: str,
    kind: str | None,
    description: str | None,
    scope: str | None,
    files: int | None,
    text: str,
    state: dict[str, Any],
    role: str,
    state_file: Path | None,
    policy: str | None,
) -> None:
    """Predict the reward of one candidate; nothing is logged.

    Name the candidate, or describe it with --type, --description, --scope and --files. PROCEED: the whole 80% interval
    is above 0; SKIP: it is below 0; NEUTRAL: it holds 0. A ranking task without a state takes that of its latest
    decision, and says so.
    """
    words = {"type": kind, "description": description, "scope": scope, "files_affected": files}
    features = {name: value for name, value in words.items() if value is not None}
    name = candidate or description or ""
    if not name:
        raise click.UsageError("Name the candidate, or describe it with --description.")
    offer: Any = {"name": name, **features} if features else name
    with session.project() as project:
        given = {**read_state(state_file), **state} or None
        asked = asked_about(project, task, session.read(text), given, role)
        (row,) = ranked(project, task, [offer], asked.text, state=asked.state, role=asked.role, policy=policy)
        synthetic = session.synthetic(project, task)
    session.show(CandidateScore(task=task, candidate=row, synthetic=synthetic, state_of=asked.state_of))
    session.next(f"headway rank {task}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Candidates in order of predicted reward."""

    task: str
    ranking: Sequence[Ranked]
    synthetic: int
    state_of: str | None = None  # the decision whose state was assumed

    def document(self) -> dict[str, Any]:
        ranking = [candidate.document() for candidate in self.ranking]
        return {"task": self.task, "ranking": ranking, "synthetic": self.synthetic, **_assumed(self.state_of)}


_RANKING = RecordTable[tuple[int, Ranked]](
    Column.value("rank", lambda row: row[0]),
    Column.text("candidate", lambda row: row[1].name),
    Column.value("predicted", lambda row: row[1].predicted),
    Column.value("±", lambda row: row[1].std),
)


@renders(Ranking)
def _ranking(out: Output, ranking: Ranking) -> None:
    _say_state(out, ranking.state_of)
    if not any(candidate.features for candidate in ranking.ranking):
        _RANKING.print(out, enumerate(ranking.ranking, 1))
        return
    out.line("Ranked actions (predicted reward, 80% interval)", style="bold")
    for place, candidate in enumerate(ranking.ranking, 1):
        out.line(f"{place}. {_line(candidate)}")


def _line(candidate: Ranked) -> str:
    """[+0.0042 ±0.0031] test: Add tests for config loader (small)"""
    features = candidate.features
    kind = f"{features['type']}: " if features.get("type") else ""
    scope = f" ({features['scope']})" if features.get("scope") else ""
    half = "" if candidate.half is None else f" ±{candidate.half:.4f}"
    return f"[{candidate.predicted:+.4f}{half}] {kind}{features.get('description') or candidate.name}{scope}"


def _say_state(out: Output, state_of: str | None) -> None:
    if state_of:
        out.note(f"No state was given: that of the latest decision, {state_of}, is assumed.")


def _assumed(state_of: str | None) -> dict[str, str]:
    return {"state_of": state_of} if state_of else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateScore:
    """The predicted reward of one candidate."""

    task: str
    candidate: Ranked
    synthetic: int
    state_of: str | None = None

    def document(self) -> dict[str, Any]:
        known = {"task": self.task, **self.candidate.document(), "synthetic": self.synthetic}
        return {**known, **_assumed(self.state_of)}


@renders(CandidateScore)
def _score(out: Output, score: CandidateScore) -> None:
    candidate = score.candidate
    _say_state(out, score.state_of)
    if candidate.features:
        out.line(_line(candidate))
    else:
        out.line(f"{written.number(candidate.predicted)} ± {written.number(candidate.std)}  {candidate.name}")
    if candidate.advice:
        out.line(candidate.advice, style="bold")


def read_state(path: Path | None) -> dict[str, Any]:
    """The state in a file; objects inside it become names with dots."""
    if path is None:
        return {}
    try:
        body = json.loads(read_regular(path))
    except (OSError, ValueError, RecursionError) as error:
        raise errors.InvalidInput(
            f"The state cannot be read from {str(path)!r}: {error}.",
            code="bad_state",
            hint='Write an object such as {"composite_score": 0.8, "tests_passing": 12}.',
        ) from None
    if not isinstance(body, dict):
        raise errors.InvalidInput(
            f"The state in {str(path)!r} is {type(body).__name__}, expected an object.",
            code="bad_state",
            hint="Put the state between { and }.",
        )
    return dict(_flat(body, ""))


def _flat(values: dict[str, Any], before: str) -> Iterator[tuple[str, Any]]:
    for name, inner in values.items():
        if isinstance(inner, dict):
            yield from _flat(inner, f"{before}{name}.")
        else:
            yield f"{before}{name}", inner


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
            text = read_regular(Path(given)).decode()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise errors.InvalidInput(
                f"The candidates cannot be read from {where}: {reason}.",
                code="bad_candidates",
                hint="""Give a JSON array such as '["small", "large"]', a file that holds one, or -.""",
            ) from None
    try:
        candidates = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise errors.InvalidInput(
            f"The candidates from {where} are not JSON: {error}.",
            code="bad_candidates",
            hint="""Write an array such as '["small", "large"]' or '[{"name": "a", "scope": "small"}]'.""",
        ) from None
    if not isinstance(candidates, list):
        raise errors.InvalidInput(
            f"The candidates from {where} are {type(candidates).__name__}, expected an array.",
            code="bad_candidates",
            hint="Put the candidates between [ and ].",
        )
    return candidates
