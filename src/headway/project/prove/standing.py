"""How a task stands: the record that `status`, the next step and the loop share, from ledger and store."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headway.nouns import RampState
from headway.observe import first_decision
from headway.project.prove.change import latest_alarms, learned_before
from headway.project.prove.cost import with_forecast
from headway.project.prove.kinds.kind import unprovable
from headway.project.prove.start import known_answer
from headway.project.prove.subject import current_policy, gate_rules, most_decisions, previous_policy, stored_evidence
from headway.project.prove.terms import admission_of
from headway.promote import CandidatePolicy, Standing, gate, too_young
from headway.reward import VOTE

if TYPE_CHECKING:
    from headway.nouns import Verdict
    from headway.project.project.folder import Opened
    from headway.promote import Admission, CurrentPolicy, Entry, Heads
    from headway.settings import TaskSettings


_LOOKS = 20  # the latest ones, among which those at earlier states of a policy are


def standing(project: Opened, task: str, candidate: CandidatePolicy | None = None) -> Standing:
    """The state of a task, for `next_step` and the background loop; about its newest candidate unless one is given."""
    settings = project.settings.task(task)
    heads = project.ledger.heads(task)
    current = current_policy(project, settings, heads)
    newest = heads.candidate
    shadow = _next_in_turn(heads)
    learned = shadow or newest
    mark = int(learned.detail.get("upto", 0)) if learned is not None else 0
    step = heads.canary if heads.canary is not None and heads.canary.ramp is not None else None
    if candidate is None and step is not None:
        candidate = CandidatePolicy.of(step)
    if candidate is not None:
        candidate = replace(candidate, newest=newest is not None and newest.policy_hash == candidate.digest)
    elif newest is not None and not _decided(project, newest, current.digest):
        candidate = CandidatePolicy.of(newest)
    proof = step.evidence_id if step is not None and candidate and step.policy_hash == candidate.digest else None
    admission = None if candidate is None else _admission(project, settings, candidate, current, proof)
    young = _too_young(settings, admission)
    first = first_decision(project.database, project.query.name_id("task", task))
    tested, answer = candidate is not None and _tested(project, heads, candidate), ""
    open_question = admission is not None and admission.state in ("unproven", "stale") and not tested
    if candidate is not None and candidate.newest and open_question:
        answer = known_answer(project, settings, candidate, current)
    return Standing(
        task=task,
        kind=settings.traits,
        world=settings.world,
        current=current,
        acting=heads.current,
        canary=heads.canary,
        ramp=_ramp(project, heads, current.ref),
        alarm=heads.alarm,
        outdated=heads.alarm is not None and learned_before(latest_alarms(project, task), newest),
        experiment=heads.experiment,
        candidate=candidate,
        admission=admission,
        too_young=young,
        final=not young or project.clock() >= (first.at if first is not None else 0.0) + settings.final_after_s,
        shadow=shadow,
        tested=tested,
        answer=answer,
        most=most_decisions(settings),
        settled=project.query.count_settled(task),
        since=project.query.count_settled(task, after=mark),
        votes=project.query.count_signals(task, VOTE) if settings.traits.judged == "votes" else 0,
        retrain_after=settings.retrain_after,
        gate=settings.gate,
        promote=settings.promote,
        canary_share=settings.canary,
        has_actions=bool(settings.actions),
        kit_missing=project.servings.kit_missing(heads.current) or None,
        disputed=_disputed(project, settings, heads, current.digest),
        unprovable=None if candidate is None else unprovable(project, settings, candidate, current),
    )


def _ramp(project: Opened, heads: Heads, current: str) -> RampState | None:
    """The promotion of a task that is on its way, as `status` shows it."""
    running = heads.canary
    if running is None or running.ramp is None:
        return None
    ramp, task, done, held = running.ramp, running.task, 0, ""
    identifier = project.ledger.latest_evidence(task, running.policy_hash, since=running.at)
    if identifier is not None:
        evidence = stored_evidence(project, identifier)
        done, held = min(evidence.n, ramp.least), ramp.holds(evidence) if evidence.n >= ramp.least else ""
    return RampState(
        task=task,
        policy=running.policy,
        against=current,
        shares=ramp.shares,
        step=ramp.step,
        share=ramp.share,
        since=running.at,
        decisions=project.query.count_units(task, after=int(running.detail["from_decision"])),
        counted=done,
        least=ramp.least,
        held=held,
        unit=project.settings.task(task).unit,
    )


def _admission(
    project: Opened, settings: TaskSettings, candidate: CandidatePolicy, current: CurrentPolicy, proof: str | None
) -> Admission:
    """Whether the gate admits the candidate, and until when a verdict that is too early needs more.

    `proof`: the evidence of a promotion on its way; later evidence is about its steps.
    """
    named = None if proof is None else stored_evidence(project, proof)
    admission = admission_of(project, settings, candidate, current, because=named)
    if admission.verdict is None:
        return admission
    return replace(admission, verdict=with_forecast(project, admission.verdict))


def _too_young(settings: TaskSettings, admission: Admission | None) -> bool:
    """Whether a candidate that the gate admits is proven by a log that is too young for the loop to act on."""
    evidence = None if admission is None or admission.verdict is None else admission.verdict.evidence
    admitted = admission is not None and admission.state == "admitted" and settings.gate == "on"
    return admitted and evidence is not None and too_young(evidence, settings.final_after_s)


def _next_in_turn(heads: Heads) -> Entry | None:
    shadow, newest = heads.shadow, heads.candidate
    return None if shadow is None or (newest and newest.policy_hash == shadow.policy_hash) else shadow


def _tested(project: Opened, heads: Heads, candidate: CandidatePolicy) -> bool:
    """Whether the test of a candidate has begun, since the last promotion or rollback."""
    if heads.experiment is not None and heads.experiment.policy_hash == candidate.digest:
        return True
    test = project.ledger.tested(candidate.task, candidate.digest)
    return test is not None and test.n > heads.changed


def _decided(project: Opened, newest: Entry, current_hash: str) -> bool:
    """Whether the newest candidate is current or was retired."""
    if newest.policy_hash == current_hash:
        return True
    return project.ledger.state(newest.task, newest.policy_hash) in ("current", "retired")


def _disputed(project: Opened, settings: TaskSettings, heads: Heads, current_hash: str) -> Verdict | None:
    """The verdict on what acts, if it is proven worse by one key's ratings alone."""
    share = heads.canary or heads.experiment
    if share is not None:
        verdict = _accused(project, settings, share, current_hash)
        if verdict is not None:
            return verdict
    current = heads.current
    if current is None or current.kind == "rollback":
        return None
    return _accused(project, settings, current, previous_policy(project, settings)[1])


def _accused(project: Opened, settings: TaskSettings, acting: Entry, against: str) -> Verdict | None:
    """The latest verdict on a policy that acts, if it is proven worse than the other by one key's ratings alone."""
    identifier = project.ledger.latest_evidence(settings.name, acting.policy_hash)
    if identifier is None and acting.kind == "snapshot":  # looked at in an earlier state
        looks = project.ledger.evidences(settings.name, limit=_LOOKS)
        snapshots = project.ledger.snapshot_parents(settings.name) if looks else {}
        identifier = next((look for look, _, digest, _ in looks if digest in snapshots), None)
    if identifier is None:
        return None
    rules = gate_rules(settings)
    verdict = gate.verdict(stored_evidence(project, identifier), rules)
    evidence = verdict.evidence
    assert evidence is not None
    fresh = evidence.against_hash == against and evidence.reward_version == project.rewards(settings.name).version
    return verdict if fresh and verdict.state == "worse" and gate.contested(evidence, rules) else None
