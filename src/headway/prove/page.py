"""The content of a verdict page, for readers without statistics; `report` formats it."""

from __future__ import annotations

from dataclasses import dataclass

from headway.nouns import Estimate, Evidence, Verdict, conclusion, gap, plural
from headway.prove.sequential import E_PROCESS

MOST_RATERS = 12  # shown on a page
_NAMES = {
    "candidate": "the new policy",
    "current": "the current policy",
    "behaviour": "what was actually done",
}
_EARNED = {
    "preference": "How often the new policy was preferred",
    "world": "Return per episode",
    "heldout": "Score per row",
}
_CHECKS = {
    "rows": "Enough decisions",
    "same_choices": "The policies make different choices",
    "speaking_rows": "Enough decisions on which the policies differ",
    "row_share": "No single decision dominates",
    "ess": "Large enough effective sample size",
    "weight_share": "No single weight dominates",
    "unlogged_actions": "Every compared action was possible",
    "propensity_sum": "Probabilities add up",
    "calibration": "Probabilities match the logged actions",
    "repetition": "Every decision was drawn by itself",
    "replay": "Probabilities can be reproduced",
    "mean_weight": "Probabilities match the logged actions",
    "clock": "Outcomes come after decisions",
    "carry_over": "No action changes the next outcome",
    "clipping": "Rewards lie within the range",
    "clipping_against": "Cuts take little from the new policy",
    "late_outcomes": "Outcomes come before they count as missing",
    "duplicates": "Decisions are stored once",
    "episode_result": "Every decision has a result of its own",
    "request_result": "Every request took one attempt",
    "future": "No decision lies in the future",
    "leak": "No feature gives the outcome away",
    "drift": "Traffic is similar to the training data",
    "missing_depends_on_action": "Missing outcomes are unrelated to the choice",
    "missing_width": "Missing outcomes do not decide the verdict",
    "training_rows": "Looks better on its training rows",
    "one_key": "No single key decides the verdict",
    "one_key_region": "No single key decides what is chosen somewhere",
    "one_client": "No single client changes the result",
    "unanswered": "Unanswered comparisons do not decide the verdict",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A row of a table: name, text, and whether the check passed."""

    name: str
    text: str
    ok: bool = True
    estimate: Estimate | None = None
    cure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The parts of a verdict page, in reading order."""

    title: str
    word: str  # better, worse, too early, no difference or cannot tell
    state: str  # of the gate
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
    earned: str  # title of the table of values
    raters: tuple[Line, ...] = ()  # who gave the rewards; empty if only this machine did
    kind: str = "log"  # of the evidence
    notes: tuple[str, ...] = ()  # what the evidence does not show, and what could not be checked
    facts: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()  # more tables: title, and rows of name and text

    @classmethod
    def of(cls, verdict: Verdict) -> Page:
        """The page of a verdict; it must have its evidence."""
        return _page(verdict)


def _page(verdict: Verdict) -> Page:
    evidence = verdict.evidence
    if evidence is None:
        raise ValueError("a page needs the verdict's evidence")
    estimated = not verdict.disowned and evidence.n > 0
    unproven = evidence.watches and verdict.state not in ("pass", "worse")  # what a proof lacks is no news then
    return Page(
        title=f"{evidence.task}: {evidence.candidate} against {evidence.against}",
        word=verdict.word,
        state=verdict.state,
        headline=conclusion(verdict),
        summary=_summary(evidence) if estimated else _unestimated(evidence),
        reasons=() if unproven else tuple(_plain(reason) for reason in verdict.reasons),
        hint="" if unproven else verdict.hint.strip(),
        values=tuple(
            Line(name=_NAMES.get(name, name), text=_interval(estimate), estimate=estimate)
            for name, estimate in evidence.values.items()
        )
        if estimated
        else (),
        checks=tuple(
            Line(
                name=_CHECKS.get(diagnostic.name, diagnostic.name),
                text=diagnostic.message,
                ok=diagnostic.ok,
                cure=diagnostic.cure,
            )
            for diagnostic in evidence.diagnostics
        ),
        guards=tuple(Line(name=guard.name, text=guard.message, ok=guard.ok) for guard in evidence.guards)
        if estimated
        else (),
        counts=tuple(
            (name.replace("source ", "from source "), f"{count:,}") for name, count in evidence.counts.items()
        ),
        method=_method(evidence) + _unchecked(evidence),
        recompute=_recompute(evidence),
        curve=tuple(evidence.curve) if estimated else (),
        margin=evidence.margin,
        unit=evidence.unit,
        earned=_EARNED.get(evidence.kind, f"Reward per {evidence.unit.removesuffix('s')}"),
        kind=evidence.kind,
        notes=tuple(evidence.notes),
        raters=_raters(verdict, evidence),
    )


def _raters(verdict: Verdict, evidence: Evidence) -> tuple[Line, ...]:
    """Whose ratings the verdict depends on. A key that decides it without being trusted is marked."""
    if not any(rater.name for rater in evidence.raters):
        return ()
    bad = () if verdict.passed else evidence.deciding()
    lines = []
    for rater in evidence.raters[:MOST_RATERS]:
        uplift = "" if rater.uplift is None else f"; {rater.uplift:.0%} of the uplift depends on it"
        part = f"rated {plural(rater.rows, 'decision')} ({rater.share:.0%}){uplift}"
        ok = rater.name not in bad or rater.name in evidence.trusted
        lines.append(Line(name=rater.name or "this machine", text=part, ok=ok))
    rest = len(evidence.raters) - MOST_RATERS
    return (*lines, Line(name=f"{rest} more", text="with fewer decisions")) if rest > 0 else tuple(lines)


def _summary(evidence: Evidence) -> str:
    d = evidence.difference
    if evidence.kind == "preference":
        return (
            f"In {plural(evidence.n, 'blind comparison')} with a winner, {evidence.candidate} was preferred "
            f"{d.value + 0.5:.0%} of the time (95% interval {d.low + 0.5:.0%} to {d.high + 0.5:.0%})."
        )
    more = "more" if d.value >= 0 else "less"
    candidate, current = evidence.values.get("candidate"), evidence.values.get("current")
    instead = (
        f" ({candidate.value:.3f} instead of {current.value:.3f})"
        if candidate is not None and current is not None
        else ""
    )
    interval = f"95% interval: {gap(d.low)} to {gap(d.high)}."
    if evidence.kind not in ("log", "world"):
        better = "better" if d.value >= 0 else "worse"
        what = "predicts" if evidence.kind == "heldout" else "scores"
        return (
            f"Judged on {evidence.n:,} {evidence.unit}, {evidence.candidate} {what} {better} than {evidence.against} "
            f"by about {abs(d.value):.3f} per row{instead}. {interval}"
        )
    unit = {"log": "decision", "world": "episode"}[evidence.kind]
    return (
        f"Judged on {evidence.n:,} {evidence.unit}, {evidence.candidate} earns about {abs(d.value):.3f} {more} "
        f"reward per {unit} than {evidence.against}{instead}. {interval}"
    )


def _unestimated(evidence: Evidence) -> str:
    return (
        f"The difference is not estimated: with these {evidence.n:,} {evidence.unit} any number would be a "
        "guess. The checks below say what is wrong and how to fix it."
    )


def _method(evidence: Evidence) -> str:
    error = f"{evidence.alpha:.1%}"
    often = "You may look at the result as often as you like."
    if evidence.rule == E_PROCESS:
        return (
            f"Votes are counted with a betting score (e-process) that passes at {1.0 / evidence.alpha:,.0f}; a policy "
            f"that is no better reaches this with probability at most {error}. {often}"
        )
    how = {
        "log": "Every logged decision is weighted by how likely each policy is to make it, and corrected by a "
        "reward model fitted on earlier decisions only (doubly robust).",
        "world": "Both policies played the same episodes, and their returns are compared pair by pair.",
        "heldout": "Both policies predict the same later rows, which were not used for training.",
    }.get(evidence.kind, f"Both policies are compared by the kind of evidence {evidence.kind!r}.")
    if evidence.plan is not None:
        rule = f"The test was registered in advance with {evidence.plan.horizon:,} {evidence.unit}."
    else:
        rule = "No length was registered in advance, so the band is wide enough to hold however often you look."
    several = f" This is test {evidence.challenger} of this task." if evidence.challenger > 1 else ""
    return f"{how} {rule} {often} A policy that is no better passes with probability about {error}.{several}"


def _unchecked(evidence: Evidence) -> str:
    return f" Not checked: {'; '.join(evidence.unchecked)}." if evidence.unchecked else ""


def _recompute(evidence: Evidence) -> tuple[tuple[str, str], ...]:
    facts = [
        ("command", evidence.command or f"headway prove {evidence.task}"),
        ("evidence", evidence.id),
        ("data", f"sha256 {evidence.data_hash}"),
        (evidence.candidate, evidence.candidate_hash or _unhashed(evidence.candidate)),
        (evidence.against, evidence.against_hash or _unhashed(evidence.against)),
        ("reward version", evidence.reward_version or "none"),
        ("rule", f"{evidence.rule}, α = {evidence.alpha:.4g}, margin {evidence.margin:g}, seed {evidence.seed}"),
        ("statistic", f"{evidence.statistic:.6g}, passes above {evidence.threshold:.6g}"),
    ]
    return tuple(facts)


def _unhashed(policy: str) -> str:
    return "built in" if policy.endswith("@0") else "no hash"


def _plain(reason: str) -> str:
    """A reason without the check's name in front: the table of checks describes it."""
    name, colon, rest = reason.partition(": ")
    return rest[:1].upper() + rest[1:] if colon and name in _CHECKS else reason


def _interval(estimate: Estimate) -> str:
    return f"{estimate.value:+.3f}  [{estimate.low:+.3f}, {estimate.high:+.3f}]"
