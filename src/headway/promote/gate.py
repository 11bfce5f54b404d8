"""Evidence × rules → Verdict: a pure function. Anyone can recompute it from the stored evidence.

pass      the rule's statistic is above its threshold, no check blocks, no guard fails
wait      no check fails; there is not enough evidence yet, for the rule or for a guard
no difference
          what is likely at most would take more decisions to show than a test may take
refused   a check blocks, a guard fails, or the registered test ended without a proof
worse     proven worse by the other side of the same rule; a canary or current policy is rolled back

A guard is a requirement of its own: the candidate must be shown not to be worse on it by more than its tolerance. A
segment is an alarm: it refuses a candidate that is proven worse there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Literal

from headway.nouns import CLIPPING, CLIPPING_AGAINST, Diagnostic, Evidence, Guard, Prospect, Reliance, Verdict, plural
from headway.promote.one_key import KEY_CHECKS, depends_on, rests_on, with_key_checks
from headway.promote.reliance import reliance_words, unseen_changes
from headway.promote.shortfall import more_hint, more_rows, not_made, outcomes_hint, outlook, refusal_of
from headway.promote.terms import Terms, changes

__all__ = [
    "KEY_CHECKS",
    "Admission",
    "AdmissionState",
    "GateRules",
    "accusers",
    "admission",
    "contested",
    "resting_on",
    "verdict",
    "worse",
]

AdmissionState = Literal["admitted", "asks", "already_current", "unproven", "stale", "refused"]

WAITING = "waiting for their outcome"  # decisions that are not mature yet, among the counts of an evidence
_BET = "betting"  # the rule for logged decisions


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRules:
    """The requirements for a promotion, with the defaults."""

    alpha: float = 0.04  # log, world, heldout: for the first test; the k-th gets alpha (promotions + 1) / (2k (k+1))
    preference_alpha: float = 0.05  # likewise: the first passes at E ≥ 20
    margin: float = 0.0
    trusted: frozenset[str] = frozenset()  # keys that may decide a verdict; "" and the project itself always may
    accepted: frozenset[Reliance] = frozenset()  # what a person lets a promotion rest on
    final_after_s: float = 0.0  # in a younger log, changes of outcomes may not have been seen yet


_SHARED = frozenset({"episode_result", "request_result"})  # one result of several decisions, which counts at its worst
_OF_MISSING = frozenset({"missing_width", "missing_depends_on_action", "open_outcomes", "unanswered"}) | _SHARED
# Checks that never veto a rollback: missing outcomes count at the value that speaks for the candidate when the question
# is whether it is worse, and traffic that has changed since training is a reason to roll back.
# Nor does the number of rows veto a bet, which holds for any number.
_FOR_A_PASS = _OF_MISSING | {"training_rows", "drift", *KEY_CHECKS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Whether a candidate may become current now. `promote` and the next step both follow it.

    admitted          the gate is off, or the evidence is fresh and its verdict is a pass
    asks              the same, but the verdict rests on what only a person may accept (`Evidence.reliance`)
    already_current   there is nothing to promote
    unproven          there is no evidence
    stale             the evidence is bound to other terms: another policy is current, or the configuration, the reward
                      or a declaration has changed
    refused           the verdict on fresh evidence is wait, no difference, refused or worse
    """

    state: AdmissionState
    verdict: Verdict | None = None  # on the latest evidence, fresh or not, under the present rules
    fresh: bool = False  # whether that evidence is about the policies as they would be served now
    changed: tuple[str, ...] = ()  # what the evidence is bound to and is different now


def admission(
    *,
    terms: Terms,
    evidence: Evidence | None,
    config: Mapping[str, Any] | None = None,
    rules: GateRules | None = None,
    gate_on: bool = True,
) -> Admission:
    """Whether the gate admits a candidate under the present terms. A pure function of its arguments.

    `config` is the configuration that the evidence was made under, if it is stored: it gives stale evidence its reason.
    """
    judged = None if evidence is None else verdict(evidence, rules)
    changed = () if evidence is None else changes(evidence, terms, config)
    if judged is not None and judged.passed and evidence is not None and not evidence.test:
        changed = (*changed, "the look was not charged to the error budget")
    fresh = evidence is not None and not changed
    accepted = evidence is not None and evidence.reliance in {None, *(rules.accepted if rules else ())}
    state: AdmissionState
    if terms.candidate_hash == terms.against_hash:
        state = "already_current"
    elif not gate_on:
        state = "admitted"
    elif judged is None:
        state = "unproven"
    elif not fresh:
        state = "stale"
    elif judged.passed:
        state = "admitted" if accepted else "asks"
    else:
        state = "refused"
    return Admission(state=state, verdict=judged, fresh=fresh, changed=changed)


def verdict(evidence: Evidence, rules: GateRules | None = None) -> Verdict:
    """Whether the candidate may be promoted, with every reason. A pure function of its arguments."""
    rules = rules or GateRules()
    evidence, deciding = with_key_checks(evidence, rules.trusted)
    stale = _stale(evidence, rules)
    if stale:
        return Verdict(
            state="refused", reasons=(stale,), hint="Prove again under the present rules.", evidence=evidence
        )
    if worse(evidence):
        return Verdict(
            state="worse",
            reasons=(f"Proven worse than {evidence.against}: {_range(evidence)}.", *contested(evidence, rules)),
            hint="Keep the current policy; if this one is live, roll it back.",
            evidence=evidence,
        )
    return _blocked(evidence) or _guarded(evidence) or _decided_by_rule(evidence, deciding, rules)


def _blocked(evidence: Evidence) -> Verdict | None:
    """Refused because a data check fails; its numbers are not shown."""
    blocked = [check for check in evidence.diagnostics if check.refuses]
    blocked = blocked or [check for check in evidence.diagnostics if _hides_worth(evidence, check)]
    if not blocked:
        return None
    refusal, more = refusal_of(evidence, blocked)
    return Verdict(
        state="refused",
        reasons=(*(_reason(diagnostic) for diagnostic in blocked), *(_waiting(evidence) if refusal == "few" else ())),
        hint=outcomes_hint(evidence, more) or _cures(blocked),
        evidence=evidence,
        disowned=True,
        refusal=refusal,
        more=not_made(evidence, more),
    )


def _waiting(evidence: Evidence) -> tuple[str, ...]:
    """Why there are fewer rows than decisions: those after the maturity mark."""
    waiting = evidence.counts.get(WAITING, 0)
    if not waiting:
        return ()
    when = "once 99% of each action's outcomes are in, or reward_after_s is over"
    return (f"{plural(waiting, 'more decision waits', 'more decisions wait')}, to be read {when}.",)


def _reason(diagnostic: Diagnostic) -> str:
    if diagnostic.message.startswith("Cannot tell"):
        return f"{diagnostic.message}."
    name = "Cannot tell" if diagnostic.name in _OF_MISSING | {CLIPPING_AGAINST} else diagnostic.name
    return f"{name}: {diagnostic.message}."


def _guarded(evidence: Evidence) -> Verdict | None:
    """Refused or kept waiting because of a guard."""
    bad = [guard for guard in evidence.guards if not guard.ok]
    failed = [guard for guard in bad if not guard.undecided and not guard.cure]
    unknown = [guard for guard in bad if guard.cure]
    if failed or unknown:
        return Verdict(
            state="refused",
            reasons=(
                *(f"Guard {guard.name} got worse: {guard.message}." for guard in failed),
                *(f"Cannot tell whether guard {guard.name} holds: {guard.message}." for guard in unknown),
            ),
            hint=" ".join(guard.cure for guard in unknown)
            if not failed
            else "Learn again with this metric in the reward, or raise its tolerance.",
            evidence=evidence,
            refusal="guard" if any(guard.difference.n for guard in failed) else "data",
        )
    if not bad or not evidence.shows_better:
        return None
    reasons = tuple(f"Guard {guard.name} is not shown to be within its tolerance: {guard.message}." for guard in bad)
    if evidence.ended:
        return Verdict(
            state="refused",
            reasons=(f"The test is over: it was registered for {plural(evidence.n, 'decision')}.", *reasons),
            hint="Register a longer test for the next candidate, or raise the tolerance.",
            evidence=evidence,
        )
    more = max((guard.needed for guard in bad if guard.needed is not None), default=None)
    return Verdict(
        state="wait",
        reasons=(_passed(evidence), *reasons, *_waiting(evidence)),
        hint=outcomes_hint(evidence, more) or _guards_need(bad),
        evidence=evidence,
        more=not_made(evidence, more),
    )


def _declaration(evidence: Evidence) -> tuple[str, ...]:
    said = []
    if evidence.declared.get("missing") == "at random":
        said.append("Missing outcomes are left out, because they are declared to be missing at random.")
    if "capped" in evidence.declared:
        cut = next((check.message for check in evidence.diagnostics if check.name == CLIPPING), "")
        said.append(f"This holds for the reward cut to its range, as the task declares (capped): {cut}.")
    return tuple(said)


def _guards_need(undecided: Sequence[Guard]) -> str:
    numbers = [guard.needed for guard in undecided]
    if any(number is None for number in numbers):
        return "It looks worse than its tolerance so far: raise the tolerance, or learn again with this metric."
    return f"Collect about {plural(max(number or 0 for number in numbers), 'more decision')}, or raise the tolerance."


def _decided_by_rule(evidence: Evidence, deciding: Sequence[str], rules: GateRules) -> Verdict:
    if evidence.shows_better:
        return Verdict(
            state="pass",
            reasons=(
                _passed(evidence),
                *reliance_words(evidence),
                *depends_on(deciding),
                *_declaration(evidence),
                *unseen_changes(evidence, rules.final_after_s),
            ),
            evidence=evidence,
        )
    if evidence.ended:
        return Verdict(
            state="refused",
            reasons=(f"The planned {evidence.n:,} {evidence.unit} are used up without a proof: {_short(evidence)}.",),
            hint="The test is over; learn a new candidate, or register a longer horizon for the next one.",
            evidence=evidence,
            refusal="ended",
        )
    prospect = outlook(evidence)
    if prospect is not None and prospect.futile:
        return Verdict(
            state="no difference",
            reasons=(_no_difference(evidence, prospect),),
            hint="Keep the current policy; the next candidate can be tested.",
            evidence=evidence,
        )
    return Verdict(
        state="wait",
        reasons=(f"Not proven yet: {_short(evidence)}.", *_waiting(evidence)),
        hint=more_hint(evidence),
        evidence=evidence,
        more=not_made(evidence, more_rows(evidence)),
    )


def _no_difference(evidence: Evidence, prospect: Prospect) -> str:
    most = f"No difference: at most {prospect.likely:+.3f} is likely"
    if prospect.likely <= evidence.margin or prospect.needed is None:
        wanted = f"more than {evidence.margin:+g}" if evidence.margin else "an improvement"
        return f"{most}, and a promotion needs {wanted}."
    if evidence.prospect is None:
        return f"{most}; showing it would take more than {prospect.most:,} {evidence.unit}."
    if evidence.n >= prospect.most:
        return f"{most}; the {prospect.most:,} {evidence.unit} that a test may take are used up."
    return f"{most}; showing it would take {prospect.needed:,} {evidence.unit}, and a test may take {prospect.most:,}."


def _hides_worth(evidence: Evidence, check: Diagnostic) -> bool:
    """Whether it is the check of cuts that hurt the candidate, and these are all that speaks against it."""
    if check.name != CLIPPING_AGAINST or evidence.shows_better:
        return False
    if evidence.shows_worse:
        return not check.ok or 0.0 < check.value >= -(evidence.bounds or (0.0, -inf))[1]
    prospect = None if check.ok else outlook(evidence)
    return prospect is not None and prospect.futile


def worse(evidence: Evidence) -> bool:
    """Whether the candidate is proven worse than the policy it is compared with, which allows an automatic rollback.

    Applies the rule's other side without the margin. Overlap checks still apply: a log that cannot support a promotion
    cannot support a rollback either. Checks that protect only a pass do not, nor do guards.
    """
    waived = _FOR_A_PASS | ({"rows"} if evidence.rule.startswith(_BET) else set())
    if any(diagnostic.name == CLIPPING_AGAINST for diagnostic in evidence.diagnostics):
        waived |= {CLIPPING}  # which is about a pass; before there were two checks, it was about both
    blocked = any(
        (diagnostic.refuses and diagnostic.name not in waived) or _hides_worth(evidence, diagnostic)
        for diagnostic in evidence.diagnostics
    )
    return not blocked and evidence.shows_worse


def accusers(evidence: Evidence, rules: GateRules) -> tuple[str, ...]:
    """Keys that nobody trusts and without which the candidate is not proven worse. Only a person rolls back then."""
    allowed = rules.trusted | frozenset(evidence.trusted)
    named, accusing = {rater.name: rater for rater in evidence.raters}, evidence.deciding_worse()
    return tuple(name for name in accusing if not named[name].excused(allowed)) if worse(evidence) else ()


def contested(evidence: Evidence, rules: GateRules) -> tuple[str, ...]:
    """Why only a person takes back a policy that is proven worse; empty if that may happen automatically."""
    names = accusers(evidence, rules)
    if not names:
        return reliance_words(evidence) if worse(evidence) else ()
    who = f"the key {names[0]!r}" if len(names) == 1 else f"one of the keys {', '.join(map(repr, names))}"
    return (f"But only by the ratings of {who}: without them it is not, so nothing is rolled back automatically.",)


def resting_on(verdict_: Verdict, trusted: Iterable[str]) -> tuple[str, ...]:
    """The trusted keys that a pass depends on; for the ledger."""
    if verdict_.evidence is None or not verdict_.passed:
        return ()
    return rests_on(verdict_.evidence, {*trusted, *verdict_.evidence.trusted})


def _stale(evidence: Evidence, rules: GateRules) -> str:
    """Why this evidence was computed under weaker rules than these; empty if it was not."""
    if evidence.kind == "log" and not evidence.rule.startswith(_BET):
        return f"The evidence was made by the rule of an earlier version ({evidence.rule})."
    whole = rules.preference_alpha if evidence.kind == "preference" else rules.alpha
    k = evidence.challenger
    allowed = whole * (evidence.promotions + 1) * (1.0 if k <= 1 else 1.0 / (2 * k * (k + 1)))
    if evidence.alpha > allowed * (1.0 + 1e-9):
        return f"The evidence uses α = {evidence.alpha:.3g}; challenger {evidence.challenger} may use {allowed:.3g}."
    if evidence.margin < rules.margin:
        return f"The evidence shows an uplift above {evidence.margin:g}; the task requires {rules.margin:g}."
    return ""


def _passed(evidence: Evidence) -> str:
    if evidence.kind == "preference":
        return (
            f"Preferred over {evidence.against}: the betting score (E-value) is {_e(evidence.statistic)} and passes "
            f"at {_e(evidence.threshold)}."
        )
    if evidence.kind == "heldout":
        return f"Predicts held-out rows better than {evidence.against}: {_range(evidence)} ({evidence.rule})."
    return f"Better than {evidence.against}: {_range(evidence)} ({evidence.rule})."


def _short(evidence: Evidence) -> str:
    if evidence.kind == "preference":
        return f"E-value {_e(evidence.statistic)} is below {_e(evidence.threshold)}"
    if evidence.bounds is None:
        return "the test does not exclude that it is no better"
    return f"lower bound {evidence.bounds[0]:+.4f} is not above {evidence.margin:g}"


def _range(evidence: Evidence) -> str:
    if evidence.kind == "preference":
        return f"preferred in {evidence.difference.value + 0.5:.0%} of {plural(evidence.n, 'decided comparison')}"
    if evidence.bounds is None:
        return f"about {evidence.difference.value:+.4f}, without a bound"
    low, high = evidence.bounds
    return f"{evidence.difference.value:+.4f}, between {low:+.4f} and {high:+.4f}, however often you check"


def _e(logarithm: float) -> str:
    """E from its logarithm."""
    if logarithm > 9.0:
        return "over 8,000"
    value = 2.718281828459045**logarithm
    return f"{value:,.3g}" if value >= 0.01 else "under 0.01"


def _cures(blocked: list[Diagnostic]) -> str:
    return " ".join(list(dict.fromkeys(diagnostic.cure for diagnostic in blocked if diagnostic.cure))[:2])
