"""One error budget: which share of it a proof may spend, and the row of the ledger that charges it.

A test is charged the first time that a candidate is looked at against an opponent under a plan with all data checks in
order. The k-th test of the task, ever, gets the k-th share, times one more than the promotions on evidence that still
stand (e-LOND, `headway.prove.sequential`). Another plan, another experiment or another kind of evidence is another
test, and so is a proof after a rollback, which gives nothing back; built-in policies are charged like learned ones.
Looks that a data check refuses are free, because they could not have passed, and so are candidates that make the same
choices as the current policy or do not look better on the rows that they were trained on. An automatic rollback has a
budget of its own and is never charged.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from headway.nouns import Evidence, Plan, Verdict, errors
from headway.observe import dumps
from headway.project.prove.screen import screen
from headway.project.prove.subject import registered_plan, registered_start
from headway.project.prove.terms import present_terms
from headway.project.publish import new_entry
from headway.promote import gate

if TYPE_CHECKING:
    from headway.project.project.folder import Opened
    from headway.project.prove.kinds.kind import ProofQuestion
    from headway.promote import Terms
    from headway.settings import TaskSettings


# Checks whose result depends on whether the candidate passes: a look that they refuse is charged all the same.
_OF_THE_RESULT = frozenset({"missing_width", "unanswered", "request_result", *gate.KEY_CHECKS})


class BudgetPlace(NamedTuple):
    """What the share of a test depends on."""

    k: int  # its number among those that are charged, from 1
    promotions: int  # on evidence, that stood when it began


def next_test(project: Opened, task: str) -> BudgetPlace:
    """Of the next test that is charged."""
    return BudgetPlace(len(project.ledger.tests(task)) + 1, project.ledger.promotions(task))


def number_of(project: Opened, task: str, terms: Terms, test: str) -> BudgetPlace:
    """Of this test; if it is not charged yet, what it would get now."""
    charged = project.ledger.charged(task, terms.candidate_hash, terms.lineage, test)
    if charged is None:
        return next_test(project, task)
    return BudgetPlace(int(charged.detail["k"]), int(charged.detail.get("promotions", 0)))


def budget_place(question: ProofQuestion, kind: str) -> BudgetPlace:
    """Of the test that this question asks with a kind of evidence."""
    project, task = question.project, question.settings.name
    terms = present_terms(project, question.settings, question.candidate, question.other)
    start = registered_start(project, task, terms.candidate_hash)
    test = name_of_test(registered_plan(project, task), kind, experiment=start, changed=terms.changed)
    return number_of(project, task, terms, test)


def keep_verdict(
    project: Opened,
    settings: TaskSettings,
    terms: Terms,
    evidence: Evidence,
    rules: gate.GateRules,
    *,
    test: str | None,
    erased: int,
    who: str = "",
) -> Verdict:
    """Charge the look, store the evidence with its configuration, and judge it.

    `test`: its name among the tests of this candidate (`name_of_test`). None: the evidence is about taking the
    candidate back, which has a budget of its own; nothing can be promoted on it. `erased`: deletions when it began.
    """
    if test is not None:
        evidence = _spend(project, settings, terms, evidence, test, who)
    ledger = project.ledger
    ledger.keep_config(terms.config_hash, terms.config)
    body = msgspec.to_builtins(evidence)
    ledger.keep_evidence(evidence.id, settings.name, evidence.candidate_hash, body, project.clock(), erased)
    return gate.verdict(evidence, rules)


def _spend(project: Opened, settings: TaskSettings, terms: Terms, evidence: Evidence, test: str, who: str) -> Evidence:
    """The evidence with the id of its test; or with the check that refuses it, at no charge."""
    task = settings.name
    if any(check.refuses for check in evidence.diagnostics if check.name not in _OF_THE_RESULT):
        return evidence
    charged = project.ledger.charged(task, terms.candidate_hash, terms.lineage, test)
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
                who=who,
                why=f"looked at against {evidence.against}",
                evidence_id=evidence.id,
                detail={"against": terms.lineage, "plan": test, "alpha": evidence.alpha, "final_s": evidence.final_s},
            )
        )
    share = int(charged.detail["k"]), int(charged.detail.get("promotions", 0))
    if share != (evidence.challenger, evidence.promotions):
        raise errors.Conflict(
            f"Another policy of {task!r} was proven at the same time and took this share of the error budget.",
            code="stale_evidence",
            hint=f"Prove it again: headway prove {task}",
        )
    return replace(evidence, test=str(charged.n))


def name_of_test(plan: Plan | None, kind: str, *, experiment: int | None, changed: int) -> str:
    """Two looks are one test only if they are of one kind and count the same rows with the same rule.

    `experiment`: the last decision before the candidate's experiment; the test counts later ones. `changed` is the
    ledger row of the last alarm: a test counts decisions after it only, and begins anew.
    """
    named = "" if plan is None else hashlib.sha256(dumps(msgspec.to_builtins(plan)).encode()).hexdigest()[:16]
    if plan is None and experiment is not None:
        named = f"experiment {experiment}"
    if kind != "log":
        return f"{kind} {named}".rstrip()
    return f"{named} after {changed}".strip() if changed else named
