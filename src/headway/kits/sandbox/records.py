"""The input and output of a sandbox: limits, files, results."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal, Protocol

from headway.nouns import errors

Status = Literal["passed", "failed", "timeout", "error"]
Command = str | Sequence[str]  # Python source, or a program and its arguments
Files = Mapping[str, str | bytes]

MIB = 1 << 20
FILES_AT_MOST = 200
_NAME = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_. -]{0,99}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one run; they apply to the whole process tree."""

    wall_s: float = 10.0
    cpu_s: float = 10.0
    memory_bytes: int = 512 * MIB
    processes: int = 32  # threads count too
    disk_bytes: int = 64 * MIB
    output_bytes: int = 1 * MIB  # for each of stdout and stderr; the rest is dropped

    def __post_init__(self) -> None:
        for name, least in (("wall_s", 0.05), ("cpu_s", 0.05), ("processes", 1), ("output_bytes", 0)):
            self._at_least(name, least)
        self._at_least("memory_bytes", 32 * MIB)
        self._at_least("disk_bytes", 1 * MIB)

    def _at_least(self, name: str, least: float) -> None:
        value = getattr(self, name)
        if not least <= value < float("inf"):
            raise errors.InvalidInput(
                f"The limit {name} is {value!r}, expected at least {least!r} and finite.",
                code="bad_limit",
                hint=f"The default is {getattr(Limits(), name)!r}.",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of a run.

    passed    it exited with code 0
    failed    it exited with another code, by a signal, or because it exceeded `Limits` (see `why`)
    timeout   it used up its wall time or its CPU time
    error     the sandbox could not run it; this says nothing about the code
    """

    status: Status
    exit_code: int | None = None  # negative: the signal that ended it; None: it never ran, or the sandbox ended it
    stdout: str = ""
    stderr: str = ""
    truncated: bool = False  # the output exceeded Limits.output_bytes
    seconds: float = 0.0  # wall time
    cpu_s: float = 0.0
    peak_memory_bytes: int = 0
    why: str = ""
    sandbox: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """A folder of the host that a program works in and may change; nothing else of the host is writable.

    Started by root, the program runs as another user, and the folder is given to that user: lend a copy.
    """

    path: Path
    read_only: tuple[str, ...] = ()  # relative paths of files and folders in it that the program cannot change

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", self.path.absolute())  # a sandbox is started in another folder


class Sandbox(Protocol):
    """Runs a program with input files, within limits. Thread-safe.

    With a `workspace` the program starts in that folder; `disk_bytes` then limits how much it adds to it.
    """

    @property
    def name(self) -> str: ...

    def run(
        self,
        command: Command,
        *,
        files: Files | None = None,
        limits: Limits | None = None,
        stdin: str | bytes = b"",
        workspace: Workspace | None = None,
    ) -> Result: ...


def checked_files(files: Files | None) -> dict[str, bytes]:
    """The files as bytes; rejects names that would leave the program's folder."""
    checked = dict(files or {})
    if len(checked) > FILES_AT_MOST:
        raise errors.InvalidInput(
            f"{len(checked)} files for one run, expected at most {FILES_AT_MOST}.",
            code="bad_file",
            hint="Put them into an archive.",
        )
    for name in checked:
        parts = PurePosixPath(name).parts
        if (
            name.startswith("/")
            or not parts
            or str(PurePosixPath(name)) != name
            or any(part in {".", ".."} or not _NAME.match(part) for part in parts)
        ):
            raise errors.InvalidInput(
                f"The file name {name!r} is not allowed, expected a relative path of plain names.",
                code="bad_file",
                hint="For example 'data/input.txt'.",
            )
    return {name: content.encode() if isinstance(content, str) else bytes(content) for name, content in checked.items()}
