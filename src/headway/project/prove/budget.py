"""One error budget: which share of it a proof may spend, and the row of the ledger that charges it.

A test is charged the first time that a candidate is looked at against an opponent under a plan with all data checks in
order. The k-th test since the last promotion that still stands gets the k-th share. Another plan or another kind of
evidence is another test, and so is a proof after a rollback, which gives nothing back; built-in policies are charged
like learned ones. Looks that a data check refuses are free, because they could not have passed, and so are candidates
that do not even look better on the rows that they were trained on. An automatic rollback has a budget of its own and is
never charged.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from headway.nouns.errors import Conflict
from headway.nouns.evidence import Evidence, Plan, Verdict
from headway.observe.rows import dumps
from headway.project.prove.screen import screen
from headway.project.publish import new_entry
from headway.promote import gate

if TYPE_CHECKING:
    from headway.project import Project
    from headway.promote.terms import Terms
    from headway.settings import TaskSettings

__all__ = ["challenger", "keep_verdict", "next_test"]

# Checks whose result depends on whether the candidate passes: a look that they refuse is charged all the same.
_OF_THE_RESULT = frozenset({"missing_width", gate.ONE_KEY, gate.ONE_KEY_REGION})


def next_test(project: Project, task: str) -> int:
    """The number of the next test that is charged, from 1."""
    return len(project.ledger.tests(task)) + 1


def challenger(project: Project, task: str, terms: Terms, plan: Plan | None, kind: str) -> int:
    """The number of this test among those that are charged; if it is not charged yet, the number it would get now."""
    plan_id = _plan_id(plan, kind, terms.changed)
    charged = project.ledger.charged(task, terms.candidate_hash, terms.lineage, plan_id)
    return int(charged.detail["k"]) if charged is not None else next_test(project, task)


def keep_verdict(
    project: Project,
    settings: TaskSettings,
    terms: Terms,
    evidence: Evidence,
    rules: gate.GateRules,
    *,
    rollback: bool = False,
) -> Verdict:
    """Charge the look, store the evidence with its configuration, and judge it.

    `rollback`: the evidence is about taking the candidate back, which has a budget of its own; nothing can be promoted
    on it.
    """
    if not rollback:
        evidence = _spend(project, settings, terms, evidence, rules)
    ledger = project.ledger
    ledger.keep_config(terms.config_hash, terms.config)
    body = msgspec.to_builtins(evidence)
    ledger.keep_evidence(evidence.id, settings.name, evidence.candidate_hash, body, project.clock())
    return gate.verdict(evidence, rules)


def _spend(
    project: Project, settings: TaskSettings, terms: Terms, evidence: Evidence, rules: gate.GateRules
) -> Evidence:
    """The evidence with the id of its test; or with the check that refuses it, at no charge."""
    task, plan = settings.name, _plan_id(evidence.plan, evidence.kind, terms.changed)
    if any(gate.blocks(check, rules) for check in evidence.diagnostics if check.name not in _OF_THE_RESULT):
        return evidence
    charged = project.ledger.charged(task, terms.candidate_hash, terms.lineage, plan)
    if charged is None:
        junk = screen(project, settings, terms) if evidence.kind == "log" else None
        if junk is not None:
            return replace(evidence, diagnostics=(*evidence.diagnostics, junk))
        charged = project.ledger.charge(
            new_entry(
                project,
                task,
                "test",
                evidence.candidate,
                evidence.candidate_hash,
                why=f"looked at against {evidence.against}",
                evidence_id=evidence.id,
                detail={"against": terms.lineage, "plan": plan, "alpha": evidence.alpha},
            )
        )
    if int(charged.detail["k"]) != evidence.challenger:
        raise Conflict(
            f"Another policy of {task!r} was proven at the same time and took this share of the error budget.",
            code="stale_evidence",
            hint=f"Prove it again: headway prove {task}",
        )
    return replace(evidence, test=str(charged.n))


def _plan_id(plan: Plan | None, kind: str, changed: int) -> str:
    """Two looks are one test only if they are of one kind and count the same rows with the same rule.

    `changed` is the ledger row of the last alarm: a test counts decisions after it only, and begins anew.
    """
    named = "" if plan is None else hashlib.sha256(dumps(msgspec.to_builtins(plan)).encode()).hexdigest()[:16]
    named = named if kind == "log" else f"{kind} {named}".rstrip()
    return f"{named} after {changed}".strip() if changed and kind == "log" else named
