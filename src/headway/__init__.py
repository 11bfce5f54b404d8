"""Headway: a local-first policy layer for AI agents — decide, signal, learn, prove, promote.

    import headway

    project = headway.open("demo")
    pick = project.decide("route", "Summarise this page", ["small", "large"])
    project.signal(pick.id, reward=1.0)

Importing this package loads neither numpy nor a web framework; what is needed is loaded on first use.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.nouns import Candidate, Decision, Estimate, Evidence, Signal, Situation, Source, Verdict
from headway.nouns.errors import (
    Busy,
    Conflict,
    Damaged,
    GateRefused,
    HeadwayError,
    InvalidInput,
    InvalidSettings,
    MissingExtra,
    Unavailable,
    UnknownName,
)

if TYPE_CHECKING:
    from headway.nouns import SampleRequest
    from headway.project import Project

__all__ = [
    "Busy",
    "Candidate",
    "Conflict",
    "Damaged",
    "Decision",
    "Estimate",
    "Evidence",
    "GateRefused",
    "HeadwayError",
    "InvalidInput",
    "InvalidSettings",
    "MissingExtra",
    "Project",
    "Signal",
    "Situation",
    "Unavailable",
    "UnknownName",
    "Verdict",
    "open",
    "sample",
]
__version__ = "0.2.0"


def open(  # noqa: A001 — reads as it should: headway.open("demo")
    folder: str | Path | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    seed: int | None = None,
    source: Source = "real",
) -> Project:
    """The project in a folder, created on first use: headway.toml if there is one, and everything else in .headway/.

    Without a folder it is that of HEADWAY_DIR, or the working directory. `seed` makes its random draws reproducible;
    `source="synthetic"` marks everything decided as made up.
    """
    from headway.project import Project
    from headway.settings import project_directory

    return Project(project_directory(folder, environ), environ=environ, seed=seed, source=source)


def sample(name: str = "route", *, n: int = 4000, seed: int = 7) -> Iterator[SampleRequest]:
    """Sample traffic from a stated, synthetic world: asks with a text and an `outcome(action)`."""
    from headway.nouns import catalogue, load

    world = load(catalogue().look_up("samples", name, called="sample traffic called", code="unknown_world"))()
    asks: Iterator[SampleRequest] = world.sample(n, seed)
    return asks


def __getattr__(name: str) -> Any:
    if name == "Project":
        from headway.project import Project

        return Project
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return builtins.sorted([*globals(), "Project"])
