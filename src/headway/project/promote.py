"""Changes of the live policy: promotion on evidence, in steps or at once, a canary on a share, rollback."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headway.nouns import Evidence, PolicyRef, Reliance, Verdict, errors
from headway.project.prove.standing import standing
from headway.project.prove.subject import (
    candidate_policy,
    current_policy,
    gate_rules,
    known_raters,
    previous_policy,
    stored_evidence,
)
from headway.project.prove.terms import admission_of
from headway.project.publish import record_change
from headway.project.ramp import first_step, proof_of, start_ramp, step_ramp
from headway.promote import (
    FLAGS,
    CandidatePolicy,
    Entry,
    EntryKind,
    Heads,
    better_way,
    gate,
    reliance_words,
    unseen_changes,
)

if TYPE_CHECKING:
    from headway.project.project.folder import Opened
    from headway.promote import CurrentPolicy
    from headway.settings import TaskSettings


_Row = dict[str, Any]  # what a row of the ledger says beside the policy: why, evidence_id, detail


def promote(
    project: Opened,
    policy: str | None = None,
    *,
    because: Verdict | None = None,
    task: str | None = None,
    who: str = "",
    trust_keys: Sequence[str] = (),
    trust_claims: bool = False,
    predicts_only: bool = False,
    at_once: bool = False,
    why: str = "",
) -> Entry:
    """Make a candidate current, on evidence; GateRefused if the evidence is not sufficient.

    Beyond the share of the traffic at which it was proven, it takes over in steps (`headway.project.ramp`): the row is
    that of the first step, or of what follows the running one. `at_once` skips the steps, and the ledger says so.

    `trust_keys` may decide it alone; `trust_claims`: it may rest on probabilities that a client sent;
    `predicts_only`: on better predictions. The ledger records these, and your own reason (`why`).
    """
    believed: dict[Reliance, bool] = {"claims": trust_claims, "predictions": predicts_only}
    accepted = frozenset(name for name, yes in believed.items() if yes)
    heads = None if task is None else project.ledger.heads(task)
    candidate = candidate_policy(project, policy, task, heads)
    settings = project.settings.task(candidate.task)
    _verify_bundle(project, candidate.task, candidate.ref, candidate.digest)
    heads = heads or project.ledger.heads(candidate.task)
    current = current_policy(project, settings, heads)
    running = heads.canary
    named: Evidence | None
    if running is not None and running.ramp is not None and running.policy_hash == candidate.digest:
        if not at_once:
            return _next_step(project, running, who=who)
        named, rules = proof_of(project, settings, running)
    else:
        named = _named_evidence(project, candidate, because)
        rules = gate_rules(settings, known_raters(project, trust_keys), accepted)
    row = _admitted(project, settings, candidate, current, named, rules)
    if why.strip():
        row["detail"]["note"] = why.strip()
    ramp = first_step(project, settings, candidate, heads, row.get("evidence_id"))
    if ramp is not None and not at_once:
        return start_ramp(project, candidate, ramp, heads=heads, row=row, who=who)
    if ramp is not None:
        row["detail"]["at_once"] = True
    return _become(project, settings, "promote", (candidate.ref, candidate.digest), heads=heads, who=who, **row)


def _next_step(project: Opened, running: Entry, *, who: str) -> Entry:
    """What follows the running step of a promotion; Conflict while it goes on."""
    task = running.task
    entry = step_ramp(project, task, who=who)
    if entry is not None:
        return entry
    ramp = standing(project, task).ramp
    raise errors.Conflict(
        "" if ramp is None else ramp.text,
        code="ramp_running",
        hint=f"Wait for more outcomes. To skip the steps: headway promote {task} --at-once. "
        f"Undo: headway rollback {task}",
    )


def _admitted(
    project: Opened,
    settings: TaskSettings,
    candidate: CandidatePolicy,
    current: CurrentPolicy,
    named: Evidence | None,
    rules: gate.GateRules,
) -> _Row:
    """The gate's verdict, as the row of a promotion or as an error."""
    admission = admission_of(project, settings, candidate, current, because=named, rules=rules)
    if admission.state != "admitted":
        raise _refusal(admission, candidate)
    verdict = admission.verdict
    if settings.gate == "off" or verdict is None or verdict.evidence is None:
        return {"why": "gate off", "detail": {}}
    evidence, resting = verdict.evidence, gate.resting_on(verdict, rules.trusted)
    why = f"{verdict} (trusting {', '.join(resting)})" if resting else str(verdict)
    detail: dict[str, Any] = {"trusted_keys": list(resting)} if resting else {}
    if evidence.declared:
        detail["declared"] = dict(evidence.declared)
    if evidence.reliance is not None:
        detail["accepted"] = evidence.reliance
        why = f"{why}. Accepted: {' '.join(reliance_words(evidence))}"
    why = ". ".join((why, *unseen_changes(evidence, settings.final_after_s)))
    return {"why": why, "evidence_id": evidence.id, "detail": detail}


def _named_evidence(project: Opened, candidate: CandidatePolicy, because: Verdict | None) -> Evidence | None:
    """The evidence that a promotion names; it must be about the candidate."""
    if because is None or because.evidence is None:
        return None
    evidence = stored_evidence(project, because.evidence.id)
    if evidence.candidate != candidate.ref:
        raise errors.InvalidInput(
            f"That evidence is about {evidence.candidate}, not {candidate.ref}.", code="wrong_evidence"
        )
    return evidence


def _refusal(admission: gate.Admission, candidate: CandidatePolicy) -> errors.Conflict | errors.GateRefused:
    task, ref, verdict = candidate.task, candidate.ref, admission.verdict
    if admission.state == "already_current":
        return errors.Conflict(
            f"{ref} is current already.", code="already_current", hint=f"Undo: headway rollback {task}"
        )
    if verdict is None or verdict.evidence is None:
        return errors.GateRefused(
            f"There is no evidence for {ref} yet.",
            reasons=("nothing was proven",),
            hint=f"Prove it first: headway prove {task}",
        )
    if admission.state == "stale":
        what = f"The evidence for {ref} does not apply any more: {'; '.join(admission.changed)}."
        return errors.Conflict(what, code="stale_evidence", hint=f"Prove it again: headway prove {task}")
    hint, reliance = verdict.hint.strip(), verdict.evidence.reliance
    if admission.state == "asks" and reliance is not None:
        accept = f"To accept that: headway promote {task} --policy {ref} {FLAGS[reliance]}"
        hint = f"{better_way(verdict.evidence)} {accept}"
    return errors.GateRefused(" ".join(verdict.reasons), reasons=verdict.reasons, hint=hint)


def rollback(
    project: Opened, task: str, *, to: str | None = None, why: str = "", who: str = "", evidence_id: str | None = None
) -> Entry:
    """Make the previous policy (or `to`) current again; of a promotion on its way, end it."""
    settings = project.settings.task(task)
    heads = project.ledger.heads(task)
    current = current_policy(project, settings, heads)
    running = heads.canary
    if running is not None and running.ramp is not None and to is None:
        why = f"rolled back from {running.ramp.target:.0%} of the traffic{f': {why}' if why else ''}"
        return _aside(project, CandidatePolicy.of(running), "retire", why=why, who=who, evidence_id=evidence_id)
    ref, digest = previous_policy(project, settings) if to is None else project.servings.resolve(settings, to)
    if digest == current.digest:
        raise errors.Conflict(
            f"{ref} is current already; there is nothing to roll back to.",
            code="already_current",
            hint=f"`headway status` shows the ledger of {task!r}.",
        )
    _verify_bundle(project, task, ref, digest)
    row: _Row = {"why": why or f"back from {current.ref}", "evidence_id": evidence_id}
    return _become(project, settings, "rollback", (ref, digest), heads=heads, who=who, **row)


def _become(
    project: Opened, settings: TaskSettings, kind: EntryKind, policy: tuple[str, str], *, heads: Heads, **row: Any
) -> Entry:
    """The row that makes a policy current, refused if another one became current since `heads` was read."""
    entry = record_change(project, settings.name, kind, *policy, expects=heads.expects, **row)
    serving = project.servings.renew(settings, heads.after(entry))
    assert project.settings.policy_override or serving.digest == policy[1], "what is served is what was promoted"
    return entry


def canary(
    project: Opened, policy: str | None = None, *, share: float, task: str | None = None, who: str = ""
) -> Entry:
    """Let a candidate decide on a share of the traffic; share 0 ends it."""
    candidate = candidate_policy(project, policy, task)
    settings = project.settings.task(candidate.task)
    if not 0.0 <= share <= 0.5:
        raise errors.InvalidInput(
            f"The canary's share is {share!r}, expected 0 to 0.5.",
            code="bad_share",
            hint="A fifth (0.2) is a good start; promote the policy when it is to take the rest.",
        )
    if not settings.traits.shared:
        raise errors.InvalidInput(
            f"A canary needs a choice task; {settings.name!r} is {settings.kind}.",
            code="bad_kind",
            hint=f"Prove {candidate.ref} and promote it: headway prove {settings.name}",
        )
    why = f"decides on {share:.0%} of the traffic"
    return _aside(project, candidate, "canary", why=why, who=who, detail={"share": share})


def shadow(project: Opened, policy: str | None = None, *, task: str | None = None, who: str = "") -> Entry:
    """Mark a candidate as a shadow: it is compared and never acts."""
    return _aside(project, candidate_policy(project, policy, task), "shadow", why="compared without acting", who=who)


def retire(
    project: Opened,
    policy: str,
    *,
    task: str | None = None,
    why: str = "",
    who: str = "",
    evidence_id: str | None = None,
) -> Entry:
    """Retire a candidate; it can still be promoted later."""
    candidate = candidate_policy(project, policy, task)
    current = current_policy(project, project.settings.task(candidate.task))
    if candidate.digest == current.digest:
        raise errors.Conflict(
            f"{candidate.ref} is current.",
            code="already_current",
            hint=f"Roll back first: headway rollback {candidate.task}",
        )
    return _aside(project, candidate, "retire", why=why or "set aside", who=who, evidence_id=evidence_id)


def _aside(project: Opened, candidate: CandidatePolicy, kind: EntryKind, **row: Any) -> Entry:
    """A row that does not change the current policy."""
    project.settings.task(candidate.task)
    if kind != "retire":
        _verify_bundle(project, candidate.task, candidate.ref, candidate.digest)
    last = project.ledger.current(candidate.task)
    expects = last.policy_hash if last else ""
    return record_change(project, candidate.task, kind, candidate.ref, candidate.digest, expects=expects, **row)


def _verify_bundle(project: Opened, task: str, ref: str, digest: str) -> None:
    """Check that a bundle is complete and a kit has its family; a built-in policy has no bundle."""
    parsed = PolicyRef.parse(ref)
    if not parsed.built_in:
        project.catalogue.family(parsed.family)
        project.registry.load(digest, task=task)
