"""The raters of a task: how each differs from the consensus."""

from __future__ import annotations

from dataclasses import asdict

import msgspec

from headway.serve import Call, endpoint


class RaterAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One rater: bias in the signal's unit, noise as a standard deviation, the probability of a reversed scale."""

    rater: str
    ratings: int
    bias: float
    bias_std: float
    noise: float
    scale: float
    scale_std: float
    reversed: float


class RatedSignalAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A signal that several raters gave. `compared`: their ratings differ, so habits can be told."""

    signal: str
    items: int
    mean: float
    compared: bool
    raters: list[RaterAnswer]


class RatersAnswer(msgspec.Struct, frozen=True, kw_only=True):
    task: str
    consensus: bool  # whether rewards are computed from it; otherwise from the mean
    signals: list[RatedSignalAnswer]


@endpoint("GET", "/v1/tasks/{task}/raters", gives=RatersAnswer, errors=(404,), scope="train")
def raters(call: Call) -> RatersAnswer:
    """For each signal with several raters: the bias, noise and scale of each; the same as `headway rewards analyze`."""
    from headway.kits.raters.agreement import raters as compare  # numpy, loaded only where it is asked for

    project = call.server.project
    task = project.settings.task(call.params["task"]).name
    return RatersAnswer(
        task=task,
        consensus=project.rewards(task).consensus,
        signals=[
            RatedSignalAnswer(
                signal=signal,
                items=len(agreed.items),
                mean=agreed.mean,
                compared=agreed.compared,
                raters=[RaterAnswer(rater=name, **asdict(rater)) for name, rater in agreed.raters.items()],
            )
            for signal, agreed in compare(project, task).items()
        ],
    )
