"""The user's command on a fresh copy of the files, in the sandbox, and the number that it prints.

    evaluation = ProposalEvaluation(settings, rules, project_folder, scratch, protected=base_files)
    evaluation.measure(snapshot)      # Measurement(value=0.42), or Measurement(value=None, why="it ran for longer …")

Every measurement gets a copy of its own, so that nothing that one run wrote is there in the next. A crash, a timeout, a
number that is missing, printed twice or not finite, and a changed read-only file are failed measurements, never 0.

The read-only files are those of the commit that the run began with, laid over the copy: whatever the proposal did to
them, by a way that no rule knows, is gone. Bytecode of the tree is not copied: Python would run it instead of a source.

Not covered: the proposal's code runs inside the evaluation. It can print the number itself and end the program; an
evaluation that must withstand this starts the code under test as a separate program.
"""

from __future__ import annotations

import errno
import filecmp
import json
import math
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from headway.kits.next_action.improve.file_rules import FileRules
from headway.kits.next_action.improve.settings import ImproverSettings
from headway.kits.sandbox import Limits, Result, Sandbox, Workspace, interpreter, remove_tree, sandbox
from headway.nouns import errors

_MIB = 1 << 20
_CORES = 64  # CPU seconds per second of wall time, at most
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:inf|infinity|nan)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One evaluation: the number, or why there is none."""

    value: float | None
    why: str = ""
    ran: bool = True  # False: the sandbox could not run it to its end
    others: Mapping[str, float] = field(default_factory=dict)  # further numbers of a JSON line


class ProposalEvaluation:
    """How one improver measures."""

    def __init__(
        self, settings: ImproverSettings, rules: FileRules, directory: Path, scratch: Path, *, protected: Path
    ) -> None:
        """`protected` has the files of the commit that the run began with."""
        readable = {name: (directory / name).resolve() for name in settings.readable}
        self._box: Sandbox = sandbox(settings.sandbox, workspace=True, readable=tuple(readable.values()))
        self._command = _command(settings.eval, readable)
        self._settings, self._rules, self._scratch, self._protected = settings, rules, scratch, protected
        self._limits = Limits(
            wall_s=settings.timeout_s,
            cpu_s=settings.timeout_s * _CORES,
            memory_bytes=settings.memory_mb * _MIB,
            processes=settings.processes,
            disk_bytes=settings.disk_mb * _MIB,
        )

    @property
    def sandbox(self) -> str:
        return self._box.name

    def measure(self, snapshot: Path) -> Measurement:
        """Run the command once on a copy of the snapshot."""
        remove_tree(self._scratch)
        try:
            with writing():
                shutil.copytree(snapshot, self._scratch, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
                _lay_over(self._protected, self._scratch, self._rules)
            kept = read_only_paths(self._scratch, self._rules)
            result = self._box.run(
                self._command, limits=self._limits, workspace=Workspace(path=self._scratch, read_only=kept)
            )
            changed = next((name for name in kept if _differs(self._protected / name, self._scratch / name)), None)
        finally:
            remove_tree(self._scratch)
        if changed is not None:
            return Measurement(value=None, why=f"the evaluation changed {changed!r}, which is read-only")
        return self._read(result)

    def _read(self, result: Result) -> Measurement:
        if result.status == "error":
            return Measurement(value=None, why=result.why, ran=False)
        if result.status != "passed":
            last = (result.stderr.strip().splitlines() or [""])[-1][:200]
            return Measurement(value=None, why=": ".join(filter(None, (result.why, last))))
        if result.truncated:
            return Measurement(value=None, why=f"it printed more than {self._limits.output_bytes:,} bytes")
        measurement = metric_of(result.stdout, self._settings.metric)
        limits = self._settings.range
        if measurement.value is not None and limits is not None and not limits[0] <= measurement.value <= limits[1]:
            outside = f"outside the range {limits[0]:g} to {limits[1]:g}"
            return Measurement(value=None, why=f"{self._settings.metric} is {measurement.value:g}, {outside}")
        return measurement


def failed_on_base(measurement: Measurement) -> errors.InvalidInput | errors.Unavailable:
    """The error for an evaluation that fails on the unchanged files: it can judge nothing."""
    if not measurement.ran:
        return errors.Unavailable(
            f"The evaluation could not be started: {measurement.why}",
            code="eval_not_started",
            hint="Correct `eval` in headway.toml: the command must exist in the sandbox. See also `readable`.",
        )
    return errors.InvalidInput(
        f"The evaluation fails on the unchanged files: {measurement.why}.",
        code="eval_failed",
        hint="It must print one line such as `metric: 1.5` and end with status 0, every time.",
    )


def metric_of(output: str, metric: str) -> Measurement:
    """The number in a line `metric: 0.42`, `metric = 0.42` or a JSON object with that key; exactly one line has it."""
    plain = re.compile(rf"\s*{re.escape(metric)}\s*[:=]\s*({_NUMBER})\s*", re.IGNORECASE)
    values: list[float] = []
    others: dict[str, float] = {}
    for line in output.splitlines():
        if match := plain.fullmatch(line):
            values.append(float(match[1]))
        elif line.lstrip().startswith("{"):
            numbers = _numbers(line)
            if metric in numbers:
                values.append(numbers.pop(metric))
                others = numbers
    if len(values) != 1:
        how = f"{len(values)} times, expected once" if values else "not at all"
        return Measurement(value=None, why=f"it printed {metric!r} {how}")
    if not math.isfinite(values[0]):
        return Measurement(value=None, why=f"{metric} is {values[0]}, expected a finite number")
    finite = {name: number for name, number in others.items() if math.isfinite(number)}
    return Measurement(value=values[0], others=finite)


def _numbers(line: str) -> dict[str, float]:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(document, dict):
        return {}
    return {
        name: float(value)
        for name, value in document.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300
    }


def read_only_paths(folder: Path, rules: FileRules) -> tuple[str, ...]:
    """The read-only files, and instead of all files of a folder the folder itself. Links are left out."""

    def walk(place: Path) -> tuple[bool, list[str]]:
        names, whole = list[str](), True
        for entry in sorted(place.iterdir()):
            path = entry.relative_to(folder).as_posix()
            if entry.is_dir() and not entry.is_symlink():
                inner, more = walk(entry)
                names += [path] if inner else more
                whole = whole and inner
            elif rules.is_read_only(path):
                names += [] if entry.is_symlink() else [path]
                whole = whole and not entry.is_symlink()
            else:
                whole = False
        return whole, names

    return tuple(walk(folder)[1])


def _lay_over(protected: Path, target: Path, rules: FileRules) -> None:
    """Make the read-only files of `target` those of `protected`: no other content, none more and none less."""
    for path in [*target.rglob("*")]:
        if (path.is_symlink() or path.is_file()) and rules.is_read_only(path.relative_to(target).as_posix()):
            path.unlink()
    for path in protected.rglob("*"):
        name = path.relative_to(protected)
        if (path.is_dir() and not path.is_symlink()) or not rules.is_read_only(name.as_posix()):
            continue
        place = target
        for part in name.parts[:-1]:
            place /= part
            if place.is_symlink() or place.is_file():
                place.unlink()
            place.mkdir(exist_ok=True)
        remove_tree(target / name)
        shutil.copy2(path, target / name, follow_symlinks=False)


def _differs(before: Path, after: Path) -> bool:
    if after.is_symlink() or before.is_dir() != after.is_dir():
        return True
    if before.is_dir():
        names = sorted(path.name for path in before.iterdir())
        if names != sorted(path.name for path in after.iterdir()):
            return True
        return any(_differs(before / name, after / name) for name in names if not (before / name).is_symlink())
    return not after.is_file() or not filecmp.cmp(before, after, shallow=False)


def _command(words: Sequence[str], readable: Mapping[str, Path]) -> list[str]:
    """The command with Headway's own interpreter for `python`, and absolute paths for what is in `readable`."""
    command = []
    for word in words:
        path = PurePosixPath(word)
        base = next((name for name in readable if path.is_relative_to(PurePosixPath(name))), None)
        command.append(word if base is None else str(readable[base] / path.relative_to(PurePosixPath(base))))
    if command[0] in ("python", "python3"):
        command[0] = interpreter(for_everybody=False)
    return command


@contextmanager
def writing() -> Iterator[None]:
    """Turns the error of a full disk into one with a code; nothing is kept then."""
    try:
        yield
    except (OSError, shutil.Error) as error:
        full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error)
        if full:
            raise errors.Unavailable(
                "The disk is full.", code="disk_full", hint="Free some space, and run it again: it continues."
            ) from None
        raise errors.InvalidInput(f"The files cannot be copied: {error}", code="improve_not_written") from None
