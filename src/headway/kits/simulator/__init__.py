"""simulator — programming problems with known solutions, and policies that practise on them.

problem.py     a problem, and files of problems

Takes: problems and solvers.   Gives: checked problem files.
Never: shows a policy the family, the difficulty or the hidden tests of a problem.
May import: cli, nouns.
"""

from headway.nouns.kit import Kit

__all__ = ["KIT"]

KIT = Kit(
    name="simulator",
    summary="Programming problems with known solutions, and policies that practise on them.",
)
