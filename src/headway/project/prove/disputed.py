"""What acts and looks worse by one key's ratings alone: the guard leaves it to a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.project.prove.subject import gate_rules, previous_policy, stored_evidence
from headway.promote import gate

if TYPE_CHECKING:
    from headway.nouns.evidence import Verdict
    from headway.project import Project
    from headway.promote.ledger import Entry, Heads
    from headway.settings import TaskSettings

__all__ = ["disputed"]

_LOOKS = 20  # the latest ones, among which those at earlier states of a policy are


def disputed(project: Project, settings: TaskSettings, heads: Heads, current_hash: str) -> Verdict | None:
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


def _accused(project: Project, settings: TaskSettings, acting: Entry, against: str) -> Verdict | None:
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
    return verdict if fresh and verdict.state == "worse" and gate.accusers(evidence, rules) else None
