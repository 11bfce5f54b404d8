"""A solver by name: what writes the solution of a problem.

    solution_of("reference", problem)                     # the known solution: do the problems and the sandbox work?
    solution_of("small", problem)                         # a scripted solver (solvers.py)
    solution_of("smollm2", problem, Path("."))            # a local model, or an upstream of that project's settings

A solver that cannot answer, for example because its upstream is down, raises `Unavailable`.
"""

from __future__ import annotations

from pathlib import Path

from headway.kits.simulator.model_solvers import check_model, known_models, model_source
from headway.kits.simulator.problem import CodeProblem
from headway.kits.simulator.solvers import SCRIPTED, scripted
from headway.nouns.errors import UnknownName, did_you_mean

REFERENCE = "reference"


def solver_names() -> tuple[str, ...]:
    """The solvers that need no model."""
    return (REFERENCE, *SCRIPTED)


def check_solver(name: str, folder: Path = Path()) -> None:
    """Refuse an unknown solver, or a local model that is not here, before anything runs."""
    if name in solver_names():
        return
    models = known_models(folder)
    if name not in models:
        names = (*solver_names(), *models)
        raise UnknownName(f"There is no solver {name!r}.", code="unknown_solver", hint=did_you_mean(name, names))
    check_model(folder, name)


def solution_of(name: str, problem: CodeProblem, folder: Path = Path()) -> str:
    """The source that a solver hands in for a problem."""
    if name == REFERENCE:
        return problem.reference
    if name in SCRIPTED:
        return scripted(name, problem, problem.statement)
    return model_source(folder, name, problem)
