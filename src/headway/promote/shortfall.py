"""How much a test still needs, and whether it can show anything: for the gate's verdict and its hint."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from headway.nouns import SAME_CHOICES, Diagnostic, Evidence, Prospect, Refusal, plural

FIRST_OUTLOOK = 1_000  # rows before a comparison is called pointless
_TIMES = 100  # a number of rows so many times larger than that so far is not a plan
_LIKELY = 1.5 / 3.92  # a difference so many widths of the 95% interval above the estimate is not likely
_NO_GAIN = frozenset({SAME_CHOICES, "training_rows", "beats"})
_GROWS = frozenset({"rows", "speaking_rows"})  # checks that more decisions mend
_WITH_FEW = frozenset({"ess", "row_share", "weight_share"})  # checks that few rows fail by themselves
_WITH_WAITING = frozenset({"drift", "missing_width", "open_outcomes"})  # and that those that wait can mend


def outlook(evidence: Evidence) -> Prospect | None:
    """What a test can still show; for evidence whose test has no limit, from the interval and the rows so far."""
    limited = evidence.plan is not None or (evidence.kind == "log" and evidence.candidate_hash)
    if evidence.prospect is not None or limited or evidence.n < FIRST_OUTLOOK:
        return evidence.prospect
    shown = evidence.difference
    likely = shown.value + _LIKELY * (shown.high - shown.low)
    if likely <= evidence.margin:
        return Prospect(likely=likely, needed=None, most=0)
    if evidence.needed is not None and evidence.needed > _TIMES * evidence.n:
        return Prospect(likely=likely, needed=evidence.needed, most=_TIMES * evidence.n)
    return None


def more_rows(evidence: Evidence) -> int | None:
    """Rows until there is likely a verdict: those still needed, or those that the test may take at most."""
    if evidence.prospect is not None:
        left = max(1, evidence.prospect.most - evidence.n)
        return left if evidence.needed is None else min(evidence.needed, left)
    if evidence.needed is None or evidence.needed > _TIMES * max(evidence.n, FIRST_OUTLOOK):
        return FIRST_OUTLOOK - evidence.n if evidence.n < FIRST_OUTLOOK else None
    return evidence.needed


def still_needed(evidence: Evidence) -> int:
    """Rows after which the rule, the guards and the checks that grow with rows have what they need; at least 1."""
    numbers = [more_rows(evidence), *(guard.needed for guard in evidence.guards)]
    numbers += [_missing(evidence, check) for check in evidence.diagnostics if not check.ok and check.name in _GROWS]
    return max((number for number in numbers if number), default=1)


def not_made(evidence: Evidence, more: int | None) -> int | None:
    """Of so many rows that a test still needs, those that must still be made; the others wait for their outcomes."""
    return more if evidence.waiting is None or more is None else max(0, more - evidence.waiting.counting)


def outcomes_hint(evidence: Evidence, more: int | None) -> str:
    """The cure where enough decisions are made and outcomes are late; empty where more decisions are needed."""
    if evidence.waiting is None or not more or not_made(evidence, more):
        return ""
    return (
        f"Send the {plural(evidence.waiting.open, 'open outcome')}; if they never come, say with on_censored "
        "what that means, and with reward_after_s how long to wait for them."
    )


def more_hint(evidence: Evidence) -> str:
    """What a test that is not decided still needs, in one sentence; empty if nothing is missing."""
    more, unit = more_rows(evidence), evidence.unit
    if evidence.needed == 0:
        return ""
    if outcomes_hint(evidence, more):
        return outcomes_hint(evidence, more)
    if more is None:
        return f"The candidate does not look better so far, so the number of {unit} needed is unknown."
    if more == evidence.needed:
        return f"Collect about {more:,} more {unit}."
    small = "no difference" if evidence.needed is None else "only a very small difference"
    if evidence.prospect is not None:
        return f"There is {small} so far: the test ends after {more:,} more {unit} at the latest."
    return f"There is {small} so far: whether a test is worth its while shows after about {more:,} more {unit}."


def refusal_of(evidence: Evidence, blocked: Sequence[Diagnostic]) -> tuple[Refusal, int | None]:
    """What kind of refusal the failed checks are, and how many more rows mend it."""
    names = {"beats" if diagnostic.name.startswith("beats_") else diagnostic.name for diagnostic in blocked}
    by_few = _NO_GAIN | _GROWS | _WITH_FEW | (_WITH_WAITING if evidence.waiting is not None else frozenset())
    few = "rows" in names and names <= by_few
    if few or ("speaking_rows" in names and names <= {"speaking_rows", "row_share"}):
        rows = [_missing(evidence, diagnostic) for diagnostic in blocked if diagnostic.name in _GROWS]
        known = [number for number in rows if number is not None]
        return ("few", max(known)) if known else ("data", None)
    return ("same", None) if names <= _NO_GAIN else ("data", None)


def _missing(evidence: Evidence, diagnostic: Diagnostic) -> int | None:
    """The rows that a check still needs; None if no number of them is in sight."""
    if diagnostic.name == "rows":
        return max(1, ceil(diagnostic.limit - diagnostic.value))
    if diagnostic.value <= 0.0:
        return None
    return max(1, ceil(evidence.n * (diagnostic.limit / diagnostic.value - 1.0)))
