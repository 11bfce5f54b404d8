"""Evidence for a candidate, from the rows that it has never read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING

import msgspec

from headway.nouns.errors import InvalidInput
from headway.nouns.evidence import Verdict
from headway.nouns.protocols import Progress
from headway.project.prove.kinds.kind import ProofQuestion, kind_named, pick
from headway.project.prove.subject import (
    candidate_policy,
    challenger,
    current_policy,
    gate_rules,
    known_raters,
    registered_plan,
)
from headway.promote import gate

if TYPE_CHECKING:
    from headway.project import Project
    from headway.promote.standing import CandidatePolicy
    from headway.prove.about import About
    from headway.prove.guards import GuardRule
    from headway.prove.log import Log
    from headway.settings import TaskSettings

__all__ = ["Examined", "examine"]


@dataclass(frozen=True, slots=True)
class Examined:
    """A verdict, with what it was computed with."""

    verdict: Verdict
    about: About
    guards: tuple[GuardRule, ...]
    rules: gate.GateRules
    left: Mapping[str, int]


def examine(
    project: Project,
    policy: str | None,
    *,
    against: str,
    task: str | None,
    progress: Progress | None = None,
    see: Callable[[Log], None] | None = None,
    trust: Sequence[str] = (),
    kind: str | None = None,
) -> Examined:
    """A verdict on a candidate, stored with its evidence.

    `see` is shown every chunk of logged rows. `kind`: of the evidence; by default the one that suits the candidate.
    """
    from headway.prove.guards import GuardRule

    candidate = candidate_policy(project, policy, task)
    settings = project.settings.task(candidate.task)
    trusted = known_raters(project, trust)
    project.settle(settings.name)
    other = _opponent(project, settings, candidate, against)
    about = _about(project, settings, candidate, other, trusted)
    guards = [
        GuardRule(name=name, tolerance=guard.tolerance, better=guard.direction)
        for name, guard in settings.guards.items()
    ]
    question = ProofQuestion(
        project=project,
        settings=settings,
        candidate=(candidate.ref, candidate.digest),
        other=other,
        progress=progress,
        see=see,
    )
    chosen = kind_named(project.catalogue, kind or pick(question))
    absent = chosen.missing(question)
    if absent is not None:
        raise absent
    evidence = chosen.evidence(question, about, guards)
    rules = gate_rules(settings)
    project.ledger.keep_evidence(
        evidence.id, settings.name, candidate.digest, msgspec.to_builtins(evidence), project.clock()
    )
    return Examined(gate.verdict(evidence, rules), about, tuple(guards), rules, dict(question.left))


def _opponent(project: Project, settings: TaskSettings, candidate: CandidatePolicy, against: str) -> tuple[str, str]:
    """(reference, hash) of the policy that the candidate is compared with."""
    if against == "current":
        current = current_policy(project, settings)
        ref, digest = current.ref, current.digest
    else:
        ref, digest = project.servings.resolve(settings, against)
    if digest == candidate.digest:
        raise InvalidInput(
            f"{candidate.ref} is compared with itself.",
            code="same_policy",
            hint=f"Learn a new candidate (headway learn {settings.name}) or name another policy with --against.",
        )
    return ref, digest


def _about(
    project: Project,
    settings: TaskSettings,
    candidate: CandidatePolicy,
    other: tuple[str, str],
    trusted: tuple[str, ...],
) -> About:
    """What the evidence says about itself."""
    from headway.prove.about import About

    task, (against, against_hash) = settings.name, other
    return About(
        task=task,
        candidate=candidate.ref,
        against=against,
        candidate_hash=candidate.digest,
        against_hash=against_hash,
        plan=registered_plan(project, task),
        challenger=challenger(project, task, candidate.digest),
        margin=settings.margin,
        reward_version=project.rewards(task).version,
        reward_range=project.rewards(task).range,
        declared={"missing": settings.missing} if settings.missing == "at random" else {},
        seed=settings.seed,
        command=f"headway prove {task} --policy {candidate.ref} --against {against}"
        + "".join(f" --trust-key {quote(name)}" for name in trusted),
        trusted=trusted,
    )
