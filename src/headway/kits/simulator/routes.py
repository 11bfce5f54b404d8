"""The simulator over HTTP, for the page: solve rates, runs, and episodes step by step."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from headway.kits.simulator.shown import EpisodeStep, ProblemRun, SolveRate
from headway.serve.endpoint import Call, endpoint, strict


class SimOverviewAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The problem file that policies of a task practised on; empty if none did."""

    task: str
    file: str
    problems: int
    rates: list[SolveRate]
    runs: list[ProblemRun]


class SimEpisodeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One episode of a policy on a held-out problem."""

    task: str
    policy: str
    problem: str
    number: int
    of: int
    statement: str
    steps: list[EpisodeStep]
    solved: bool
    value: float


class SimEpisodeQuery(strict):
    number: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    policy: Annotated[str, Meta(max_length=200)] = "current"


@endpoint("GET", "/v1/tasks/{task}/sim", gives=SimOverviewAnswer, errors=(404,), scope="train")
def sim_overview(call: Call) -> SimOverviewAnswer:
    """Solve rates by family and solver of a task's problem file, and the runs on it."""
    from headway.kits.simulator.overview import overview

    task = call.params["task"]
    shown = overview(call.server.project, task)
    return SimOverviewAnswer(
        task=task, file=shown.file, problems=shown.problems, rates=shown.rates, runs=shown.runs
    )  # fmt: skip


@endpoint(
    "GET",
    "/v1/tasks/{task}/sim/episode",
    query=SimEpisodeQuery,
    gives=SimEpisodeAnswer,
    errors=(404,),
    scope="train",
)
def sim_episode(call: Call) -> SimEpisodeAnswer:
    """A policy of the task on a held-out problem, step by step; nothing is logged."""
    from headway.kits.simulator.overview import episode

    task, query = call.params["task"], call.query
    played = episode(call.server.project, task, query.number, query.policy)
    return SimEpisodeAnswer(
        task=task, policy=played.policy, problem=played.problem, number=played.number, of=played.of,
        statement=played.statement, steps=played.steps, solved=played.solved, value=played.value,
    )  # fmt: skip
