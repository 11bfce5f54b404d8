"""The next step for a task: the only function that computes it, and a pure one.

Terminal, page, agents and hints show its result. It uses the gate's `admission`, so it suggests `promote` exactly when
the gate admits the candidate.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from headway.nouns import Evidence, NextStep, StepVerb, Verdict, conclusion, errors, plural
from headway.promote.reliance import FLAGS, better_way
from headway.promote.standing import CandidatePolicy, Standing

_EXAMPLE = '"Summarise this page"'
FIRST_STEP = NextStep(
    verb="decide",
    command=f"headway decide route {_EXAMPLE} --candidates small,large",
    why="There are no tasks and no decisions yet.",
)
_URGENCY: dict[StepVerb, int] = {
    "doctor": 0,
    "rollback": 1,
    "end_canary": 1,
    "promote": 1,
    "experiment": 1,
    "ramp": 3,
    "alarm": 1,
    "prove": 1,
    "learn": 2,
    "plan": 3,
    "report": 3,
    "log": 4,
    "decide": 5,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """The number of decisions and signals of a task."""

    decisions: int
    signals: int
    pending: int = 0


_BUSY = Activity(decisions=1, signals=1)  # if the counts are unknown


def next_step(standing: Standing, activity: Activity = _BUSY) -> NextStep:
    """The command to run next for the task."""
    if standing.kit_missing:
        return NextStep(
            verb="doctor",
            command="headway doctor",
            why=f"No installed kit provides the family {standing.kit_missing!r} of {standing.current.ref}: "
            "the rules decide.",
        )
    if standing.disputed is not None and not standing.admitted:
        return _for_disputed(standing, standing.disputed)
    if standing.ramp is not None and standing.candidate is not None:
        return _step("ramp", f"headway promote {standing.task}", standing.ramp.text)
    if standing.alarm is not None and not standing.admitted:
        why = f"Alarm: {standing.alarm.why} Look at what was decided since."
        return _step("alarm", f"headway data log {standing.task}", why)
    if standing.offer:
        return _step("experiment", f"headway experiment start {standing.task}", standing.offer)
    if standing.candidate is not None and standing.admission is not None:
        return _for_candidate(standing, standing.candidate, activity)
    return _for_data(standing, activity)


def most_urgent(steps: Iterable[NextStep]) -> NextStep:
    """The first step among those of several tasks; how to start if there are none."""
    return min(steps, key=lambda step: _URGENCY[step.verb], default=FIRST_STEP)


def _for_disputed(standing: Standing, verdict: Verdict) -> NextStep:
    """What acts looks worse by one key's ratings: a person decides."""
    evidence, task = verdict.evidence, standing.task
    assert evidence is not None
    why = f"{conclusion(verdict)} {' '.join(verdict.reasons[1:])} Decide yourself whether you agree."
    if standing.canary is not None:
        return _step("end_canary", f"headway promote {task} --policy {evidence.candidate} --canary 0", why, evidence)
    return _step("rollback", f"headway rollback {task}", why, evidence)


def _for_candidate(standing: Standing, candidate: CandidatePolicy, activity: Activity) -> NextStep:
    admission = standing.admission
    assert admission is not None
    task, ref, evidence = standing.task, candidate.ref, standing.evidence
    named = "" if candidate.newest else f" --policy {ref}"
    prove = f"headway prove {task}{named}"
    if standing.unprovable is not None and admission.state in ("unproven", "stale"):
        return _cannot_prove(standing, ref, standing.unprovable)
    if standing.answer:  # no proof is suggested whose answer is known
        step = _for_data(standing, activity)
        return replace(step, why=f"{standing.answer}: there is nothing to prove. {step.why}")
    match admission.state:
        case "admitted":
            return _step("promote", f"headway promote {task} --policy {ref}", _admitted(standing, ref), evidence)
        case "asks":
            assert evidence is not None
            assert evidence.reliance is not None
            assert standing.verdict is not None
            command = f"headway promote {task} --policy {ref} {FLAGS[evidence.reliance]}"
            return _step("promote", command, f"{conclusion(standing.verdict)} {better_way(evidence)}", evidence)
        case "unproven":
            return _step("prove", prove, f"{ref} is not proven yet.")
        case "stale":
            return _step("prove", prove, _stale(standing, ref), evidence)
        case "refused":
            return _for_refused(standing, candidate, prove)
        case "already_current":
            return _step("report", f"headway report {task}{named}", f"{ref} is current.", evidence)


def _cannot_prove(standing: Standing, ref: str, error: errors.HeadwayError) -> NextStep:
    """What is missing before a proof of the candidate can be made."""
    why = f"{ref} cannot be proven yet. {error.message} {error.hint}".rstrip()
    if isinstance(error, errors.MissingExtra) or error.code == "unknown_world":
        return _step("doctor", "headway doctor", why)
    if standing.kind.votes and error.code == "no_evidence":
        return _step("prove", standing.kind.votes.format(task=standing.task), why)
    if not standing.settled:
        return _step("decide", _decide(standing), why)
    return _step("log", f"headway data log {standing.task}", why)


def _admitted(standing: Standing, ref: str) -> str:
    if standing.gate == "off":
        return f"The gate is off: {ref} can decide without a proof."
    judged = standing.verdict
    if judged is None:
        return f"{ref} is better than {standing.current.ref}."
    return f"{conclusion(judged)} {judged.reasons[-1]}" if standing.too_young else conclusion(judged)


def _stale(standing: Standing, ref: str) -> str:
    admission = standing.admission
    assert admission is not None
    return f"{ref} must be proven again: {'; '.join(admission.changed)}."


def _for_refused(standing: Standing, candidate: CandidatePolicy, prove: str) -> NextStep:
    """The verdict on fresh evidence is wait, refused or worse."""
    verdict, evidence = standing.verdict, standing.evidence
    assert verdict is not None
    assert evidence is not None
    task, ref = standing.task, candidate.ref
    acting = standing.canary is not None and standing.canary.policy_hash == candidate.digest
    reason = conclusion(verdict)
    if verdict.state == "worse" and acting:
        return _step("end_canary", f"headway promote {task} --policy {ref} --canary 0", reason, evidence)
    if standing.learns:
        return _step("learn", f"headway learn {task}", f"{reason} Enough has settled for a new candidate.", evidence)
    if verdict.state != "wait":
        shown = "" if candidate.newest else f" --policy {ref}"
        return _step("report", f"headway report {task}{shown}", reason, evidence)
    if standing.kind.votes:
        return _step("prove", standing.kind.votes.format(task=task), f"{reason} Vote on more pairs.", evidence)
    if evidence.kind != "log":
        return _step("prove", prove, f"{reason} Prove it again when there are more {evidence.unit}.", evidence)
    if acting:
        why = f"{ref} decides on a share of the traffic. {reason} Prove it again as outcomes come in."
        return _step("prove", prove, why, evidence)
    if verdict.more == 0 and evidence.waiting is not None:
        return _step("log", f"headway data log {task} --status pending", reason, evidence)
    return _step("plan", f"headway plan {task}{'' if candidate.newest else f' --policy {ref}'}", reason, evidence)


def _for_data(standing: Standing, activity: Activity) -> NextStep:
    """No candidate: collect, or learn one."""
    task = standing.task
    decide = _decide(standing)
    if not activity.decisions:
        return _step("decide", decide, "Nothing was decided yet.")
    if standing.kind.judged == "world":
        if standing.world:
            command = f"headway learn {task} --world {standing.world}"
            return _step("learn", command, "No candidate waits. Its policies practise in a world.")
        why = 'Its policies practise in a world; name it in headway.toml with world = "…".'
        return _step("log", f"headway data log {task}", why)
    if standing.learns:
        return _step("learn", f"headway learn {task}", "Enough has settled to learn a new candidate.")
    signals = standing.kind.rates.format(task=task)
    if not activity.signals:
        return _step("log", signals, "No decision has a signal yet; nothing can be learned without one.")
    more = plural(standing.until_next, "more settled decision")
    missing = f"{more} until a new candidate is learned." if standing.until_next else "a new candidate is due."
    if activity.pending:
        return _step("log", signals, f"{plural(activity.pending, 'decision')} without an outcome yet; {missing}")
    return _step("decide", decide, missing[:1].upper() + missing[1:])


def _decide(standing: Standing) -> str:
    """How decisions come in."""
    if standing.kind.decides:
        return standing.kind.decides.format(task=standing.task)
    return f"headway decide {standing.task} {_EXAMPLE}{'' if standing.has_actions else ' --candidates small,large'}"


def _step(verb: StepVerb, command: str, why: str, evidence: Evidence | None = None) -> NextStep:
    return NextStep(verb=verb, command=command, why=why, evidence=None if evidence is None else evidence.id or None)
