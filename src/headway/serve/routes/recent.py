"""Endpoints for the page: the caller, a task's settings, recent decisions, verdicts as text."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from headway.nouns import NextStep, VerdictForecast
from headway.observe import Recent, recent as sum_up
from headway.serve.endpoints import Call, endpoint, strict
from headway.settings import TaskSettings


class SessionAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The caller: the name of the key, and its scopes."""

    key: str
    scopes: list[str]
    project: str
    synthetic: bool


@endpoint("GET", "/v1/session", gives=SessionAnswer, scope="open")
async def session(call: Call) -> SessionAnswer:
    """The caller and its scopes."""
    project = call.server.project
    return SessionAnswer(
        key=call.key,
        scopes=sorted(call.scopes),
        project=project.folder.resolve().name,
        synthetic=project.settings.store.synthetic,
    )


# -- how a task is set up


class TermAnswer(msgspec.Struct, frozen=True, kw_only=True):
    weight: float
    transform: str
    low: float | None
    high: float | None


class GuardAnswer(msgspec.Struct, frozen=True, kw_only=True):
    tolerance: float
    direction: str
    range: tuple[float, float] | None  # a missing value counts as its worse end


class SettingsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a task that the page shows; `reward` is empty if a function computes it."""

    task: str
    kind: str
    family: str
    actions: list[str]
    reward: dict[str, TermAnswer]
    reward_function: str | None
    required: list[str]
    range: tuple[float, float]
    explore: str
    explore_value: float
    floor: float
    retrain_after: int
    promote: str
    canary: float
    gate: str
    margin: float
    guards: dict[str, GuardAnswer]


@endpoint("GET", "/v1/tasks/{task}/settings", gives=SettingsAnswer, errors=(404,), scope="open")
async def task_settings(call: Call) -> SettingsAnswer:
    """How a task is set up."""
    return _settings(call.server.project.settings.task(call.params["task"]))


def _settings(settings: TaskSettings) -> SettingsAnswer:
    terms = {} if isinstance(settings.reward, str) else settings.reward
    return SettingsAnswer(
        task=settings.name,
        kind=settings.kind,
        family=settings.family,
        actions=list(settings.actions),
        reward=msgspec.convert(terms, dict[str, TermAnswer], from_attributes=True),
        reward_function=settings.reward if isinstance(settings.reward, str) else None,
        required=list(settings.required),
        range=settings.range,
        explore=settings.explore.kind,
        explore_value=settings.explore.value,
        floor=settings.floor,
        retrain_after=settings.retrain_after,
        promote=settings.promote,
        canary=settings.canary,
        gate=settings.gate,
        margin=settings.margin,
        guards=msgspec.convert(settings.guards, dict[str, GuardAnswer], from_attributes=True),
    )


# -- how it went lately


class RecentQuery(strict):
    window: Annotated[int, Meta(ge=1, le=100_000)] = 5000
    points: Annotated[int, Meta(ge=2, le=500)] = 60


@endpoint("GET", "/v1/tasks/{task}/recent", query=RecentQuery, gives=Recent, errors=(404,), scope="train")
def recent(call: Call) -> Recent:
    """A summary of the latest decisions of a task: the trend of its reward, its actions and its policies."""
    query: RecentQuery = call.query
    project = call.server.project
    task = project.settings.task(call.params["task"]).name
    within = project.rewards(task).range
    return sum_up(project.database, project.query, task, window=query.window, points=query.points, reward_range=within)


# -- verdicts


class EstimateAnswer(msgspec.Struct, frozen=True, kw_only=True):
    value: float
    low: float
    high: float
    n: int
    ess: float


class LineAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A row of a verdict's tables: name, value, whether it passed, and the remedy."""

    name: str
    text: str
    ok: bool
    estimate: EstimateAnswer | None
    cure: str


class VerdictAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict as text, with its evidence. `fresh`: it compares with the present current policy."""

    id: str
    task: str
    candidate: str
    candidate_hash: str
    against: str
    against_hash: str
    state: str
    word: str
    headline: str
    summary: str
    reasons: list[str]
    hint: str
    difference: EstimateAnswer | None  # null where a data check fails: nothing is estimated then
    estimated: bool
    bounds: tuple[float, float] | None
    needed: int | None  # rows that are still needed, about
    forecast: VerdictForecast | None  # how many more, and how long that takes
    n: int
    margin: float
    kind: str  # of the evidence
    unit: str
    earned: str
    method: str
    values: list[LineAnswer]
    checks: list[LineAnswer]
    guards: list[LineAnswer]
    counts: list[tuple[str, str]]
    notes: list[str]
    recompute: list[tuple[str, str]]
    curve: list[tuple[int, float | None, float | None, float | None]]
    current: bool
    fresh: bool
    next: NextStep


@endpoint("GET", "/v1/evidence/{evidence}/verdict", gives=VerdictAnswer, errors=(404,), scope="train")
def verdict(call: Call) -> VerdictAnswer:
    """The gate's verdict on evidence under the present rules, as text."""
    return msgspec.convert(call.server.project.report(call.params["evidence"]).document(), VerdictAnswer)
