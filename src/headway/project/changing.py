"""Changing who is live: promote on evidence, a canary on a share of the traffic, and the way back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headway.nouns.checkpoint import PolicyRef
from headway.nouns.errors import Conflict, GateRefused, InvalidInput
from headway.nouns.evidence import Verdict
from headway.project.judging import candidate_of, gate_rules, known_raters, live, prove, stored_evidence
from headway.project.learning import who_is_it
from headway.project.serving import baseline_ref
from headway.promote import gate
from headway.promote.ledger import Entry, EntryKind

if TYPE_CHECKING:
    from headway.project.facade import Project
    from headway.settings import TaskSettings

__all__ = ["canary", "guard", "promote", "retire", "rollback", "shadow"]


def promote(
    project: Project,
    policy: str | None,
    *,
    because: Verdict | None,
    task: str | None,
    who: str,
    trust: Sequence[str] = (),
) -> Entry:
    trusted = known_raters(project, trust)
    task, ref, digest = candidate_of(project, policy, task)
    settings = project.settings.task(task)
    _verified(project, task, ref, digest)
    current = live(project, settings)
    if digest == current.digest:
        raise Conflict(f"{ref} is current already.", code="already_current", hint=f"Undo: headway rollback {task}")
    why, evidence_id = "gate off", None
    detail: dict[str, Any] = {}
    if settings.gate == "on":
        given = because.evidence if because is not None else None
        evidence_id = given.id if given is not None else project.ledger.latest_evidence(task, digest)
        if evidence_id is None:
            raise GateRefused(
                f"There is no evidence for {ref} yet.",
                reasons=("nothing was proven",),
                hint=f"Prove it first: headway prove {task}",
            )
        evidence = stored_evidence(project, evidence_id)
        if evidence.candidate_hash != digest:
            raise InvalidInput(f"That evidence is about {evidence.candidate}, not {ref}.", code="wrong_evidence")
        if evidence.against_hash != current.digest:
            raise Conflict(
                f"{ref} was proven against {evidence.against}; {current.ref} is current of {task!r} now.",
                code="stale_evidence",
                hint=f"Prove it again: headway prove {task}",
            )
        rules = gate_rules(settings, trusted)
        verdict = gate.verdict(evidence, rules)
        if not verdict.passed:
            raise GateRefused(" ".join(verdict.reasons), reasons=verdict.reasons, hint=verdict.hint.strip())
        why = str(verdict)
        resting = gate.resting_on(verdict, rules.trusted)
        if resting:
            why += f" (trusting {', '.join(resting)})"
            detail = {"trusted_keys": list(resting)}
    return _become(
        project,
        settings,
        "promote",
        ref,
        digest,
        expects=current.expects,
        why=why,
        who=who,
        evidence_id=evidence_id,
        **detail,
    )


def rollback(project: Project, task: str, *, to: str | None, why: str, who: str) -> Entry:
    settings = project.settings.task(task)
    current = live(project, settings)
    if to is not None:
        ref, digest = project.servings.resolve(settings, to)
    else:
        previous = project.ledger.previous(task)
        if previous is not None:
            ref, digest = previous.policy, previous.policy_hash
        else:
            body = project.servings.body(settings)
            ref = baseline_ref(body)
            digest = project.servings.baseline_digest(ref, body)
    if digest == current.digest:
        raise Conflict(
            f"{ref} is current already; there is nothing to roll back to.",
            code="already_current",
            hint=f"`headway status` shows the ledger of {task!r}.",
        )
    _verified(project, task, ref, digest)
    return _become(
        project,
        settings,
        "rollback",
        ref,
        digest,
        expects=current.expects,
        why=why or f"back from {current.ref}",
        who=who,
    )


def _become(
    project: Project,
    settings: TaskSettings,
    kind: EntryKind,
    ref: str,
    digest: str,
    *,
    expects: str,
    why: str,
    who: str,
    evidence_id: str | None = None,
    **detail: Any,
) -> Entry:
    entry = _append(
        project, settings, kind, ref, digest, expects=expects, why=why, who=who, evidence_id=evidence_id, **detail
    )
    if not project.settings.policy_override:
        assert project.servings.of(settings).digest == digest, "what is served is what was promoted"
    return entry


def _append(
    project: Project,
    settings: TaskSettings,
    kind: EntryKind,
    ref: str,
    digest: str,
    *,
    why: str,
    who: str,
    expects: str | None = None,
    evidence_id: str | None = None,
    **detail: Any,
) -> Entry:
    """One row of the ledger, against the current policy that the caller decided on (by default: of this moment)."""
    if expects is None:
        last = project.ledger.current(settings.name)
        expects = last.policy_hash if last else ""
    entry = project.ledger.append(
        Entry(
            task=settings.name,
            kind=kind,
            policy=ref,
            policy_hash=digest,
            expects=expects,
            who=who_is_it(who),
            why=why,
            evidence_id=evidence_id,
            detail=detail,
            at=project.clock(),
        )
    )
    project.servings.forget(settings.name)
    return entry


def canary(project: Project, policy: str | None, *, share: float, task: str | None, who: str) -> Entry:
    task, ref, digest = candidate_of(project, policy, task)
    settings = project.settings.task(task)
    if not 0.0 <= share <= 0.5:
        raise InvalidInput(
            f"The canary's share is {share!r}, expected 0 to 0.5.",
            code="bad_share",
            hint="A fifth (0.2) is a good start; promote the policy when it is to take the rest.",
        )
    if settings.kind != "choice":
        raise InvalidInput(f"A canary needs a choice task; {task!r} is {settings.kind}.", code="bad_kind")
    _verified(project, task, ref, digest)
    return _append(
        project, settings, "canary", ref, digest, why=f"decides on {share:.0%} of the traffic", who=who, share=share
    )


def shadow(project: Project, policy: str | None, *, task: str | None, who: str) -> Entry:
    task, ref, digest = candidate_of(project, policy, task)
    _verified(project, task, ref, digest)
    return _append(project, project.settings.task(task), "shadow", ref, digest, why="compared without acting", who=who)


def retire(project: Project, policy: str, *, task: str | None, why: str, who: str) -> Entry:
    task, ref, digest = candidate_of(project, policy, task)
    settings = project.settings.task(task)
    if digest == live(project, settings).digest:
        raise Conflict(f"{ref} is current.", code="already_current", hint=f"Roll back first: headway rollback {task}")
    return _append(project, settings, "retire", ref, digest, why=why or "set aside", who=who)


def guard(project: Project, task: str, *, who: str) -> Entry | None:
    """What is proven worse goes: the canary, or the current policy when the one before it is better."""
    acting = project.ledger.canary(task)
    if acting is not None:
        verdict = prove(project, acting.policy, against="current", task=task, progress=None)
        if verdict.state != "worse":
            return None
        why = f"automatic: {' '.join(verdict.reasons)}"
        return retire(project, acting.policy, task=task, why=why, who=who)
    current = project.ledger.current(task)
    if current is None or current.kind == "rollback":
        return None
    before = project.ledger.previous(task)
    settings = project.settings.task(task)
    against = before.policy if before is not None else baseline_ref(project.servings.body(settings))
    verdict = prove(project, current.policy, against=against, task=task, progress=None)
    if verdict.state != "worse":
        return None
    return rollback(project, task, to=against, why=f"automatic: {' '.join(verdict.reasons)}", who=who)


def _verified(project: Project, task: str, ref: str, digest: str) -> None:
    """The bundle is whole, before anybody depends on it; a built-in policy has none."""
    if not PolicyRef.parse(ref).built_in:
        project.registry.load(digest, task=task)
