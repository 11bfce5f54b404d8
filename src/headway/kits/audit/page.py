"""The page of an audit: the same page as a verdict's, in words for a reader who has only a log."""

from __future__ import annotations

from dataclasses import replace

from headway.kits.audit.audit import Audit
from headway.kits.audit.pairs import AuditComparison
from headway.prove import Page

WORDS = {"better": "better", "worse": "worse", "undecided": "too early", "cannot tell": "cannot tell"}
_STATES = {"better": "pass", "worse": "worse", "undecided": "wait", "cannot tell": "refused"}
_CHECKS = {"mixed_units": "One action each", "missing_width": "Missing outcomes cannot change the answer"}
_ANSWERS = {"pass": "better", "worse": "worse", "wait": "not decided", "refused": "cannot tell"}


def audit_page(audit: Audit) -> Page:
    """What `headway.kits.report` writes as text, Markdown or HTML."""
    page = _without_evidence(audit) if audit.lead is None else _with_evidence(audit, audit.lead)
    return replace(
        page,
        title=f"{audit.question} ({audit.name})",
        word=WORDS[audit.state],
        state=_STATES[audit.state],
        facts=_facts(audit),
        notes=(*_notes(audit), *page.notes),
        counts=(*((name, f"{count:,}") for name, count in audit.log.counts.items()), *page.counts),
    )


def _with_evidence(audit: Audit, lead: AuditComparison) -> Page:
    page = Page.of(lead.verdict)
    names = {"the new policy": lead.policy.name, "the current policy": lead.against.name}
    return replace(
        page,
        headline=_headline(audit, lead),
        values=tuple(
            replace(line, name=names.get(line.name, line.name)) for line in page.values if "(" not in line.name
        ),
        checks=tuple(replace(line, name=_CHECKS.get(line.name, line.name)) for line in page.checks),
        hint=_hint(audit, lead, page.hint),
        recompute=tuple(fact for fact in page.recompute if fact[1] != "no hash" and fact[0] != "reward version"),
    )


def _headline(audit: Audit, lead: AuditComparison) -> str:
    policy, against = lead.policy.name, lead.against.name
    single = len(audit.comparisons) == 1
    if audit.state == "better":
        if single or not audit.pairs.every:
            return f"Yes: {policy} is better than {against}."
        return f"Yes: {policy} is better than always taking any one of {len(audit.comparisons)} actions."
    if audit.state == "worse":
        if single or audit.pairs.every:
            return f"No: {policy} is worse than {against}."
        return f"No: every other arm is worse than {against}."
    if audit.state == "undecided":
        return f"Not decided: this log shows neither that {policy} is better than {against} nor that it is worse."
    return f"This log cannot tell whether {policy} is better than {against}."


def _hint(audit: Audit, lead: AuditComparison, hint: str) -> str:
    if audit.state in ("better", "worse"):
        return ""
    if audit.state == "cannot tell":
        return hint
    needed = lead.evidence.needed
    if not needed:
        return "Collect more decisions; the table below says how many show a given uplift."
    return f"If the difference seen so far is real, about {needed:,} more decisions show it."


def _without_evidence(audit: Audit) -> Page:
    lacks = [what.partition(":")[0] for what, _ in audit.missing]
    return Page(
        title="",
        word="",
        state="",
        headline=f"This log cannot tell: it lacks {' and '.join(lacks) or 'something to compare with'}.",
        summary="No method can say from it what would have happened with other choices. What is missing, and how to "
        "add it, is listed below; nothing is assumed in its place.",
        reasons=tuple(f"Missing is {what}. {cure}" for what, cure in audit.missing),
        hint="",
        values=(),
        checks=(),
        guards=(),
        counts=(),
        method="An audit weights every choice by how likely each policy was to make it, so it needs that probability.",
        recompute=(("command", audit.command), ("data", f"sha256 {audit.data_hash}")),
        curve=(),
        margin=0.0,
        unit="decisions",
        earned="Reward per decision",
    )


def _facts(audit: Audit) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    log = audit.log
    guessed = "guessed from its fields; name another with --format" if audit.guessed else "as given by --format"
    rows = [
        ("format", f"{audit.shape.program} ({audit.shape.name}, {guessed})"),
        ("actions", _arms(audit)),
        ("reward", f"{log.reward_name}{', lower is better' if '--lower-is-better' in audit.command else ''}"),
        ("propensities", _propensities(audit)),
    ]
    tables = [("The log", tuple(rows))]
    if len(audit.comparisons) > 1:
        tables.append(("Every comparison", tuple(_compared(comparison) for comparison in audit.comparisons)))
    if audit.tests:
        title = f"What would tell (an uplift of {audit.tests[0].uplift:.3g}, with 80% power)"
        tables.append((title, tuple((test.name, f"about {test.decisions:,} decisions") for test in audit.tests)))
    return tuple(tables)


def _arms(audit: Audit) -> str:
    log = audit.log
    counts = sorted(((log.count(arm), name) for arm, name in enumerate(log.arms)), reverse=True)
    shown = ", ".join(f"{name} {count:,}" for count, name in counts[:8])
    more = f" and {len(counts) - 8} more" if len(counts) > 8 else ""
    return f"{shown}{more} (per {audit.shape.unit_name})"


def _propensities(audit: Audit) -> str:
    log = audit.log
    if log.propensity is None:
        return "none"
    if log.declared:
        return f"declared: {log.declared}"
    return f"logged, from {log.propensity.min():.3g} to {log.propensity.max():.3g}"


def _compared(comparison: AuditComparison) -> tuple[str, str]:
    verdict, evidence = comparison.verdict, comparison.evidence
    name = f"{comparison.policy.name} against {comparison.against.name}"
    answer = _ANSWERS.get(verdict.state, verdict.state)
    if verdict.disowned or evidence.bounds is None:
        return name, f"{answer}: {Page.of(verdict).reasons[0]}"
    value, (low, high) = evidence.difference.value, evidence.bounds
    return name, f"{answer}: {value:+.3f}, between {low:+.3f} and {high:+.3f}, however often you check"


def _notes(audit: Audit) -> tuple[str, ...]:
    notes = list(audit.log.notes)
    if not audit.shape.experiment and audit.comparisons:
        notes.append("The router is judged as it was logged, exploration included.")
    if audit.pairs.too_few:
        notes.append(f"Not compared, too few rows: {', '.join(audit.pairs.too_few[:8])}.")
    if audit.shape.experiment and audit.pairs.pairs:
        notes.append(f"The control is {audit.pairs.pairs[0][1].name}; name another with --against.")
    return tuple(notes)
