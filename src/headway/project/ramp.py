"""A promotion that takes over the traffic in steps (`headway.promote.ramp`): start, next step, end.

Every step is a ledger row that names the evidence of the promotion, so a process that was killed goes on with the same
step, and every worker of a server draws with the same share. Who looks takes the step: the loop after every few
outcomes, or a person with `headway promote TASK`.

It applies where the log is the proof and a candidate can act on a share of the traffic: choices, by decision, request
or episode. A policy that is proven in a world, by votes or by held-out rows is promoted at once: its proof has no share
of the traffic, and its log no probabilities by which both policies could be compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headway.nouns import errors
from headway.project.experiment import ending
from headway.project.prove.kinds.kind import LOG
from headway.project.prove.subject import current_policy, gate_rules, stored_evidence
from headway.project.prove.terms import admission_of
from headway.project.publish import new_entry, record_together
from headway.promote import CandidatePolicy, Ramp, gate

if TYPE_CHECKING:
    from headway.nouns import Evidence, ExperimentEnding, Verdict
    from headway.project.project.folder import Opened
    from headway.promote import Entry, Heads
    from headway.settings import TaskSettings


def first_step(
    project: Opened, settings: TaskSettings, candidate: CandidatePolicy, heads: Heads, evidence_id: str | None
) -> Ramp | None:
    """The first step of a promotion on this evidence; None if it is promoted at once."""
    named = settings.name
    if (
        settings.ramp == "off"
        or evidence_id is None
        or not settings.traits.shared
        or named in project.servings.compared
    ):
        return None
    evidence = stored_evidence(project, evidence_id)
    if evidence.kind != LOG:
        return None
    tried = heads.canary or project.ledger.last(named, "experiment")
    alike = tried is not None and tried.policy_hash == candidate.digest and tried.n > heads.changed
    proven = float(tried.detail.get("acted_on", tried.share)) if tried is not None and alike else 0.0
    return Ramp.begin(proven=proven, rows=evidence.n)


def start_ramp(
    project: Opened, candidate: CandidatePolicy, ramp: Ramp, *, heads: Heads, row: dict[str, Any], who: str
) -> Entry:
    """The row of the first step; the candidate's experiment ends with it. `row`: what the promotion will say."""
    start = _step(project, candidate, ramp, row, expects=heads.expects, who=who)
    running = heads.experiment
    if running is None:
        return record_together(project, start)[0]
    ended: ExperimentEnding = "better" if running.policy_hash == candidate.digest else "replaced"
    return record_together(project, ending(project, running, ended, ended, who), start)[1]


def _step(
    project: Opened, candidate: CandidatePolicy, ramp: Ramp, row: dict[str, Any], *, expects: str, who: str
) -> Entry:
    why = f"decides on {ramp.target:.0%} of the traffic: step {ramp.step} of {len(ramp.shares)} of its promotion"
    if ramp.share < ramp.target:
        why += f", with {1.0 - ramp.share:.0%} held back"
    detail = {
        **row["detail"],
        "share": ramp.share,
        "ramp": ramp.detail,
        "from_decision": project.query.last_decision(candidate.task),
        "promotion": {"why": row["why"], "detail": row["detail"]},
    }
    return new_entry(
        project,
        candidate.task,
        "canary",
        candidate.ref,
        candidate.digest,
        why=why,
        who=who,
        expects=expects,
        evidence_id=row["evidence_id"],
        detail=detail,
    )


def proof_of(project: Opened, settings: TaskSettings, step: Entry) -> tuple[Evidence, gate.GateRules]:
    """The evidence of a promotion on its way, and the gate's rules with what a person accepted for it."""
    assert step.evidence_id is not None
    said = step.detail["promotion"]["detail"]
    accepted = frozenset({said["accepted"]} if "accepted" in said else ())
    return stored_evidence(project, step.evidence_id), gate_rules(settings, said.get("trusted_keys", ()), accepted)


def step_ramp(project: Opened, task: str, *, who: str = "") -> Entry | None:
    """Look at the running step of a task; the row of what follows, or None while the step goes on.

    retire    the candidate is proven worse than the previous policy at this share
    canary    the next step; with share 0, the evidence of the promotion does not apply any more
    promote   the last step is over
    """
    heads = project.ledger.heads(task)
    running = heads.canary
    if running is None or running.ramp is None:
        return None
    candidate = CandidatePolicy.of(running)
    stale = _stale(project, candidate, heads, running)
    if stale:
        return _write(project, candidate, heads, "canary", why=stale, who=who, detail={"share": 0.0})
    verdict = _look(project, running)
    if verdict is None or verdict.evidence is None:
        return None
    evidence = verdict.evidence
    if verdict.state == "worse":
        if gate.contested(evidence, gate_rules(project.settings.task(task))):
            return None
        why = f"automatic: {' '.join(verdict.reasons)} This was on {running.ramp.target:.0%} of the traffic."
        return _write(project, candidate, heads, "retire", why=why, who=who, evidence_id=evidence.id)
    if running.ramp.holds(evidence):
        return None
    following, said = running.ramp.next, running.detail["promotion"]
    row = {"why": said["why"], "detail": said["detail"], "evidence_id": running.evidence_id}
    if following is not None:
        step = _step(project, candidate, following, row, expects=heads.expects, who=who)
        return record_together(project, step)[0]
    row["detail"] = {**said["detail"], "ramp": running.ramp.shares}
    return _write(project, candidate, heads, "promote", who=who, **row)


def _write(project: Opened, candidate: CandidatePolicy, heads: Heads, kind: Any, **row: Any) -> Entry:
    entry = new_entry(project, candidate.task, kind, candidate.ref, candidate.digest, expects=heads.expects, **row)
    return record_together(project, entry)[0]


def _look(project: Opened, running: Entry) -> Verdict | None:
    """What the decisions of this step say about the candidate; None while there are none."""
    from headway.project.prove.examine import RollbackTest, examine

    assert running.ramp is not None
    test = RollbackTest(running.at, running.ramp.alpha)
    try:
        return examine(
            project, running.policy, against="current", task=running.task, outcomes=True, rollback=test
        ).verdict
    except errors.InvalidInput as error:
        if error.code not in errors.NOTHING_TO_READ:
            raise
        return None


def _stale(project: Opened, candidate: CandidatePolicy, heads: Heads, running: Entry) -> str:
    """Why the evidence of the promotion does not apply any more; empty if it does."""
    settings = project.settings.task(running.task)
    evidence, rules = proof_of(project, settings, running)
    current = current_policy(project, settings, heads)
    admission = admission_of(project, settings, candidate, current, because=evidence, rules=rules)
    if admission.state == "admitted":
        return ""
    changed = "; ".join(admission.changed) or " ".join(admission.verdict.reasons if admission.verdict else ())
    return f"the promotion ended, its evidence does not apply any more: {changed}"
