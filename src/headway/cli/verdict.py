"""Verdicts and evidence as people read them, and as documents. Shared by prove, report and demo."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway.cli.output import Output, signed
from headway.nouns.evidence import Estimate, Evidence, Verdict

__all__ = ["WORDS", "as_document", "show"]

WORDS: Mapping[str, tuple[str, str]] = {
    "pass": ("PASS", "bold green"),
    "wait": ("WAIT", "bold yellow"),
    "refused": ("REFUSED", "bold red"),
    "worse": ("WORSE", "bold red"),
}


def as_document(verdict: Verdict) -> dict[str, Any]:
    import msgspec

    evidence = verdict.evidence
    return {
        "state": verdict.state,
        "passed": verdict.passed,
        "reasons": list(verdict.reasons),
        "hint": verdict.hint.strip(),
        "evidence": None if evidence is None else msgspec.to_builtins(evidence, enc_hook=_plain),
    }


def _plain(value: Any) -> Any:
    """A numpy scalar as Python's own."""
    return value.item()


def show(out: Output, verdict: Verdict) -> None:
    """The verdict, what it rests on, and what speaks against it."""
    word, style = WORDS[verdict.state]
    out.line(f"{word}: {_answer(verdict)}", style=style)
    evidence = verdict.evidence
    if evidence is not None:
        _numbers(out, evidence)
    for reason in verdict.reasons:
        out.line(f"- {reason}")
    if verdict.hint.strip():
        out.line(f"- {verdict.hint.strip()}")
    if evidence is not None:
        for each in evidence.diagnostics:
            if not each.ok and not each.blocks:
                out.note(f"- {each.name}: {each.message}. {each.cure}".rstrip())
        for note in evidence.notes:
            out.note(f"- {note}")


def _answer(verdict: Verdict) -> str:
    evidence = verdict.evidence
    if evidence is None:
        return verdict.reasons[0] if verdict.reasons else ""
    return f"{evidence.candidate} against {evidence.against}: {_interval(evidence.difference)}"


def _interval(estimate: Estimate) -> str:
    return f"{signed(estimate.value)} [{signed(estimate.low)}, {signed(estimate.high)}]"


def _numbers(out: Output, evidence: Evidence) -> None:
    out.line(
        f"{evidence.n:,} decisions, worth {evidence.difference.ess:,.0f} made by the policies compared; "
        f"{evidence.difference.level:.0%} intervals; rule: {evidence.rule}."
    )
    names = {"candidate": evidence.candidate, "current": f"{evidence.against} (compared with)"}
    names["behaviour"] = "what was logged"
    if evidence.values:
        out.table(
            ("policy", "value", "from", "to"),
            [
                (names.get(name, name), f"{each.value:.3f}", f"{each.low:.3f}", f"{each.high:.3f}")
                for name, each in evidence.values.items()
            ],
            right=("value", "from", "to"),
        )
    if any(each.name for each in evidence.raters):
        out.table(
            ("rated by", "decisions", "share", "uplift that goes without it"),
            [
                (
                    each.name or "this machine",
                    f"{each.rows:,}",
                    f"{each.share:.0%}",
                    "" if each.uplift is None else f"{each.uplift:.0%}",
                )
                for each in evidence.raters[:10]
            ],
            right=("decisions", "share", "uplift that goes without it"),
        )
    shares = {name: count for name, count in evidence.counts.items() if name in ("failed", "censored", "pending")}
    if any(shares.values()):
        out.line("Without a plain reward: " + ", ".join(f"{count:,} {name}" for name, count in shares.items()) + ".")
