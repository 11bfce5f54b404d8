"""Journals and results of runs that chose a deleted decision: `headway data delete` removes them.

They repeat the words of proposals. A run that was interrupted is over then. While one runs, the deletion is refused
until it has ended: `improve_running`. Not covered: the repository and its branches.
"""

from __future__ import annotations

import re
import shutil
from contextlib import ExitStack
from typing import TYPE_CHECKING

from headway.files import read_regular
from headway.kits.next_action.improve.journal import Journal, one_at_a_time

if TYPE_CHECKING:
    from headway.observe import Erasing
    from headway.project import Project


_DECISION = re.compile(rb"dec_[0-9a-f]{32}")  # also in a damaged journal


def erase(project: Project, going: Erasing) -> int:
    """Remove the files; how many runs they were of."""
    count = 0
    with ExitStack() as locks:
        for home in sorted({path.parent.parent for path in (project.home / "improve").glob("*/*/journal.*")}):
            reached = []
            for run in sorted({path.parent for path in home.glob("*/journal.*")}):
                journals = b"".join(map(read_regular, run.glob("journal.*")))
                if going.of_ids(sorted({name.decode() for name in _DECISION.findall(journals)})):
                    reached.append(run)
            count += len(reached)
            if going.dry_run or not reached:
                continue
            locks.enter_context(one_at_a_time(home, home.name))
            for run in reached:
                for path in run.iterdir():
                    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
                Journal(run / "journal.jsonl").add("end", why="its decisions were deleted")
    return count
