"""What the page shows of the simulator, as plain records: a server that shows nothing loads nothing else."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SolveRate:
    """The share of first drafts that pass."""

    family: str
    solver: str
    rate: float
    problems: int
    held_out: bool  # no policy practises on this family


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemRun:
    """A run of `headway sim run` on the file."""

    solver: str
    results: str
    done: int
    of: int
    passed: int
    running: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SimOverview:
    """The problem file that policies of a task practised on; empty if none did."""

    wire_name = "SimOverviewAnswer"
    task: str
    file: str
    problems: int
    rates: list[SolveRate]
    runs: list[ProblemRun]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeStep:
    """One action: its probability, what it cost, and what the policy knew afterwards."""

    action: str
    probability: float
    cost: float
    draft: str
    check: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SolvedEpisode:
    """One episode of a policy on a held-out problem."""

    wire_name = "SimEpisodeAnswer"
    task: str
    policy: str
    problem: str
    number: int
    of: int
    statement: str
    steps: list[EpisodeStep]
    solved: bool
    value: float
