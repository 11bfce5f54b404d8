"""Improvers over HTTP: which there are, and their rounds. Reading only: nothing is started here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from headway.serve import Call, endpoint, strict

if TYPE_CHECKING:
    from headway.kits.next_action.improve.run_state import RoundResult, RunState
    from headway.kits.next_action.improve.settings import ImproverSettings


class ImproverAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An improver of headway.toml: what it improves, and how far it is."""

    name: str
    scope: str
    metric: str
    direction: str
    task: str  # whose policy ranks its proposals
    runs: int
    rounds: int
    verdicts: dict[str, int]
    branch: str  # with what the latest run kept; empty if nothing
    ended: str  # why the latest run ended; empty if it has not


class ImproversAnswer(msgspec.Struct, frozen=True):
    improvers: list[ImproverAnswer]


class RoundAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A round: the proposal, the prediction before it, both measurements, the verdict and its reason."""

    run: str
    round: int
    proposal: str
    type: str
    verdict: str  # kept, reverted, failed, refused or undecided
    why: str
    code: str
    decision: str
    propensity: float
    predicted: float | None
    low: float | None
    high: float | None
    pairs: int
    before: float | None
    after: float | None
    gain: float | None
    reward: float | None
    commit: str


class RoundsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The latest rounds of an improver, over all runs, the oldest first."""

    improver: ImproverAnswer
    rounds: list[RoundAnswer]


class RoundsQuery(strict):
    limit: Annotated[int, Meta(ge=1, le=5000)] = 200


@endpoint("GET", "/v1/improve", gives=ImproversAnswer, scope="train")
def improvers(call: Call) -> ImproversAnswer:
    """The improvers of this project."""
    from headway.kits.next_action.improve.forecasts import runs_of
    from headway.kits.next_action.improve.settings import improvers as declared

    project = call.server.project
    known = declared(project.settings)
    return ImproversAnswer([_improver(name, known[name], runs_of(project, name)) for name in known])


@endpoint("GET", "/v1/improve/{name}/rounds", query=RoundsQuery, gives=RoundsAnswer, errors=(404,), scope="train")
def improve_rounds(call: Call) -> RoundsAnswer:
    """The rounds of an improver: kept, reverted, failed and refused proposals, with the reason of each."""
    from headway.kits.next_action.improve.forecasts import runs_of
    from headway.kits.next_action.improve.settings import improver

    project, name = call.server.project, call.params["name"]
    query: RoundsQuery = call.query
    settings = improver(project.settings, name)
    runs = runs_of(project, name)
    rounds = [_round(run, result) for run, state in runs.items() for result in state.results]
    return RoundsAnswer(improver=_improver(name, settings, runs), rounds=rounds[-query.limit :])


def _improver(name: str, settings: ImproverSettings, runs: Mapping[str, RunState]) -> ImproverAnswer:
    results = [result for state in runs.values() for result in state.results]
    number = max(runs, default="")
    latest = runs.get(number)
    return ImproverAnswer(
        name=name,
        scope=settings.scope,
        metric=settings.metric,
        direction=settings.direction,
        task=settings.task,
        runs=len(runs),
        rounds=len(results),
        verdicts=dict(Counter(result.verdict for result in results)),
        branch=f"improve/{name}-{number}" if latest is not None and latest.kept else "",
        ended="" if latest is None else latest.ended,
    )


def _round(run: str, result: RoundResult) -> RoundAnswer:
    return msgspec.convert({"run": run, **asdict(result)}, RoundAnswer)
