"""The simulator over HTTP, for the page: solve rates, runs, and episodes step by step."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from headway.kits.simulator.shown import SimOverview, SolvedEpisode
from headway.serve import Call, endpoint, strict


class SimEpisodeQuery(strict):
    number: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    policy: Annotated[str, Meta(max_length=200)] = "current"


@endpoint("GET", "/v1/tasks/{task}/sim", gives=SimOverview, errors=(404,), scope="train")
def sim_overview(call: Call) -> SimOverview:
    """Solve rates by family and solver of a task's problem file, and the runs on it."""
    from headway.kits.simulator.overview import overview

    return overview(call.server.project, call.params["task"])


@endpoint(
    "GET",
    "/v1/tasks/{task}/sim/episode",
    query=SimEpisodeQuery,
    gives=SolvedEpisode,
    errors=(404,),
    scope="train",
)
def sim_episode(call: Call) -> SolvedEpisode:
    """A policy of the task on a held-out problem, step by step; nothing is logged."""
    from headway.kits.simulator.overview import episode

    query: SimEpisodeQuery = call.query
    return episode(call.server.project, call.params["task"], query.number, query.policy)
