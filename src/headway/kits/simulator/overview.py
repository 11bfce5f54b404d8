"""What the page shows of the simulator: solve rates by family and solver, runs and how far they are, one episode.

    view = overview(project, "route")            # of the problem file that a policy of the task practised on
    episode(project, "route", number=3)          # the current policy on a held-out problem, step by step

Solve rates are those of first drafts on the plain statement: how often they pass the hidden tests.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from headway.decide import explore
from headway.files import read_regular
from headway.kits.simulator import ACTIONS, SOLVERS
from headway.kits.simulator.shown import EpisodeStep, ProblemRun, SimOverview, SolvedEpisode, SolveRate
from headway.kits.simulator.solvers import drafts
from headway.kits.simulator.split import HELD_OUT, PARTS, ProblemPart, problem_part
from headway.kits.simulator.world import MOST_STEPS
from headway.nouns import Candidate, Situation, errors
from headway.project import Project

DRAFTS = 20  # of each problem and solver


def overview(project: Project, task: str) -> SimOverview:
    """What is known about the problem file of a task's policies."""
    path = _file(project, task)
    if path is None:
        return SimOverview(task=task, file="", problems=0, rates=[], runs=[])
    parts = [problem_part(path, part) for part in PARTS]
    rates = [rate for part in parts for rate in _rates(part)]
    return SimOverview(
        task=task,
        file=str(path),
        problems=sum(len(part.problems) for part in parts),
        rates=_merged(rates),
        runs=_runs(path),
    )


def episode(project: Project, task: str, number: int, policy: str = "current") -> SolvedEpisode:
    """Play a policy, as it would be served, on the held-out problem of this number."""
    path = _file(project, task)
    if path is None:
        raise errors.UnknownName(
            f"No policy of {task!r} practised on problems.",
            code="no_world",
            hint=f"Learn one with `headway sim train {task}`.",
        )
    settings = project.settings.task(task)
    body = project.servings.body(settings)
    ref, digest = project.servings.resolve(settings, policy)
    pipeline = project.servings.pipeline(task, body, ref, digest)
    part = problem_part(path, "test")
    place = number % len(part.problems)
    world = part.world(1)
    world.start(np.array([place]), np.zeros(1, dtype=np.uint64))
    rng = np.random.default_rng([place, 0x9A6E])
    steps: list[EpisodeStep] = []
    value, solved = 0.0, False
    for _ in range(MOST_STEPS):
        allowed = np.flatnonzero(world.action_masks()[0])
        asked = world.situations()[0]
        situation = Situation(task=task, text=asked.text, state=asked.state)
        seed = int(rng.integers(1 << 62))
        shares = pipeline.distributions([situation], [[Candidate(ACTIONS[index]) for index in allowed]], [seed])[0]
        chosen = explore.drawn(shares.tolist(), seed)
        _, rewards, over, _, info = world.step([int(allowed[chosen])])
        after = world.situations()[0].state if not over[0] else asked.state
        steps.append(
            EpisodeStep(
                action=ACTIONS[int(allowed[chosen])],
                probability=float(shares[chosen]),
                cost=float(info["metrics"]["cost"][0]),
                draft=str(after.get("draft", "")),
                check=str(after.get("check", "")),
            )
        )
        value += float(rewards[0])
        if over[0]:
            solved = bool(info["metrics"]["solved"][0])
            break
    problem = part.problems[place]
    return SolvedEpisode(
        task=task, policy=ref, problem=problem.id, number=place, of=len(part.problems), statement=problem.statement,
        steps=steps, solved=solved, value=value,
    )  # fmt: skip


def _file(project: Project, task: str) -> Path | None:
    """The problem file of the current policy, or of the newest candidate."""
    candidate = project.standing(task).candidate
    refs = [str(project.current(task).ref), *([candidate.ref] if candidate is not None else [])]
    for ref in refs:
        if ref.endswith("@0"):
            continue
        trained: Any = project.registry.header(project.registry.find(ref)).trained_on
        if trained.get("world") == "sim" and Path(str(trained["fresh"]["tasks"])).is_file():
            return Path(str(trained["fresh"]["tasks"]))
    return None


def _rates(part: ProblemPart) -> list[SolveRate]:
    count = len(part.problems)
    at = np.repeat(np.arange(count), DRAFTS)
    none = np.zeros(len(at), dtype=np.int64)
    draws = np.tile(np.arange(DRAFTS, dtype=np.uint64), count)
    families = np.array([problem.family for problem in part.problems])
    rates = []
    for arm, solver in enumerate(SOLVERS):
        written = drafts(part.subjects, at, none + arm, none, none, none, draws)
        solved = part.table.hidden[at, written].reshape(count, DRAFTS).mean(axis=1)
        for family in dict.fromkeys(families.tolist()):
            own = solved[families == family]
            rates.append(
                SolveRate(
                    family=family, solver=solver, rate=float(own.mean()), problems=len(own), held_out=family in HELD_OUT
                )
            )
    return rates


def _merged(rates: list[SolveRate]) -> list[SolveRate]:
    """One rate for each family and solver, over all parts."""
    merged: dict[tuple[str, str], SolveRate] = {}
    for rate in rates:
        key = rate.family, rate.solver
        known = merged.get(key)
        if known is None:
            merged[key] = rate
            continue
        problems = known.problems + rate.problems
        mean = (known.rate * known.problems + rate.rate * rate.problems) / problems
        merged[key] = SolveRate(
            family=rate.family, solver=rate.solver, rate=mean, problems=problems, held_out=rate.held_out
        )
    return sorted(merged.values(), key=lambda rate: (rate.family, SOLVERS.index(rate.solver)))


def _runs(path: Path) -> list[ProblemRun]:
    """The runs whose results are beside the file, the newest first."""
    files = sorted(
        path.parent.glob(f"{path.name.split('.')[0]}-*.results.jsonl"), key=lambda file: -file.stat().st_mtime
    )
    return [run for file in files[:20] if (run := _run(file)) is not None]


def _run(file: Path) -> ProblemRun | None:
    try:
        head, *lines = read_regular(file).splitlines()
        key = json.loads(head)["run"]
        rows = [json.loads(line) for line in lines if line.endswith(b"}")]  # the last one may be cut
        done = [row for row in rows if row.get("status") != "error"]
        return ProblemRun(
            solver=str(key["solver"]), results=file.name, done=len(done), of=int(key["count"]),
            passed=sum(row["status"] == "passed" for row in done), running=_locked(file),
        )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _locked(file: Path) -> bool:
    """Whether a process writes these results now: it holds the lock of the file."""
    try:
        lock = os.open(file.with_name(f".{file.name}.lock"), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    else:
        return False
    finally:
        os.close(lock)
