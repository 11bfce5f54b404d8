"""Runs command lines as a user does, in this process or in a new one."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.cli import main as cli


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        report = json.loads(self.out)
        assert isinstance(report, dict)
        return report

    @property
    def error(self) -> dict[str, Any]:
        body: dict[str, Any] = self.json["error"]
        return body


def headway(*words: object, stdin: str = "") -> Result:
    """Run a command line in this process, without a terminal."""
    out, err, before = io.StringIO(), io.StringIO(), sys.stdin
    sys.stdin = io.StringIO(stdin)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = cli.run([str(word) for word in words])
    finally:
        sys.stdin = before
    return Result(code, out.getvalue(), err.getvalue())


def process(*words: object, cwd: Path, **environ: str) -> Result:
    """Run a command line in a new process, through the installed entry point."""
    return ran([Path(sys.executable).with_name("headway"), *words], cwd=cwd, **environ)


def ran(program: Sequence[object], *, cwd: Path, **environ: str) -> Result:
    """Run a program in a new process; what it says on a busy machine about its progress is left out."""
    done = subprocess.run(
        [str(word) for word in program],
        cwd=cwd,
        env={**os.environ, **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    return Result(done.returncode, done.stdout, without_progress(done.stderr))


def without_progress(err: str) -> str:
    """Standard error without the lines of a command that was silent for long."""
    return re.sub(r"^[\w ]+ is working, \d+ s\n", "", err, flags=re.MULTILINE)


def contents(folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of the store about decisions, signals and current policies."""
    with contextlib.closing(sqlite3.connect(folder / ".headway" / "headway.db")) as connection:
        tables = ("decisions", "signals", "settled", "episodes", "ledger", "evidence", "candidate_sets", "policies")
        return {name: connection.execute(f"SELECT * FROM {name} ORDER BY 1").fetchall() for name in tables}
