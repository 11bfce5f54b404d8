"""`headway explain`: one decision in detail; `--replay` makes it again; `--term` explains a word instead."""

from __future__ import annotations

import click

from headway.cli.decide import HEADS
from headway.cli.glossary import GlossaryTerm, find_term
from headway.cli.output import Output
from headway.cli.show import Column, RecordTable, renders
from headway.cli.verbs import Session, verb
from headway.cli.written import number
from headway.nouns import DrawnAction, ExplainedAttempt, ExplainedCandidate, Explanation, Outcome, Replay, Signal, money
from headway.reward import unit_of

DIFFERENT, GONE = 1, 3  # exit statuses of --replay
_LONGEST_TEXT = 300


@verb(
    "explain",
    "headway explain dec_0197c1f2a3b47000a1b2c3d4e5f60718",
    "headway explain --term propensity",
)
@click.argument("identifier", metavar="[ID]", default="")
@click.option("--replay", is_flag=True, help="Ask the same policy the same question again, and compare.")
@click.option("--term", metavar="NAME", help="Print what a term means, from the glossary. Needs no project.")
def explain(session: Session, identifier: str, replay: bool, term: str | None) -> int:
    """Show who made a decision, why, with which probabilities, and how it went.

    With --replay the exit status is 1 if the action or a probability differs (by more than the last digits, which
    another processor may round otherwise), and 3 if something that the decision needs no longer exists.
    """
    if bool(identifier) == (term is not None):
        raise click.UsageError("Name a decision (headway explain ID) or a term (headway explain --term NAME).")
    if term is not None:
        session.show(find_term(term))
        return 0
    with session.project() as project:
        if replay:
            replayed = project.replay(identifier)
            session.synthetic(project, project.query.decision(replayed.id).task)
            session.show(replayed)
            session.next(f"headway explain {replayed.id}")
            return GONE if replayed.exact is None else 0 if replayed.alike else DIFFERENT
        explanation = project.explain(identifier)
    session.show(explanation)
    again = f"headway explain {explanation.id} --replay"
    session.next(again if explanation.asked_again else f"headway data log {explanation.task}")
    return 0


@renders(GlossaryTerm, document=lambda term: {"term": term.name, "short": term.short, "text": term.text})
def _term(out: Output, term: GlossaryTerm) -> None:
    out.line(f"{term.name} ({term.short})" if term.short else term.name)
    out.line(term.text)


_CANDIDATES = RecordTable[ExplainedCandidate](
    Column.text("candidate", lambda candidate: candidate.name),
    Column.value("probability", lambda candidate: candidate.probability),
    Column.value("predicted", lambda candidate: candidate.predicted),
    Column.value("±", lambda candidate: candidate.std),
)
_SIGNALS = RecordTable[tuple[Signal, float | None]](
    Column.text("signal", lambda row: row[0].name),
    Column.value("value", lambda row: _measured(row[0])),
    Column.value("counts", lambda row: _small(row[1])),
    Column.text("rater", lambda row: row[0].rater),
    Column.text("label", lambda row: row[0].label),
)
_ATTEMPTS = RecordTable[ExplainedAttempt](
    Column.text("attempt", lambda attempt: attempt.upstream),
    Column.text("ended", lambda attempt: f"{attempt.status} {attempt.code}".rstrip()),
    Column.value("HTTP", lambda attempt: attempt.http_status),
    Column.value("seconds", lambda attempt: None if attempt.latency_s is None else _small(attempt.latency_s)),
    Column.value("tokens in", lambda attempt: attempt.prompt_tokens),
    Column.value("cached", lambda attempt: attempt.cached_tokens),
    Column.value("tokens out", lambda attempt: attempt.completion_tokens),
    Column.value("cost", lambda attempt: None if attempt.cost_usd is None else money(attempt.cost_usd, "$")),
    Column.value("probability", lambda attempt: attempt.propensity),
    Column.text("left out", lambda attempt: ", ".join(attempt.left_out) or None),
)


@renders(Explanation)
def _explanation(out: Output, explanation: Explanation) -> None:
    if explanation.source == "synthetic":
        out.note("synthetic: this decision comes from a sample world.")
    fields = {
        "decision": explanation.id,
        "task": explanation.task,
        "at": explanation.at,
        "text": _shortened(explanation.text),
        "state": ", ".join(f"{name}={number(item)}" for name, item in explanation.state.items()),
        "episode": "" if explanation.episode is None else f"{explanation.episode}, step {explanation.step}",
        "role": explanation.role,
        "action": f"{explanation.action}, {_chosen(explanation.propensity)}",
        "decided by": f"{explanation.policy}: {explanation.why}",
        "exploration": explanation.exploration,
        "assigned to": explanation.assigned,
        "confidence": "" if explanation.confidence is None else number(explanation.confidence),
        "request": explanation.request or "",
        "served by": explanation.served or "",
        "answered": "" if explanation.reply is None else _shortened(explanation.reply.text),
        "outcome": _outcome(explanation.outcome),
    }
    out.fields({name: written for name, written in fields.items() if written})
    if explanation.heads:
        HEADS.print(out, explanation.heads.values())
    else:
        _CANDIDATES.print(out, explanation.candidates)
    if explanation.attempts:
        _ATTEMPTS.print(out, explanation.attempts)
    _SIGNALS.print(out, [(signal, explanation.parts.get(signal.name)) for signal in explanation.signals])


def _measured(signal: Signal) -> str:
    """A signal's value; money with its sign: $0.00022."""
    if signal.value is None:
        return "withdrawn"
    unit = unit_of(signal.name)
    return money(signal.value, unit) if unit else _small(signal.value)


def _small(amount: float | None) -> str:
    """With digits that say something: 0.125, 0.00022."""
    return number(amount) if not amount or abs(amount) >= 0.0095 else money(amount, "")


def _chosen(propensity: float | None) -> str:
    if propensity is None:
        return "chosen elsewhere; its probability is not known"
    return f"chosen with probability {number(propensity, 4)}"


def _outcome(outcome: Outcome) -> str:
    clipped = ", clipped to the task's range" if outcome.clipped else ""
    return f"{outcome.status}, reward {number(outcome.reward)}{clipped}"


def _shortened(words: str) -> str:
    if len(words) <= _LONGEST_TEXT:
        return words
    return f"{words[:_LONGEST_TEXT]}… ({len(words):,} characters)"


_DRAWS = RecordTable[tuple[str, DrawnAction]](
    Column.text("", lambda row: row[0]),
    Column.text("action", lambda row: row[1].action),
    Column.value("propensity", lambda row: f"{row[1].propensity:.12g}"),
)


@renders(Replay)
def _replay(out: Output, replay: Replay) -> None:
    if replay.replayed is None:
        out.line(f"It cannot be replayed: {replay.gone}.")
        return
    same = "exactly the same" if replay.exact else "NOT the same"
    if replay.alike and not replay.exact:
        same = f"the same action; a probability differs by {replay.difference:.2g}, which is rounding"
    out.line(f"Replayed with {replay.policy} and seed {replay.seed}: {same}.")
    _DRAWS.print(out, [("stored", replay.stored), ("again", replay.replayed)])
