"""A run of an improver as its journal keeps it, without playing it: for tests of those who read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from headway.kits.next_action.improve.journal import Journal
from headway.kits.next_action.improve.run_state import RoundResult

__all__ = ["IMPROVER", "write_run"]

IMPROVER = """
[improve.up]
scope = "Raise the score"
metric = "score"
eval = ["sh", "eval.sh"]
files = ["*.txt"]
proposals = "proposals.jsonl"
"""


def write_run(home: Path, results: Sequence[RoundResult], *, improver: str = "up", run: str = "001") -> None:
    """Write the journal of a finished run below `.headway`."""
    folder = home / "improve" / improver / run
    folder.mkdir(parents=True)
    journal = Journal(folder / "journal.jsonl")
    journal.add("start", base="0" * 40, settings="", score=1.0, others={}, sandbox="bubblewrap")
    for result in results:
        journal.add("round", round=result.round, decision=result.decision)
        journal.add("outcome", result=asdict(result), title=result.proposal)
        journal.add("recorded", round=result.round)
    journal.add("end", why="no proposal is left")
