"""[improve.NAME] of headway.toml: what to improve, how to measure it, and what a proposal may change."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from msgspec import Meta, Struct

from headway.nouns import errors
from headway.settings import Setting, Settings

CommandWords = Annotated[tuple[str, ...], Meta(min_length=1)]  # a word may be there twice


class ImproverSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One improver."""

    scope: Annotated[str, Setting(expected="what to improve, in words")]
    metric: Annotated[str, Setting(expected="the name of the number that the evaluation prints")]
    eval: Annotated[CommandWords, Setting(expected='a command, such as ["python3", "bench.py"]')]
    files: Annotated[tuple[str, ...], Setting(expected='the files that may change, such as ["src/**"]')]
    direction: Literal["minimise", "maximise"] = "maximise"
    task: str = "next-action"  # the ranking task that chooses among proposals
    repository: str = "."  # relative to headway.toml
    # where proposals come from: one of these
    proposals: str = ""  # a file of JSON lines, relative to headway.toml
    propose: CommandWords = ()  # a command on this machine that prints JSON lines
    model: str = ""  # an upstream of [upstreams.NAME], or a local model
    # what a proposal may change, besides `files`
    read_only: tuple[str, ...] = ()
    most_files: Annotated[int, Meta(ge=1, le=1000)] = 10
    # how it is measured
    repeats: Annotated[int, Meta(ge=1, le=10_000)] = 30  # pairs of measurements per proposal, at most
    alpha: Annotated[float, Meta(gt=0, le=0.2)] = 0.05  # the share without effect among what a run keeps, at most
    margin: Annotated[float, Meta(ge=0)] = 0.0  # a smaller improvement is not worth keeping
    range: tuple[float, float] | None = None  # between which every measurement lies
    # limits
    rounds: Annotated[int, Meta(ge=1, le=100_000)] = 20
    budget_s: Annotated[float, Meta(gt=0, le=31_536_000)] = 3600.0
    timeout_s: Annotated[float, Meta(ge=0.05, le=86_400)] = 60.0  # of one evaluation
    memory_mb: Annotated[int, Meta(ge=32, le=1_000_000)] = 2048
    disk_mb: Annotated[int, Meta(ge=1, le=1_000_000)] = 256
    processes: Annotated[int, Meta(ge=1, le=10_000)] = 64
    sandbox: Literal["auto", "bubblewrap", "process"] = "auto"
    readable: tuple[str, ...] = ()  # more paths that the evaluation may read, relative to headway.toml
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0

    def __post_init__(self) -> None:
        if not self.files:
            raise ValueError("at least one pattern in `files`")
        sources = [bool(self.proposals), bool(self.propose), bool(self.model)]
        if sum(sources) != 1:
            raise ValueError("exactly one of `proposals`, `propose` and `model`: where proposals come from")
        if self.range is not None and not (all(map(math.isfinite, self.range)) and self.range[0] < self.range[1]):
            raise ValueError("a `range` of two finite numbers, the lower one first")

    @property
    def sign(self) -> float:
        """Measurements times this: more is better."""
        return 1.0 if self.direction == "maximise" else -1.0


def improvers(settings: Settings) -> dict[str, ImproverSettings]:
    """The improvers that headway.toml declares, by name."""
    return dict(settings.kit_tables.get("improve", {}))


def improver(settings: Settings, name: str) -> ImproverSettings:
    """The improver of that name."""
    known = improvers(settings)
    if name not in known:
        raise errors.UnknownName(
            f"There is no improver {name!r}.",
            code="unknown_improver",
            hint=errors.did_you_mean(name, known) or f"Declare it in headway.toml with a table [improve.{name}].",
        )
    return known[name]
