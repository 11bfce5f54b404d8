"""A verdict as one sentence, the same in the terminal, on the page, over HTTP and for agents."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from headway.nouns.evidence import Evidence, Verdict
from headway.nouns.forecast import VerdictForecast
from headway.nouns.words import plural

_PER = {"world": " per episode", "heldout": " per row"}


def conclusion(verdict: Verdict) -> str:
    """Better, worse, too early, no difference or cannot tell: by how much, and what would tell."""
    evidence = verdict.evidence
    if evidence is None:
        return " ".join(verdict.reasons)
    candidate, against = evidence.candidate, evidence.against
    if evidence.watches and verdict.state not in ("pass", "worse"):
        return f"No harm by {candidate} shown in {plural(evidence.n, 'decision')} beside {against}."
    match verdict.word:
        case "better":
            better = "predicts better than" if evidence.reliance == "predictions" else "is better than"
            return f"{candidate} {better} {against}: {_bound(evidence, 'better')}{_provided(evidence)}."
        case "worse":
            return (
                f"{candidate} is worse than {against}: {_harm(verdict, evidence)}{_provided(evidence)}. Keep {against}."
            )
        case "too early":
            return f"Too early to tell whether {candidate} is better than {against}: {_more(verdict, evidence)}."
        case "no difference":
            return f"No difference between {candidate} and {against}: {_nothing(verdict)}. Keep {against}."
        case "cannot tell":
            return f"Cannot tell whether {candidate} is better than {against}: {_cause(verdict)}"


def _provided(evidence: Evidence) -> str:
    return ", if the probabilities that your client sent are true" if evidence.reliance == "claims" else ""


def gap(value: float) -> str:
    """+0.041, or +0.00022: a difference with digits that say something."""
    size = abs(value)
    return f"{value:+.{3 if not size or size >= 0.0095 else 4 if size >= 0.00095 else 5}f}"


def _bound(evidence: Evidence, side: Literal["better", "worse"]) -> str:
    """The gate's bound on the side that matters."""
    if evidence.kind == "preference":
        return f"preferred in {evidence.difference.value + 0.5:.0%} of {plural(evidence.n, 'comparison')} with a winner"
    per = f" per {evidence.unit[:-1]}" if evidence.kind == "log" else _PER.get(evidence.kind, " per row")
    if evidence.proven(side) is None or evidence.bounds is None:
        return "the test proves it, and does not say by how much"
    certain = f"more than {gap(evidence.bounds[0])}" if side == "better" else f"less than {gap(evidence.bounds[1])}"
    return f"about {gap(evidence.difference.value)}{per}; certainly {certain}"


def _harm(verdict: Verdict, evidence: Evidence) -> str:
    if verdict.state == "worse":
        return _bound(evidence, "worse")
    return "; ".join(_lower(reason.rstrip(".")) for reason in verdict.reasons)


def _more(verdict: Verdict, evidence: Evidence) -> str:
    if verdict.more is None:
        return "it does not look better so far"
    forecast, waiting = verdict.forecast, evidence.waiting
    if forecast is None:
        more, seen = verdict.more, evidence.n
        forecast = VerdictForecast.of(more, more, more, seen=seen, unit=evidence.unit)
        if more == 0 and waiting is not None:
            forecast = replace(forecast, open=waiting.open, until=waiting.until)
    made = "" if waiting is None or forecast.open else f"; {waiting.decisions:,} wait for their outcomes"
    return f"{forecast.text}{made}"


def _nothing(verdict: Verdict) -> str:
    if verdict.state == "no difference":
        return _lower(verdict.reasons[0].removeprefix("No difference: ").rstrip("."))
    if verdict.refusal == "ended":
        return _lower(verdict.reasons[0].rstrip("."))
    return f"{verdict.reasons[0].partition(': ')[2].rstrip('.') or 'both make the same choices'}; nothing to gain"


def _cause(verdict: Verdict) -> str:
    reason = _lower(verdict.reasons[0].removeprefix("Cannot tell: "))
    name, colon, rest = reason.partition(": ")
    told = rest if colon and " " not in name else reason  # without the name of the check in front
    return f"{told} {verdict.hint.strip()}".strip()


def _lower(text: str) -> str:
    """A sentence as a part of another."""
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]
