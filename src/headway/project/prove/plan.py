"""The plan of a test: how many decisions show an uplift of a given size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from headway.nouns import errors
from headway.project.prove.budget import next_test
from headway.project.prove.kinds.kind import ProofQuestion, provable
from headway.project.prove.subject import candidate_policy, current_policy
from headway.project.publish import record_change

if TYPE_CHECKING:
    from headway.project.project.folder import Opened
    from headway.prove import Planned


def plan(
    project: Opened, task: str, *, uplift: float, power: float = 0.8, register: bool = False, policy: str | None = None
) -> Planned:
    """The number of decisions (or episodes, or rows) needed to prove an uplift of this size.

    `register` fixes that horizon in the ledger in advance.
    """
    from headway.prove import About

    candidate = candidate_policy(project, policy, task)
    settings = project.settings.task(candidate.task)
    current = current_policy(project, settings)
    if candidate.digest == current.digest:
        raise errors.InvalidInput(
            f"{candidate.ref} is current already: there is nothing to test.",
            code="same_policy",
            hint=f"Learn a new candidate first: headway learn {settings.name}",
        )
    question = ProofQuestion(
        project=project,
        settings=settings,
        candidate=(candidate.ref, candidate.digest),
        other=(current.ref, current.digest),
    )
    number = next_test(project, settings.name)
    about = About(
        task=settings.name,
        candidate=candidate.ref,
        against=current.ref,
        margin=settings.margin,
        challenger=number.k,
        promotions=number.promotions,
        reward_range=project.rewards(settings.name).range,
    )
    result = provable(question).plan(question, about, uplift=uplift, power=power)
    if register:
        record_change(
            project,
            settings.name,
            "plan",
            candidate.ref,
            candidate.digest,
            why=f"test for an uplift of {uplift:+g} over {result.plan.horizon:,} {result.unit}",
            detail=msgspec.to_builtins(result.plan),
        )
    return result
