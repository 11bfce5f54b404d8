"""Predictions of a task's policies against the outcomes that came.

    predictions(project, "next-action")                          # of the policy that made each decision
    predictions(project, "next-action", policy="ranker@4f2a")    # of one policy, on rows that it has not read

Only predictions count that were made without the outcome. A policy is asked again about its own decisions: it was
trained before them, and predicts the same as then. About a decision of somebody else (imported, or by the rules) the
current policy is asked if it has not read it in training, and if it came later than all that it has read.

Not covered: decisions whose policy was removed, or predicts no rewards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from headway.kits.next_action.measures import CalibrationWindow, window, windows
from headway.kits.next_action.ranking import Ranked
from headway.nouns import Candidate, PolicyRef, Settled, Situation, Time, errors
from headway.project import Project, Unread

_LOOKED_AT = 500  # decisions, the latest ones
_WINDOWS = 12  # on the way from the first prediction to the last
_FEWEST = 10  # predictions in a window

Origin = Literal["decided", "held out"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedOutcome:
    """A decision: the predicted reward of its action with an 80% interval, and the reward that came."""

    wire_name = "PredictionRow"
    decision: str
    at: Time
    action: str
    policy: str  # that predicted
    origin: Origin  # decided: by that policy; held out: by another, and not read in training
    predicted: float
    low: float | None
    high: float | None
    reward: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionReport:
    """Predictions of the latest decisions, the oldest first, and how good they were over time."""

    wire_name = "PredictionsAnswer"
    task: str
    predictions: tuple[PredictedOutcome, ...]
    windows: tuple[CalibrationWindow, ...]
    overall: CalibrationWindow | None
    decisions: int  # that were looked at
    left_out: Mapping[str, int]  # why the others are not there


def predictions(project: Project, task: str, *, policy: str | None = None, limit: int = _LOOKED_AT) -> PredictionReport:
    """Predictions and outcomes of the latest `limit` decisions."""
    settings = project.settings.task(task)
    latest = project.query.latest(settings.name, limit)
    asked = _Forecasters(project, settings.name, policy)
    rows: list[PredictedOutcome] = []
    for row in project.query.outcomes([decision.seq for decision in reversed(latest)]):
        predicted = asked.about(row)
        if predicted is not None:
            rows.append(predicted)
    size = max(_FEWEST, -(-len(rows) // _WINDOWS))
    return PredictionReport(
        task=settings.name,
        predictions=tuple(rows),
        windows=windows(rows, size),
        overall=window(rows) if rows else None,
        decisions=len(latest),
        left_out=dict(asked.left_out),
    )


class _Forecaster:
    """One policy that predicts rewards."""

    def __init__(self, project: Project, task: str, ref: str, digest: str) -> None:
        """Raises a HeadwayError if the policy was removed, or predicts no rewards."""
        settings, servings = project.settings.task(task), project.servings
        serving = servings.of(settings)
        self.ref, self._project, self._of = ref, project, (ref, digest)
        self._policy: Any = (
            cast(Any, serving.pipeline.policy)
            if digest == serving.digest
            else servings.policy(task, servings.body(settings), ref, digest)
        )
        self._settings, self._unread = settings, cast("Unread | None", None)
        probe = self._policy.opinions((Situation(task=""),), (Candidate("a"), Candidate("b")), (0,), confidence=False)
        discounted = float(getattr(self._policy, "knobs", {}).get("gamma") or 0.0) > 0.0  # not one decision's reward
        if probe.mean is None or discounted:
            raise errors.InvalidInput(
                f"{ref} does not predict rewards.",
                code="no_prediction",
                hint=f"Learn one that does: headway learn {task}",
            )

    def has_not_read(self, row: Settled) -> bool:
        """Whether the decision came after all that it was trained on, and was not read."""
        if self._unread is None:
            from headway.project import Unread

            self._unread = Unread(self._project, self._settings, self._of, self._of)
        later = row.decision.at > float(getattr(self._policy, "until", 0.0))
        return later and self._unread.speaks(row.decision, row.first or None)

    def outcome(self, row: Settled, origin: Origin) -> PredictedOutcome:
        """The prediction for the action that was taken, beside the reward."""
        decision = row.decision
        taken = (decision.candidates[decision.index],)
        opinion = self._policy.opinions((decision.situation,), taken, (decision.seed,), confidence=False, std=True).row(
            0
        )
        std = None if opinion.std is None else float(opinion.std[0])
        ranked = Ranked.of(decision.action, float(opinion.mean[0]), std)
        assert row.reward is not None
        return PredictedOutcome(
            decision=decision.id,
            at=decision.at,
            action=decision.action,
            policy=self.ref,
            origin=origin,
            predicted=ranked.predicted,
            low=ranked.low,
            high=ranked.high,
            reward=row.reward,
        )


class _Forecasters:
    """The policies that are asked, each loaded once; `left_out` counts decisions without a prediction."""

    def __init__(self, project: Project, task: str, policy: str | None) -> None:
        self._project, self._task, self._named = project, task, policy
        self._judge = project.servings.resolve(project.settings.task(task), policy or "current")
        self._loaded: dict[str, _Forecaster | None] = {}
        self.left_out: Counter[str] = Counter()

    def about(self, row: Settled) -> PredictedOutcome | None:
        """The prediction for one decision; None if there is none that did not know the outcome."""
        decision = row.decision
        own = None if self._named else self._forecaster(decision.policy, decision.policy_hash)
        judge = own or self._forecaster(*self._judge)
        why = _unusable(row)
        if not why and judge is None:
            why = "without a policy that predicts rewards"
        elif not why and judge is not own and judge is not None and not judge.has_not_read(row):
            why = "read in training, or not later"
        if why or judge is None:
            self.left_out[why] += 1
            return None
        return judge.outcome(row, "decided" if judge is own else "held out")

    def _forecaster(self, ref: str, digest: str) -> _Forecaster | None:
        if not PolicyRef.matches(ref) or PolicyRef.parse(ref).built_in:
            return None
        if digest not in self._loaded:
            try:
                self._loaded[digest] = _Forecaster(self._project, self._task, ref, digest)
            except errors.HeadwayError:
                self._loaded[digest] = None
        return self._loaded[digest]


def _unusable(row: Settled) -> str:
    if row.reward is None:
        return "without a reward"
    return "with a mined label" if row.decision.source == "mined" else ""
