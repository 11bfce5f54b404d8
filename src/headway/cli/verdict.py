"""How verdicts and evidence are printed. Used by prove, report and the kits that prove something."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway.cli.output import Output
from headway.cli.show import Column, RecordTable, renders
from headway.cli.written import counts, number, percent
from headway.nouns import Estimate, Evidence, RaterShare, Verdict, VerdictWord, conclusion, document, gap

STYLES: Mapping[VerdictWord, str] = {
    "better": "bold green",
    "worse": "bold red",
    "too early": "bold yellow",
    "no difference": "bold blue",
    "cannot tell": "bold magenta",
}


def _document(verdict: Verdict) -> dict[str, Any]:
    """The JSON object of a verdict."""
    import msgspec

    evidence = verdict.evidence
    return {
        "word": verdict.word,
        "text": conclusion(verdict),
        "more": verdict.more,
        "forecast": None if verdict.forecast is None else document(verdict.forecast),
        "state": verdict.state,
        "passed": verdict.passed,
        "disowned": verdict.disowned,
        "reasons": list(verdict.reasons),
        "hint": verdict.hint.strip(),
        "evidence": None
        if evidence is None
        else msgspec.to_builtins(evidence, enc_hook=_python_number) | (_DISOWNED if verdict.disowned else {}),
    }


# Estimates that a data check disowns are not printed; the stored evidence keeps them, so that it can be recomputed.
_DISOWNED: Mapping[str, Any] = {"difference": None, "bounds": None, "values": {}, "guards": [], "curve": []}


def _python_number(scalar: Any) -> Any:
    """A numpy scalar as Python's own number."""
    return scalar.item()


@renders(Verdict, document=_document)
def verdict_text(out: Output, verdict: Verdict) -> None:
    """The verdict, the numbers behind it, and what speaks against it."""
    out.line(headline(verdict), style=STYLES[verdict.word])
    evidence = verdict.evidence
    if evidence is not None:
        _numbers(out, evidence, estimated=not verdict.disowned)
    for reason in verdict.reasons:
        out.line(f"- {reason}")
    if verdict.hint.strip() and verdict.hint.strip() not in conclusion(verdict):
        out.line(f"- {verdict.hint.strip()}")
    if evidence is not None:
        for diagnostic in evidence.diagnostics:
            if not diagnostic.ok and not diagnostic.blocks:
                out.note(f"- {diagnostic.name}: {diagnostic.message}. {diagnostic.cure}".rstrip())
        for note in (*evidence.notes, *evidence.unchecked):
            out.note(f"- {note}")


def headline(verdict: Verdict) -> str:
    """The verdict's sentence with its word in capitals in front."""
    word, text = verdict.word.upper(), conclusion(verdict)
    return word + text[len(word) :] if text.upper().startswith(f"{word} ") else f"{word}: {text}"


_VALUES = RecordTable[tuple[str, Estimate]](
    Column.text("policy", lambda row: row[0]),
    Column.value("value", lambda row: row[1].value),
    Column.value("from", lambda row: row[1].low),
    Column.value("to", lambda row: row[1].high),
)
_RATERS = RecordTable[RaterShare](
    Column.text("rated by", lambda rater: rater.name or "this machine"),
    Column.value("decisions", lambda rater: rater.rows),
    Column("share", lambda rater: percent(rater.share), right=True),
    Column("uplift lost without it", lambda rater: percent(rater.uplift), right=True),
)


def _numbers(out: Output, evidence: Evidence, *, estimated: bool) -> None:
    size = f", effective sample size {evidence.difference.ess:,.0f}" if evidence.kind == "log" else ""
    shown = f"; {percent(evidence.difference.level)} intervals" if estimated else ""
    if estimated:
        difference = evidence.difference
        interval = f"{percent(difference.level)} interval {gap(difference.low)} to {gap(difference.high)}"
        out.line(f"Estimated difference: {gap(difference.value)}, {interval}.")
    out.line(f"Evidence: {evidence.kind}, {number(evidence.n)} {evidence.unit}{size}{shown}; rule: {evidence.rule}.")
    names = {
        "candidate": evidence.candidate,
        "current": f"{evidence.against} (compared with)",
        "behaviour": "what was logged",
    }
    if estimated:
        _VALUES.print(out, [(names.get(name, name), estimate) for name, estimate in evidence.values.items()])
    if any(rater.name for rater in evidence.raters):
        _RATERS.print(out, evidence.raters[:10])
    unrewarded = {name: count for name, count in evidence.counts.items() if name in ("failed", "censored", "pending")}
    if any(unrewarded.values()):
        out.line(f"Without a plain reward: {counts(unrewarded)}.")
