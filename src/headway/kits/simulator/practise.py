"""Practises in the world `sim`: the problem file, its judged solutions, and the policy that is learned on them.

    practise_sim(project, task="route", tasks=Path("problems.jsonl"), seed=7)      # a candidate of the task `route`
    problem_file(project, None)                                                     # the project's own file

Without a file, the project gets one of DEFAULT_COUNT problems in `.headway/sim/`. Solutions that were not judged yet
are judged first, in a sandbox.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.kits.practice import Practised, practise
from headway.kits.simulator import SOLVERS
from headway.kits.simulator.generate import generate
from headway.kits.simulator.oracle import Oracle, cells
from headway.kits.simulator.outcomes import all_recorded, outcomes
from headway.kits.simulator.problem import OURS, read_problems, write_problems
from headway.kits.simulator.report import ATTEMPTS, fixed_chooser, played_by
from headway.kits.simulator.split import ENCODER, problem_part
from headway.kits.simulator.validate import judges
from headway.nouns import Progress, errors
from headway.project import Project

DEFAULT_COUNT, DEFAULT_SEED = 2_400, 42


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedArmShare:
    """The best fixed arm beside the oracle; values net of cost."""

    arm: str
    value: float
    oracle: float

    @property
    def words(self) -> str:
        share = self.value / self.oracle
        return f"Before practice: the best fixed arm ({self.arm}) is worth {share:.0%} of the oracle on these problems."


def practise_sim(
    project: Project,
    *,
    task: str | None = None,
    tasks: Path | None = None,
    shuffled: int | None = None,
    progress: Progress | None = None,
    **how: Any,
) -> Practised:
    """A candidate that practised on the problems of a file; `how`: as for any world."""
    settings = sim_settings(project, task, tasks, progress)
    if shuffled is not None:
        settings["shuffled"] = shuffled
    return practise(project, "sim", task=task, settings=settings, progress=progress, **how)


def sim_settings(
    project: Project, task: str | None, tasks: Path | None, progress: Progress | None = None
) -> dict[str, Any]:
    """The settings of the world for a task, after the solutions of its problem file were judged."""
    path = judged_file(problem_file(project, tasks, progress), progress)
    return {"tasks": str(path.resolve()), "encoder": encoder_version(project, task)}


def before_practice(settings: Mapping[str, Any]) -> FixedArmShare:
    """What practice is worth here at most: stated before it, on the problems to practise on."""
    part = problem_part(Path(settings["tasks"]), "train")
    oracle = float(Oracle(cells(part.problems, part.subjects, part.table)).values().mean())
    arms = [
        float(played_by(part, fixed_chooser(arm), attempts=ATTEMPTS, seed=0, encoder=settings["encoder"]).values.mean())
        for arm in range(len(SOLVERS))
    ]
    return FixedArmShare(arm=SOLVERS[arms.index(max(arms))], value=max(arms), oracle=oracle)


def problem_file(project: Project, tasks: Path | None, progress: Progress | None = None) -> Path:
    """The named file, or the project's own, which is made on first use."""
    if tasks is not None:
        return tasks
    path = project.home / "sim" / "problems.jsonl"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_problems(path, generate(DEFAULT_COUNT, DEFAULT_SEED, progress=progress))
    return path


def judged_file(path: Path, progress: Progress | None = None, *, sandbox: str = "auto", workers: int = 2) -> Path:
    """The file, after every solution that was not judged yet has been run."""
    problems = read_problems(path)
    foreign = next((problem for problem in problems if problem.source != OURS), None)
    if foreign is not None:
        raise errors.InvalidInput(
            f"{path.name}: the problem {foreign.id!r} has no wrong solutions, which scripted solvers need.",
            code="bad_world",
            hint="Practise on generated problems: `headway sim generate --out FILE`.",
        )

    if not all_recorded(problems, path):
        with judges(sandbox, workers) as (run, _):
            outcomes(problems, path, run, progress)
    return path


def encoder_version(project: Project, task: str | None) -> str:
    """The encoder of the task, by its version."""
    if task is None:
        return ENCODER
    return project.servings.encoder_of(project.settings.task(task)).version
