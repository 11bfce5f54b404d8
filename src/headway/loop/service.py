"""The loop as a systemd user service.

Not covered: other init systems (their unit runs the same command), and a user who is not logged in
(`loginctl enable-linger` keeps their services running).
"""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path


def unit_name(folder: Path) -> str:
    """The name of the unit; every folder has its own."""
    folder = folder.resolve()
    words = re.sub(r"[^a-z0-9]+", "-", folder.name.lower()).strip("-")[:40] or "project"
    return f"headway-{words}-{hashlib.sha256(str(folder).encode()).hexdigest()[:6]}.service"


def unit(folder: Path, *, python: str = sys.executable) -> str:
    """The unit file for the project in a folder."""
    where = str(folder.resolve())
    return f"""\
[Unit]
Description=Headway's loop for {_specified(where)}
Documentation=https://www.freedesktop.org/software/systemd/man/systemd.service.html

[Service]
Type=exec
WorkingDirectory={_specified(where)}
ExecStart={_quoted(python)} -P -m headway -C {_quoted(where)} watch
Restart=on-failure
RestartSec=5
TimeoutStopSec=10
Nice=5
UMask=0077
NoNewPrivileges=true
PrivateTmp=true

[Install]
WantedBy=default.target
"""


def install(folder: Path, *, into: Path | None = None) -> Path:
    """Write the unit to systemd's user folder; returns the file."""
    target = (into or Path.home() / ".config" / "systemd" / "user") / unit_name(folder)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(unit(folder), "utf-8")
    return target


def _specified(text: str) -> str:
    """systemd reads %-specifiers in every value."""
    return text.replace("%", "%%").replace("\n", " ")


def _quoted(text: str) -> str:
    """One word of ExecStart."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{_specified(escaped)}"'
