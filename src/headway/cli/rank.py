"""`headway rank` and `headway score`: what the policy predicts, without a decision."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from headway.cli.decide import read_text, situation_options, typed_state
from headway.cli.format import number
from headway.cli.verb import Session, quoted, task_argument, verb
from headway.nouns.errors import InvalidInput

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
    """Put candidates in order of predicted reward; nothing is logged.

    CANDIDATES is a JSON array of names or objects, a file that holds one, or "-" for standard input; without it, the
    task's actions.
    """
    if text == "-" and candidates == "-":
        raise click.UsageError("Only one of CANDIDATES and --text can be read from standard input.")
    offers = read_candidates(candidates)
    with session.project() as project:
        ranking = project.rank(task, offers, read_text(text), state=typed_state(state), role=role, policy=policy)
        made_up = session.synthetic(project, task)
    session.out.document({"task": task, "ranking": [row.document() for row in ranking], "synthetic": made_up})
    session.out.table(
        ("rank", "candidate", "predicted", "±"),
        [(place, row.name, number(row.predicted), number(row.std)) for place, row in enumerate(ranking, 1)],
        right=("rank", "predicted", "±"),
    )
    session.next(f"headway decide {task} {quoted(text) if text not in ('', '-') else '…'}")


@verb(
    "score",
    'headway score route large --text "Prove that sqrt(2) is irrational"',
    'headway score next-action --type fix --description "Add error handling to the auth module" --scope small',
)
@task_argument()
@click.argument("candidate", default="")
@click.option("--type", "kind", help="What kind of action it is, for example fix or feature.")
@click.option("--description", help="What it would do, in words.")
@click.option("--scope", help="How far it reaches, for example small, medium or large.")
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
        made_up = session.synthetic(project, task)
    session.out.document({"task": task, **row.document(), "synthetic": made_up})
    session.out.line(f"{number(row.predicted)} ± {number(row.std)}  {name}")
    session.next(f"headway rank {task}")


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
        found = json.loads(text)
    except ValueError as error:
        raise InvalidInput(
            f"What {where} gives is not JSON: {error}.",
            code="bad_candidates",
            hint="""Write an array such as '["small", "large"]' or '[{"name": "a", "scope": "small"}]'.""",
        ) from None
    if not isinstance(found, list):
        raise InvalidInput(
            f"{where.capitalize()} gives {type(found).__name__}, expected an array of candidates.",
            code="bad_candidates",
            hint="Put the candidates between [ and ].",
        )
    return found
