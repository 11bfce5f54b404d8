"""Rank: candidates in order of predicted reward, without a decision."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from headway.nouns.errors import InvalidInput
from headway.nouns.explanation import Ranked
from headway.nouns.records import OWNER, Decision, Reader, Situation
from headway.project.decide.inputs import Offer, checked_state, checked_text

if TYPE_CHECKING:
    from headway.project import Project


_NEWEST = 200


def rank(
    project: Project,
    task: str,
    candidates: Iterable[Offer] | None = None,
    text: str = "",
    *,
    state: dict[str, Any] | None = None,
    role: str = "",
    policy: str | None = None,
) -> list[Ranked]:
    """Candidates in order of predicted reward, with the uncertainty of each; nothing is logged."""
    settings = project.settings.task(task)
    offered = project.offers.candidates(task, candidates, settings.actions)
    situation = Situation(task=task, text=project.redact(checked_text(text)), state=checked_state(state), role=role)
    ref, digest = project.servings.resolve(settings, policy or "current")
    pipeline = project.servings.pipeline(task, project.servings.body(settings), ref, digest)
    check = getattr(pipeline.policy, "check", None)  # a policy may know which fields its candidates can have
    if check is not None:
        check(offered)
    opinion = pipeline.policy.opinions((situation,), offered, (0,), std=True).row(0)
    if opinion.mean is None:
        raise InvalidInput(
            f"{ref} does not predict rewards, so it cannot score or rank.",
            code="no_prediction",
            hint=f"Learn and promote a policy first: headway learn {task}",
        )
    std = opinion.std.tolist() if opinion.std is not None else [None] * len(offered)
    ranked = [
        Ranked(name=candidate.name, predicted=mean, std=spread, features=candidate.features)
        for candidate, mean, spread in zip(offered, opinion.mean.tolist(), std, strict=True)
    ]
    return sorted(ranked, key=lambda candidate: -candidate.predicted)


def latest_situation(project: Project, task: str, reader: Reader = OWNER) -> Decision | None:
    """The latest decision of a ranking task: its state is what `rank` and `score` assume where none is given.

    It is one that the reader may read, among the newest of the task.
    """
    if project.settings.task(task).kind != "ranking":
        return None
    newest = project.query.latest(task, 1 if reader.everything else _NEWEST)
    return next((decision for decision in newest if reader.may_read(decision.key)), None)
