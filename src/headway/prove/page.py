"""What a verdict page says, in words for somebody who knows no statistics; `report` gives it a form."""

from __future__ import annotations

from dataclasses import dataclass

from headway.nouns.evidence import Estimate, Evidence, Verdict
from headway.prove.sequential import E_PROCESS

__all__ = ["Line", "Page", "page_of"]

WORDS = {"pass": "PASS", "wait": "WAIT", "refused": "REFUSED", "worse": "WORSE"}
MOST_RATERS = 12  # that a page names
_NAMES = {
    "candidate": "the new policy",
    "current": "the current policy",
    "behaviour": "what was really done",
}
_EARNED = {
    "log": "What each policy earns per decision",
    "preference": "How often it was preferred",
    "world": "What each policy earns per episode",
    "heldout": "What each policy scores per row",
}
_CHECKS = {
    "rows": "Enough decisions",
    "speaking_rows": "Decisions that tell the two apart",
    "row_share": "No single decision dominates",
    "ess": "The log resembles both policies",
    "weight_share": "No single weight dominates",
    "unlogged_actions": "Everything compared could happen",
    "propensity_sum": "Probabilities add up",
    "propensity_counts": "Probabilities match what was done",
    "propensity_replay": "Probabilities can be reproduced",
    "mean_weight": "Probabilities match what was done",
    "clock": "Outcomes come after decisions",
    "leak": "No feature gives the outcome away",
    "drift": "Traffic is like in training",
    "missing_depends_on_action": "Missing outcomes are unrelated to the choice",
    "one_key": "No single key decides it",
    "one_client": "No single client turns it",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A row of a table: what, what it came to, and whether it is fine."""

    name: str
    text: str
    ok: bool = True
    estimate: Estimate | None = None
    cure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The parts of a verdict page, in reading order."""

    title: str
    word: str
    state: str
    headline: str
    summary: str
    reasons: tuple[str, ...]
    hint: str
    values: tuple[Line, ...]
    checks: tuple[Line, ...]
    guards: tuple[Line, ...]
    counts: tuple[tuple[str, str], ...]
    method: str
    recompute: tuple[tuple[str, str], ...]
    curve: tuple[tuple[int, float, float, float], ...]
    margin: float
    unit: str
    earned: str  # what the table of values is called
    raters: tuple[Line, ...] = ()  # who gave the rewards; empty where only this machine did


def page_of(verdict: Verdict) -> Page:
    """The page of a verdict that carries its evidence."""
    evidence = verdict.evidence
    if evidence is None:
        raise ValueError("a page needs the verdict's evidence")
    estimated = all(each.ok or not each.blocks for each in evidence.diagnostics) and evidence.n > 0
    return Page(
        title=f"{evidence.task}: {evidence.candidate} against {evidence.against}",
        word=WORDS[verdict.state],
        state=verdict.state,
        headline=_headline(verdict, evidence, estimated),
        summary=_summary(evidence) if estimated else _unestimated(evidence),
        reasons=tuple(_plain(each) for each in verdict.reasons),
        hint=verdict.hint.strip(),
        values=tuple(
            Line(name=_NAMES.get(name, name), text=_interval(each), estimate=each)
            for name, each in evidence.values.items()
        )
        if estimated
        else (),
        checks=tuple(
            Line(name=_CHECKS.get(each.name, each.name), text=each.message, ok=each.ok, cure=each.cure)
            for each in evidence.diagnostics
        ),
        guards=tuple(Line(name=each.name, text=each.message, ok=each.ok) for each in evidence.guards)
        if estimated
        else (),
        counts=tuple(
            (name.replace("source ", "from source "), f"{count:,}") for name, count in evidence.counts.items()
        ),
        method=_method(evidence),
        recompute=_recompute(evidence),
        curve=tuple(evidence.curve) if estimated else (),
        margin=evidence.margin,
        unit=_unit(evidence),
        earned=_EARNED[evidence.kind],
        raters=_raters(verdict, evidence),
    )


def _headline(verdict: Verdict, evidence: Evidence, estimated: bool) -> str:
    if verdict.state == "pass":
        return f"{evidence.candidate} is better than {evidence.against}. It may be promoted."
    if verdict.state == "worse":
        return f"{evidence.candidate} is worse than {evidence.against}. Keep {evidence.against}."
    if verdict.state == "wait":
        return f"Not decided yet. Keep {evidence.against} and collect more {_unit(evidence)}."
    if not estimated:
        return f"This data cannot decide it. Keep {evidence.against}."
    return f"Not promoted. Keep {evidence.against}."


def _raters(verdict: Verdict, evidence: Evidence) -> tuple[Line, ...]:
    """Whose ratings it rests on. A key that decides a verdict and is not trusted is marked."""
    if not any(each.name for each in evidence.raters):
        return ()
    bad = () if verdict.passed else evidence.deciding()
    lines = []
    for each in evidence.raters[:MOST_RATERS]:
        uplift = "" if each.uplift is None else f"; without it, {each.uplift:.0%} of the uplift goes"
        part = f"rated {each.rows:,} decisions ({each.share:.0%}){uplift}"
        ok = each.name not in bad or each.name in evidence.trusted
        lines.append(Line(name=each.name or "this machine", text=part, ok=ok))
    rest = len(evidence.raters) - MOST_RATERS
    return (*lines, Line(name=f"{rest} more", text="fewer each")) if rest > 0 else tuple(lines)


def _summary(evidence: Evidence) -> str:
    d = evidence.difference
    if evidence.kind == "preference":
        return (
            f"In {evidence.n:,} blind comparisons with a winner, {evidence.candidate} was preferred "
            f"{d.value + 0.5:.0%} of the time (95% interval {d.low + 0.5:.0%} to {d.high + 0.5:.0%})."
        )
    more = "more" if d.value >= 0 else "less"
    candidate, current = evidence.values.get("candidate"), evidence.values.get("current")
    instead = (
        f" ({candidate.value:.3f} instead of {current.value:.3f})"
        if candidate is not None and current is not None
        else ""
    )
    each = {"log": "decision", "world": "episode"}.get(evidence.kind, "row")
    return (
        f"Judged on {evidence.n:,} {_unit(evidence)}, {evidence.candidate} earns about {abs(d.value):.3f} {more} "
        f"reward per {each} than {evidence.against}{instead}. "
        f"The data leaves room for anything from {d.low:+.3f} to {d.high:+.3f} (95% interval)."
    )


def _unestimated(evidence: Evidence) -> str:
    return (
        f"No number is given for the difference: from these {evidence.n:,} {_unit(evidence)} any number would be a "
        "guess. The checks below say what is wrong and how to cure it."
    )


def _method(evidence: Evidence) -> str:
    error = f"{evidence.alpha:.1%}"
    often = "It may be looked at as often as one likes."
    if evidence.rule == E_PROCESS:
        return (
            f"Votes are counted with a betting score (e-process) that passes at {1.0 / evidence.alpha:,.0f}; a policy "
            f"that is no better reaches that with a chance of at most {error}. {often}"
        )
    how = {
        "log": "Every logged decision is weighed by how likely each policy would have made it, and corrected by a "
        "reward model that only knew earlier decisions (doubly robust).",
        "world": "Both policies played the same episodes, and their returns are compared pair by pair.",
        "heldout": "Both policies are scored on the same later rows, which training never saw.",
    }[evidence.kind]
    if evidence.plan is not None:
        rule = f"The test was registered beforehand with {evidence.plan.horizon:,} {_unit(evidence)}."
    else:
        rule = "No length was registered beforehand, so the band is as wide as endless looking requires."
    several = f" This is candidate {evidence.challenger} since the last promotion." if evidence.challenger > 1 else ""
    return f"{how} {rule} {often} A policy that is no better passes with a chance of about {error}.{several}"


def _recompute(evidence: Evidence) -> tuple[tuple[str, str], ...]:
    found = [
        ("command", evidence.command or f"headway prove {evidence.task}"),
        ("evidence", evidence.id),
        ("data", f"sha256 {evidence.data_hash}"),
        (evidence.candidate, evidence.candidate_hash or _unhashed(evidence.candidate)),
        (evidence.against, evidence.against_hash or _unhashed(evidence.against)),
        ("reward version", evidence.reward_version or "none"),
        ("rule", f"{evidence.rule}, α = {evidence.alpha:.4g}, margin {evidence.margin:g}, seed {evidence.seed}"),
        ("statistic", f"{evidence.statistic:.6g}, passes above {evidence.threshold:.6g}"),
    ]
    return tuple(found)


def _unhashed(policy: str) -> str:
    return "built in" if policy.endswith("@0") else "no hash was given"


def _plain(reason: str) -> str:
    """A reason without the check's name in front: the table of checks below has the words for it."""
    name, colon, rest = reason.partition(": ")
    return rest[:1].upper() + rest[1:] if colon and name in _CHECKS else reason


def _interval(each: Estimate) -> str:
    return f"{each.value:+.3f}  [{each.low:+.3f}, {each.high:+.3f}]"


def _unit(evidence: Evidence) -> str:
    return {"log": "decisions", "preference": "comparisons", "world": "episodes", "heldout": "held-out rows"}[
        evidence.kind
    ]
