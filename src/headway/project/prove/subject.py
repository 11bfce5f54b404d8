"""Whom a proof is about: the candidate, the current policy, stored evidence, and the rules it is held to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from headway.nouns import Evidence, Plan, PolicyRef, Reliance, errors
from headway.promote import CandidatePolicy, CurrentPolicy, gate

if TYPE_CHECKING:
    from headway.project.project.folder import Opened
    from headway.promote import Heads
    from headway.settings import TaskSettings

_EARLIER = "The bounds are unknown: the evidence was made by an earlier version. Prove again."
MOST_TIMES = 5  # a test takes at most so many times `decide_within` decisions


def current_policy(project: Opened, settings: TaskSettings, heads: Heads | None = None) -> CurrentPolicy:
    """Who is current by the ledger, or the built-in baseline before anything was promoted.

    `heads` is how the ledger stands, if the caller has read it.
    """
    heads = project.ledger.heads(settings.name) if heads is None else heads
    entry = heads.current
    if entry is None:
        body = project.servings.body(settings)
        ref = project.servings.baseline_ref(body)
        digest = project.servings.baseline_digest(ref, body)
        return CurrentPolicy(ref=ref, digest=digest, expects="", alarmed=heads.alarmed)
    ref, digest = entry.policy, entry.policy_hash
    if PolicyRef.parse(ref).built_in:
        ref, digest = project.servings.as_defined(project.servings.body(settings), ref, digest)
    return CurrentPolicy(
        ref=ref,
        digest=digest,
        expects=entry.policy_hash,
        since=heads.changed,
        alarmed=heads.alarmed,
        origin=str(entry.detail.get("origin", digest)) if entry.kind == "snapshot" else digest,
    )


def previous_policy(project: Opened, settings: TaskSettings) -> tuple[str, str]:
    """(reference, hash) of the policy before the current one: promoted, or the built-in baseline."""
    previous = project.ledger.previous(settings.name)
    body = project.servings.body(settings)
    if previous is not None:
        return project.servings.as_defined(body, previous.policy, previous.policy_hash)
    ref = project.servings.baseline_ref(body)
    return ref, project.servings.baseline_digest(ref, body)


def candidate_policy(
    project: Opened, policy: str | None, task: str | None, heads: Heads | None = None
) -> CandidatePolicy:
    """The policy that is named, or the newest candidate of the task."""
    if policy is not None:
        return _named(project, policy, task)
    if task is None:
        raise errors.InvalidInput(
            "Neither a policy nor a task is named.", code="task_missing", hint="Name one of them."
        )
    project.settings.task(task)
    newest = project.ledger.last(task, "candidate") if heads is None else heads.candidate
    if newest is None:
        raise errors.UnknownName(
            f"Nothing was learned for {task!r} yet.", code="no_candidate_policy", hint=f"Run: headway learn {task}"
        )
    return CandidatePolicy(task=task, ref=newest.policy, digest=newest.policy_hash)


def tested_policy(
    project: Opened, policy: str | None, task: str
) -> tuple[CandidatePolicy, TaskSettings, CurrentPolicy]:
    """The candidate that is named, or the newest, with the settings of its task and the policy it is tested against."""
    candidate = candidate_policy(project, policy, task)
    settings = project.settings.task(candidate.task)
    current = current_policy(project, settings)
    if candidate.digest == current.digest:
        raise errors.InvalidInput(
            f"{candidate.ref} is current already: there is nothing to test.",
            code="same_policy",
            hint=f"Learn a new candidate first: headway learn {settings.name}",
        )
    return candidate, settings, current


def _named(project: Opened, policy: str, task: str | None) -> CandidatePolicy:
    if PolicyRef.parse(policy).built_in:
        if task is None:
            raise errors.InvalidInput(
                f"{policy} belongs to every task.", code="task_missing", hint="Name the task too."
            )
        ref, digest = project.servings.resolve(project.settings.task(task), policy)
        return CandidatePolicy(task=task, ref=ref, digest=digest, newest=False)
    digest = project.registry.find(policy)
    header = project.registry.header(digest)
    if task is not None and header.task != task:
        project.registry.load(digest, task=task)  # says which task it was learned for
    return CandidatePolicy(task=header.task, ref=str(project.registry.ref(digest)), digest=digest, newest=False)


def stored_evidence(project: Opened, identifier: str) -> Evidence:
    """An evidence by its id; without bounds if those that were stored contradict its verdict or its estimate."""
    body = project.ledger.evidence(identifier)
    if body is None:
        raise errors.UnknownName(
            f"There is no evidence {identifier!r}.", code="unknown_evidence", hint="`headway prove` makes some."
        )
    evidence = msgspec.convert(body, Evidence)
    if evidence.consistent():
        return evidence
    return replace(evidence, bounds=None, curve=(), notes=(*evidence.notes, _EARLIER))


def registered_plan(project: Opened, task: str) -> Plan | None:
    """The open registered test of a task."""
    entry = project.ledger.plan(task)
    return None if entry is None else msgspec.convert(entry.detail, Plan)


def registered_start(project: Opened, task: str, candidate_hash: str) -> int | None:
    """The last decision before the experiment of a candidate, running or ended: its test counts later ones.

    The share changes how much a row says, so earlier rows would only add noise. None without an experiment since the
    last promotion or rollback.
    """
    entry = project.ledger.last(task, "experiment")
    if entry is None or entry.policy_hash != candidate_hash or entry.n < project.ledger.heads(task).changed:
        return None
    return int(entry.detail["from_decision"])


def experiments(settings: TaskSettings) -> bool:
    """Whether an experiment may be opened, by the loop or by a person who is asked."""
    return settings.experiments != "off" and settings.kind == "choice" and not settings.canary


def most_decisions(settings: TaskSettings) -> int:
    """The decisions after which a test ends without a difference."""
    return MOST_TIMES * settings.decide_within


def gate_rules(
    settings: TaskSettings, trust: Sequence[str] = (), accepted: frozenset[Reliance] = frozenset()
) -> gate.GateRules:
    """What the gate asks of this task's candidates."""
    trusted = frozenset({*settings.trust_keys, *trust})
    return gate.GateRules(
        margin=settings.margin, trusted=trusted, accepted=accepted, final_after_s=settings.final_after_s
    )


def known_raters(project: Opened, trust: Sequence[str]) -> tuple[str, ...]:
    """Names that are to be trusted, once per name; one that has rated nothing is a mistake."""
    raters = project.query.names("rater") if trust else ()
    for name in trust:
        if name not in raters:
            named = [rater for rater in raters if rater]
            raise errors.UnknownName(
                f"Nobody called {name!r} has rated anything.",
                code="unknown_rater",
                hint=errors.did_you_mean(name, named) or "`headway rewards analyze TASK` lists who has.",
            )
    return tuple(sorted(set(trust)))
