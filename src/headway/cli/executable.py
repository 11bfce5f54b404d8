"""How this program is called from a shell: `headway`, or its full path if that is not on PATH."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path


def program_file() -> Path:
    """The script beside the running Python."""
    return Path(sys.executable).parent / "headway"


def on_path() -> bool:
    """Whether `headway` in a shell is this program."""
    known = shutil.which("headway")
    file = program_file()
    return known is not None and (not file.exists() or Path(known).samefile(file))


def program() -> str:
    """What to type: `headway`, or the full path."""
    return "headway" if on_path() else shlex.quote(str(program_file()))


def path_line() -> str:
    """The line that puts `headway` on PATH; empty if it is."""
    return "" if on_path() else f'export PATH={shlex.quote(str(program_file().parent))}:"$PATH"'
