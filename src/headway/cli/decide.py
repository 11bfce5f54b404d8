"""`headway decide`: one decision from the command line."""

from __future__ import annotations

import json
from shlex import quote
from typing import Any

import click

from headway.cli.output import Output
from headway.cli.show import Column, RecordTable, document_of, renders
from headway.cli.verbs import Session, pairs, task_argument, typed, verb
from headway.cli.written import number
from headway.nouns import Decision, DrawnHead, errors


def _typed_state(_ctx: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> dict[str, Any]:
    return {name: _state_value(value) for name, value in pairs(given, "state variable").items()}


def _state_value(given: str) -> Any:
    """A word, or a list of numbers as JSON: observation=[0.1,0.2]."""
    try:
        return json.loads(given) if given.lstrip().startswith("[") else typed(given)
    except (ValueError, RecursionError):
        return given


def situation_options(function: Any) -> Any:
    """The options --state and --role of decide, score and rank."""
    function = click.option("--role", default="", help="Who asks, for example coder or planner.")(function)
    return click.option(
        "--state", multiple=True, callback=_typed_state, metavar="NAME=VALUE", help="A state variable; repeatable."
    )(function)


def candidate_options(function: Any) -> Any:
    function = click.option(
        "--candidate", "described", multiple=True, metavar="NAME|JSON", help="One candidate; repeatable."
    )(function)
    return click.option("--candidates", metavar="A,B,…", help="The candidates; by default the task's actions.")(
        function
    )


@verb(
    "decide",
    'headway decide route "Prove that sqrt(2) is irrational" --candidates small,large',
    'headway decide route "Fix the build" --state task_complexity_score=0.9 --json',
    extended=True,
)
@task_argument()
@click.argument("text", default="")
@click.option("--text", "worded", metavar="TEXT", help="The same as TEXT, as in `score` and `rank`.")
@candidate_options
@situation_options
@click.option("--episode", metavar="NAME", help="The episode (conversation, run) it belongs to.")
@click.option("--step", type=int, help="Its place in the episode; counted by default.")
@click.option("--id", "identifier", metavar="UUID", help="Your own id: the same id again gives the same decision.")
@click.option(
    "--source",
    type=click.Choice(["real", "synthetic"]),
    default="real",
    show_default=True,
    help="Mark a synthetic decision; evidence and screens show the mark.",
)
def decide(
    session: Session,
    task: str,
    text: str,
    worded: str | None,
    candidates: str | None,
    described: tuple[str, ...],
    state: dict[str, Any],
    role: str,
    episode: str | None,
    step: int | None,
    identifier: str | None,
    source: Any,
    **details: Any,
) -> None:
    """Choose one of the candidates and log the choice with its probability.

    TEXT describes the situation; "-" reads it from standard input.
    """
    if text and worded:
        raise click.UsageError("TEXT and --text are the same: give one of them.")
    text = text or worded or ""
    from headway.reward import is_cost

    with session.project(create=True) as project:
        decision = project.decide(
            task,
            session.read(text),
            _offered(candidates, described),
            state=state,
            episode=episode,
            step=step,
            role=role,
            id=identifier,
            source=source,
            **details,
        )
        heads = tuple(project.beside(decision).get("heads", {}).values())
        signals = project.rewards(task).required or sorted(project.rewards(task).signals) or ("reward",)
    session.show(decision, **({"heads": {head.name: document_of(head) for head in heads}} if heads else {}))
    HEADS.print(session.out, heads)
    values = " ".join(f"{quote(name)}={0.001 if is_cost(name) else 1}" for name in signals)
    session.next(f"headway signal {decision.id} {values}")


def _document(decision: Decision) -> dict[str, Any]:
    names = [candidate.name for candidate in decision.candidates]
    shares = dict(zip(names, decision.probabilities, strict=False))  # none where an action has several heads
    return {
        "id": decision.id,
        "task": decision.task,
        "action": decision.action,
        "propensity": decision.propensity,
        **({"probabilities": shares} if shares else {}),
        "policy": decision.policy,
        "policy_hash": decision.policy_hash,
        "exploration": decision.exploration,
        "episode": decision.situation.episode,
        "step": decision.situation.step,
        "source": decision.source,
    }


@renders(Decision, document=_document)
def _decision(out: Output, decision: Decision) -> None:
    out.line(f"{decision.action}  (chosen with probability {number(decision.propensity)} by {decision.policy})")
    if decision.source == "synthetic":
        out.note("synthetic: marked as synthetic.")


HEADS = RecordTable[DrawnHead](
    Column.text("head", lambda head: head.name),
    Column.text("choice", lambda head: head.choice),
    Column.value("probability", lambda head: head.propensity),
    Column.text("allowed", lambda head: f"{len(head.allowed)} of {len(head.probabilities)}"),
)


def _offered(names: str | None, described: tuple[str, ...]) -> list[Any] | None:
    """The candidates for `project.decide`; None: the task's declared actions."""
    if names is None and not described:
        return None
    plain = [name.strip() for name in names.split(",")] if names is not None else []
    return [*plain, *(_described(candidate) for candidate in described)]


def _described(text: str) -> Any:
    if not text.lstrip().startswith("{"):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise errors.InvalidInput(
            f"The candidate {text[:80]!r} is not JSON: {error}.",
            code="bad_candidate",
            hint='Write a name, or an object such as {"name": "small", "cost": 0.02}.',
        ) from None
