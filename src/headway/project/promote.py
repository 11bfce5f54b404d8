"""Changes of the live policy: promotion on evidence, a canary on a share of the traffic, rollback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headway.nouns import Conflict, Evidence, GateRefused, InvalidInput, PolicyRef, Reliance, Verdict
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
from headway.promote import FLAGS, Entry, EntryKind, Heads, better_way, gate, reliance_words

if TYPE_CHECKING:
    from headway.project.project.folder import Opened
    from headway.promote import CandidatePolicy, CurrentPolicy
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
    why: str = "",
) -> Entry:
    """Make a candidate current, on evidence; GateRefused if the evidence is not sufficient.

    `trust_keys` may decide it alone; `trust_claims`: it may rest on probabilities that a client sent;
    `predicts_only`: on better predictions. The ledger records these, and your own reason (`why`).
    """
    trusted = known_raters(project, trust_keys)
    accepted: dict[Reliance, bool] = {"claims": trust_claims, "predictions": predicts_only}
    heads = None if task is None else project.ledger.heads(task)
    candidate = candidate_policy(project, policy, task, heads)
    settings = project.settings.task(candidate.task)
    _verify_bundle(project, candidate.task, candidate.ref, candidate.digest)
    heads = heads or project.ledger.heads(candidate.task)
    current = current_policy(project, settings, heads)
    row = _admitted(project, settings, candidate, current, because, trusted, accepted)
    if why.strip():
        row["detail"]["note"] = why.strip()
    return _become(project, settings, "promote", (candidate.ref, candidate.digest), heads=heads, who=who, **row)


def _admitted(
    project: Opened,
    settings: TaskSettings,
    candidate: CandidatePolicy,
    current: CurrentPolicy,
    because: Verdict | None,
    trusted: Sequence[str],
    accepted: Mapping[Reliance, bool],
) -> _Row:
    """The gate's verdict, as the row of a promotion or as an error."""
    named = _named_evidence(project, candidate, because)
    rules = gate_rules(settings, trusted, frozenset(name for name, believed in accepted.items() if believed))
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
    return {"why": why, "evidence_id": evidence.id, "detail": detail}


def _named_evidence(project: Opened, candidate: CandidatePolicy, because: Verdict | None) -> Evidence | None:
    """The evidence that a promotion names; it must be about the candidate."""
    if because is None or because.evidence is None:
        return None
    evidence = stored_evidence(project, because.evidence.id)
    if evidence.candidate != candidate.ref:
        raise InvalidInput(f"That evidence is about {evidence.candidate}, not {candidate.ref}.", code="wrong_evidence")
    return evidence


def _refusal(admission: gate.Admission, candidate: CandidatePolicy) -> Conflict | GateRefused:
    task, ref, verdict = candidate.task, candidate.ref, admission.verdict
    if admission.state == "already_current":
        return Conflict(f"{ref} is current already.", code="already_current", hint=f"Undo: headway rollback {task}")
    if verdict is None or verdict.evidence is None:
        return GateRefused(
            f"There is no evidence for {ref} yet.",
            reasons=("nothing was proven",),
            hint=f"Prove it first: headway prove {task}",
        )
    if admission.state == "stale":
        what = f"The evidence for {ref} does not apply any more: {'; '.join(admission.changed)}."
        return Conflict(what, code="stale_evidence", hint=f"Prove it again: headway prove {task}")
    hint, reliance = verdict.hint.strip(), verdict.evidence.reliance
    if admission.state == "asks" and reliance is not None:
        accept = f"To accept that: headway promote {task} --policy {ref} {FLAGS[reliance]}"
        hint = f"{better_way(verdict.evidence)} {accept}"
    return GateRefused(" ".join(verdict.reasons), reasons=verdict.reasons, hint=hint)


def rollback(
    project: Opened, task: str, *, to: str | None = None, why: str = "", who: str = "", evidence_id: str | None = None
) -> Entry:
    """Make the previous policy (or `to`) current again."""
    settings = project.settings.task(task)
    heads = project.ledger.heads(task)
    current = current_policy(project, settings, heads)
    ref, digest = previous_policy(project, settings) if to is None else project.servings.resolve(settings, to)
    if digest == current.digest:
        raise Conflict(
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
        raise InvalidInput(
            f"The canary's share is {share!r}, expected 0 to 0.5.",
            code="bad_share",
            hint="A fifth (0.2) is a good start; promote the policy when it is to take the rest.",
        )
    if not settings.traits.shared:
        raise InvalidInput(
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
        raise Conflict(
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
