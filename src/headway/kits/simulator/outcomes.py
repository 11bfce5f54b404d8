"""What each source of each problem comes to: really run once, kept in a file beside the problems.

    table = outcomes(problems, Path("problems.jsonl"), judge)     # judges what the file does not have yet
    table.visible[problem, source], table.hidden[problem, source]

The file is `problems.outcomes.jsonl`: a line for each source, by the problem's checksum and the source's hash. A
problem that changes has another checksum, so nothing stale is read. A line that cannot be read is judged again, and
so is a source whose judge ended with an error: that is never written down.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from headway.files import read_regular
from headway.kits.simulator.problem import CodeProblem
from headway.kits.simulator.solvers import sources
from headway.nouns import Progress, errors

# (problem, source) → (status on the visible tests, status on the hidden tests, why), in order
RunSource = Callable[[Iterable[tuple[CodeProblem, str]]], Iterator[tuple[str, str, str]]]
_TOGETHER = 50  # problems that are written at once


class OutcomeRow(msgspec.Struct, frozen=True, kw_only=True):
    """How one source did: statuses of the judge."""

    problem: str  # its checksum
    source: str  # the SHA-256 of the source
    visible: str
    hidden: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeTable:
    """[problem, source] each; the reference is source 0, and columns beyond a problem's sources are False."""

    visible: NDArray[np.bool_]
    hidden: NDArray[np.bool_]
    rows: list[list[OutcomeRow]]
    judged: int  # how many were run now; the others were in the file


def outcomes_path(problems: Path) -> Path:
    return problems.with_name(f"{problems.name.removesuffix('.jsonl')}.outcomes.jsonl")


def outcomes(
    problems: Sequence[CodeProblem], path: Path, run: RunSource, progress: Progress | None = None
) -> OutcomeTable:
    """The table of all problems; what its file lacks is judged now and added."""
    known = _read(outcomes_path(path))
    wanted = [(problem, source) for problem in problems for source in sources(problem)]
    missing = [pair for pair in wanted if _key(*pair) not in known]
    for start in range(0, len(missing), _TOGETHER):
        rows = _judged(missing[start : start + _TOGETHER], run)
        _append(outcomes_path(path), rows)
        known.update(((row.problem, row.source), row) for row in rows)
        if progress is not None:
            progress("solutions", start + len(rows), len(missing))
    return _table(problems, known, len(missing))


def all_recorded(problems: Sequence[CodeProblem], path: Path) -> bool:
    """Whether every solution was judged before."""
    known = _read(outcomes_path(path))
    return all(_key(problem, source) in known for problem in problems for source in sources(problem))


def recorded(problems: Sequence[CodeProblem], path: Path) -> OutcomeTable:
    """The table of problems whose solutions were all judged before."""
    known = _read(outcomes_path(path))
    missing = sum(_key(problem, source) not in known for problem in problems for source in sources(problem))
    if missing:
        raise errors.InvalidInput(
            f"{missing:,} solutions of {path.name} were not judged yet.",
            code="not_judged",
            hint=f"Judge them with `headway sim validate {path}`.",
        )
    return _table(problems, known, 0)


def _table(problems: Sequence[CodeProblem], known: Mapping[tuple[str, str], OutcomeRow], judged: int) -> OutcomeTable:
    rows = [[known[_key(problem, source)] for source in sources(problem)] for problem in problems]
    width = max(map(len, rows), default=1)
    visible, hidden = (np.zeros((len(problems), width), dtype=np.bool_) for _ in range(2))
    for place, row in enumerate(rows):
        visible[place, : len(row)] = [entry.visible == "passed" for entry in row]
        hidden[place, : len(row)] = [entry.hidden == "passed" for entry in row]
    return OutcomeTable(visible=visible, hidden=hidden, rows=rows, judged=judged)


def _judged(pairs: Sequence[tuple[CodeProblem, str]], run: RunSource) -> list[OutcomeRow]:
    rows = []
    for (problem, source), (visible, hidden, why) in zip(pairs, run(pairs), strict=True):
        key = _key(problem, source)
        rows.append(OutcomeRow(problem=key[0], source=key[1], visible=visible, hidden=hidden, why=why[:200]))
    return rows


def _append(path: Path, rows: Sequence[OutcomeRow]) -> None:
    sound = [row for row in rows if "error" not in (row.visible, row.hidden)]
    with path.open("ab+") as file:
        if file.tell():
            file.seek(-1, 2)
            cut = file.read(1) != b"\n"  # an interrupted write: its line stays unreadable, and ours begins a new one
        else:
            cut = False
        file.write(b"\n" * cut + b"".join(msgspec.json.encode(row) + b"\n" for row in sound))


def _key(problem: CodeProblem, source: str) -> tuple[str, str]:
    return problem.checksum, hashlib.sha256(source.encode()).hexdigest()


def _read(path: Path) -> dict[tuple[str, str], OutcomeRow]:
    try:
        lines = read_regular(path).splitlines()
    except FileNotFoundError:
        return {}
    known: dict[tuple[str, str], OutcomeRow] = {}
    for line in lines:
        try:
            row = msgspec.json.decode(line, type=OutcomeRow)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue  # the end of an interrupted write: it is judged again
        known[row.problem, row.source] = row
    return known
