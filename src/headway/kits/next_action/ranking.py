"""Rank: candidates in order of predicted reward, without a decision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from headway.nouns import OWNER, Decision, Reader, errors
from headway.project import Ask, Offer, Project

_NEWEST = 200
_Z80 = 1.2815515655446004  # ±1.28 deviations hold 80% of a normal distribution


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A candidate with its predicted reward; the interval holds 80% of rewards if the policy is calibrated."""

    wire_name = "RankedCandidate"
    name: str
    predicted: float
    std: float | None
    low: float | None
    high: float | None
    advice: str  # PROCEED: the whole interval is above 0; SKIP: below 0; NEUTRAL: neither; "": there is none
    features: Mapping[str, Any]

    @classmethod
    def of(cls, name: str, predicted: float, std: float | None, features: Mapping[str, Any] | None = None) -> Ranked:
        """With the interval that the standard deviation gives."""
        low = high = None
        advice = ""
        if std is not None:
            low, high = predicted - _Z80 * std, predicted + _Z80 * std
            advice = "PROCEED" if low > 0 else "SKIP" if high < 0 else "NEUTRAL"
        return cls(
            name=name, predicted=predicted, std=std, low=low, high=high, advice=advice, features=dict(features or {})
        )

    @property
    def half(self) -> float | None:
        """Half the width of the interval."""
        return None if self.std is None else _Z80 * self.std

    def document(self) -> dict[str, Any]:
        """Plain values, for JSON: the candidate's features and the prediction."""
        known: dict[str, Any] = {"name": self.name, "predicted": self.predicted, "std": self.std}
        if self.half is not None:
            known |= {"low": self.low, "high": self.high, "advice": self.advice}
        return {**self.features, **known}


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
    situation = Ask(task, text, None, {"state": state, "role": role}).situation(project.redact)
    ref, digest = project.servings.resolve(settings, policy or "current")
    pipeline = project.servings.pipeline(task, project.servings.body(settings), ref, digest)
    check = getattr(pipeline.policy, "check", None)  # a policy may know which fields its candidates can have
    if check is not None:
        check(offered)
    opinion = pipeline.policy.opinions((situation,), offered, (0,), std=True).row(0)
    if opinion.mean is None:
        raise errors.InvalidInput(
            f"{ref} does not predict rewards, so it cannot score or rank.",
            code="no_prediction",
            hint=f"Learn and promote a policy first: headway learn {task}",
        )
    std = opinion.std.tolist() if opinion.std is not None else [None] * len(offered)
    ranked = [
        Ranked.of(candidate.name, mean, spread, candidate.features)
        for candidate, mean, spread in zip(offered, opinion.mean.tolist(), std, strict=True)
    ]
    return sorted(ranked, key=lambda candidate: -candidate.predicted)


def latest_situation(project: Project, task: str, reader: Reader = OWNER) -> Decision | None:
    """The latest decision of a ranking task: its state is what `rank` and `score` assume where none is given.

    It is one that the reader may read, among the newest of the task.
    """
    if not project.settings.task(task).traits.described:
        return None
    newest = project.query.latest(task, 1 if reader.everything else _NEWEST)
    return next((decision for decision in newest if reader.may_read(decision.key)), None)


class AskedAbout(NamedTuple):
    """The situation to predict in; `state_of`: the decision that it was taken from."""

    text: str
    state: dict[str, Any] | None
    role: str
    state_of: str | None = None


def asked_about(
    project: Project, task: str, text: str, state: dict[str, Any] | None, role: str = "", *, reader: Reader = OWNER
) -> AskedAbout:
    """The given situation; without a state, that of the latest decision of a ranking task."""
    latest = latest_situation(project, task, reader) if state is None else None
    if latest is None:
        return AskedAbout(text, state, role)
    assumed = latest.situation
    return AskedAbout(text or assumed.text, dict(assumed.state), role or assumed.role, latest.id)
