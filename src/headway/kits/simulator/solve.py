"""A solver by name: what writes the solution of a problem.

    solution_of("reference", problem)        # the known solution: do the problems and the sandbox work?
    solution_of("small", problem)            # a scripted solver (solvers.py)

A solver that cannot answer, for example because its upstream is down, raises `Unavailable`.
"""

from __future__ import annotations

from headway.kits.simulator.problem import CodeProblem
from headway.kits.simulator.solvers import SCRIPTED, scripted
from headway.nouns.errors import UnknownName, did_you_mean

__all__ = ["REFERENCE", "check_solver", "solution_of", "solver_names"]

REFERENCE = "reference"


def solver_names() -> tuple[str, ...]:
    """The solvers that need no upstream."""
    return (REFERENCE, *SCRIPTED)


def check_solver(name: str) -> None:
    """Refuse an unknown solver before anything runs."""
    if name not in solver_names():
        raise UnknownName(
            f"There is no solver {name!r}.", code="unknown_solver", hint=did_you_mean(name, solver_names())
        )


def solution_of(name: str, problem: CodeProblem) -> str:
    """The source that a solver hands in for a problem."""
    check_solver(name)
    return problem.reference if name == REFERENCE else scripted(name, problem, problem.statement)
