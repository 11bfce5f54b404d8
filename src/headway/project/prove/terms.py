"""What a proof is bound to, from the project as it stands: see `headway.promote.terms`."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from headway.nouns import PolicyRef
from headway.observe import dumps
from headway.project.prove.change import change_row
from headway.project.prove.subject import current_policy, gate_rules, stored_evidence
from headway.promote import Terms, gate

if TYPE_CHECKING:
    from headway.nouns import Evidence
    from headway.project.project.folder import Opened
    from headway.promote import CandidatePolicy, CurrentPolicy
    from headway.settings import TaskSettings

LIVE = "live"
_SERVED = (
    "actions", "rules", "roles", "fallback", "state", "encoder", "explore", "floor", "confidence_floor", "costs",
    "cost_weight",
)  # fmt: skip


def present_terms(
    project: Opened,
    settings: TaskSettings,
    candidate: tuple[str, str],
    against: tuple[str, str],
    current: CurrentPolicy | None = None,
) -> Terms:
    """The terms of a proof of `candidate` against another policy, both as (reference, hash)."""
    current = current or current_policy(project, settings)
    body = project.servings.body(settings)
    served = {key: body[key] for key in _SERVED if key in body}
    live = settings.online == "live" and against[1] == current.digest and not PolicyRef.parse(against[0]).built_in
    opponent = (LIVE, current.origin) if live else against
    return Terms(
        candidate=candidate[0],
        candidate_hash=candidate[1],
        against=against[0],
        against_hash=against[1],
        reward_version=project.rewards(settings.name).version,
        config_hash=_digest(dumps(body))[:16],
        behaviour=_digest(dumps([*candidate, *opponent, served])),
        declared=_declared(settings),
        config=body,
        since=current.since,
        changed=change_row(project, settings.name) if current.alarmed else 0,
        lineage=opponent[1],
        live=live,
    )


def _declared(settings: TaskSettings) -> dict[str, str]:
    """What the task's settings state and nothing measures: its unit, what missing outcomes mean, what guards allow."""
    declared = {
        f"guard {name}": f"{guard.direction} is better, tolerance {guard.tolerance:g}"
        + ("" if guard.range is None else f", range [{guard.range[0]:g}, {guard.range[1]:g}]")
        for name, guard in settings.guards.items()
    }
    if settings.capped:
        declared["capped"] = "true"
    if settings.unit != "decision":
        declared["unit"] = settings.unit
    return declared | ({"missing": settings.missing} if settings.missing == "at random" else {})


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def admission_of(
    project: Opened,
    settings: TaskSettings,
    candidate: CandidatePolicy,
    current: CurrentPolicy,
    *,
    because: Evidence | None = None,
    rules: gate.GateRules | None = None,
) -> gate.Admission:
    """Whether the gate admits a candidate now, on the evidence that is named or on the latest about it."""
    evidence = because or latest_evidence(project, candidate)
    return gate.admission(
        terms=present_terms(
            project, settings, (candidate.ref, candidate.digest), (current.ref, current.digest), current
        ),
        evidence=evidence,
        config=None if evidence is None else project.ledger.config(evidence.config_hash),
        rules=rules or gate_rules(settings),
        gate_on=settings.gate == "on",
    )


def latest_evidence(project: Opened, candidate: CandidatePolicy) -> Evidence | None:
    """The latest evidence about a candidate. A built-in policy keeps its name when its definition changes."""
    identifier = project.ledger.latest_evidence(candidate.task, candidate.digest)
    if identifier is not None or not PolicyRef.parse(candidate.ref).built_in:
        return None if identifier is None else stored_evidence(project, identifier)
    identifier = project.ledger.latest_evidence(candidate.task)
    latest = None if identifier is None else stored_evidence(project, identifier)
    return latest if latest is not None and latest.candidate == candidate.ref else None
