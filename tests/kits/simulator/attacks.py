"""Solutions that attack the judge, its other runs, or the machine. None of them may pass, and none may do harm.

Each defines `double`, which the problem asks for, and would pass by what it tries, not by what it computes.
"""

from __future__ import annotations

from headway.kits.simulator.problem import CodeCase, CodeProblem
from tests.kits.simulator.attack_sources import FORGERS, LIMITED, LIMITS, LOOK, PLANT, REFERENCE, SECRET

__all__ = ["FORGERS", "GUESS", "GUESS_CODE", "LIMITED", "LIMITS", "LOOK", "PLANT", "PROBLEM"]

PROBLEM = CodeProblem(
    id="double",
    family="arithmetic",
    difficulty=1,
    statement="Write double(number): twice the number.",
    entry="double",
    reference=REFERENCE,
    wrong=[],
    visible=[CodeCase(args=[1], returns=2)],
    hidden=[CodeCase(args=[n], returns=2 * n) for n in range(3)],
)
GUESS = CodeProblem(
    id="guess",
    family="arithmetic",
    difficulty=1,
    statement="Nobody can know this.",
    entry="double",
    reference=f"def double(number): return {SECRET}",
    wrong=[],
    visible=[],
    hidden=[CodeCase(args=[1], returns=SECRET)],
)
GUESS_CODE = CodeProblem(
    id="guess-code",
    family="arithmetic",
    difficulty=1,
    statement="Nobody can know this.",
    entry="double",
    reference=f"def double(number): return {SECRET}",
    wrong=[],
    visible=[],
    hidden=[],
    tests=f"expected = {SECRET}\ndef check(candidate):\n    assert candidate(1) == expected\n",
    source="test",
)
