"""What goes into a sandbox and what comes out of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal, Protocol

from headway.nouns.errors import InvalidInput

__all__ = ["Command", "Files", "Limits", "Result", "Sandbox", "Status", "checked_files"]

Status = Literal["passed", "failed", "timeout", "error"]
Command = str | Sequence[str]  # Python source, or a program and its arguments
Files = Mapping[str, str | bytes]

MIB = 1 << 20
FILES_AT_MOST = 200
_NAME = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_. -]{0,99}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much one run may use. The whole process tree together, except where it says "each"."""

    wall_s: float = 10.0
    cpu_s: float = 10.0
    memory_bytes: int = 512 * MIB
    processes: int = 32  # threads count too
    disk_bytes: int = 64 * MIB
    output_bytes: int = 1 * MIB  # of stdout and of stderr, each; the rest is dropped

    def __post_init__(self) -> None:
        for name, least in (("wall_s", 0.05), ("cpu_s", 0.05), ("processes", 1), ("output_bytes", 0)):
            self._at_least(name, least)
        self._at_least("memory_bytes", 32 * MIB)
        self._at_least("disk_bytes", 1 * MIB)

    def _at_least(self, name: str, least: float) -> None:
        value = getattr(self, name)
        if not least <= value < float("inf"):
            raise InvalidInput(
                f"The limit {name} is {value!r}, expected at least {least!r} and finite.",
                code="bad_limit",
                hint=f"The default is {getattr(Limits(), name)!r}.",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How a run went.

    passed    it ended by itself with exit code 0
    failed    it ended with another code, by a signal, or because it used more than `Limits` allow (`why` says what)
    timeout   it used up its wall time or its CPU time
    error     the sandbox could not run it; this says nothing about the code
    """

    status: Status
    exit_code: int | None = None  # negative: the signal that ended it; None: it never ran, or we ended it
    stdout: str = ""
    stderr: str = ""
    truncated: bool = False  # more was written than Limits.output_bytes
    seconds: float = 0.0  # wall time
    cpu_s: float = 0.0
    peak_memory_bytes: int = 0
    why: str = ""
    sandbox: str = ""


class Sandbox(Protocol):
    """Runs a program with files beside it, within limits. Safe to call from several threads."""

    @property
    def name(self) -> str: ...

    def run(
        self,
        command: Command,
        *,
        files: Files | None = None,
        limits: Limits | None = None,
        stdin: str | bytes = b"",
    ) -> Result: ...


def checked_files(files: Files | None) -> dict[str, bytes]:
    """The files as bytes, by names that stay inside the folder they are put into."""
    given = dict(files or {})
    if len(given) > FILES_AT_MOST:
        raise InvalidInput(
            f"{len(given)} files for one run, expected at most {FILES_AT_MOST}.", code="bad_file", hint="Pack them."
        )
    for name in given:
        parts = PurePosixPath(name).parts
        if (
            name.startswith("/")
            or not parts
            or str(PurePosixPath(name)) != name
            or any(part in {".", ".."} or not _NAME.match(part) for part in parts)
        ):
            raise InvalidInput(
                f"A file is called {name!r}, expected a relative path of plain names.",
                code="bad_file",
                hint="For example 'data/input.txt'.",
            )
    return {name: content.encode() if isinstance(content, str) else bytes(content) for name, content in given.items()}
