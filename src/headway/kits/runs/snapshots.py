"""The snapshot of a run, from which a learner goes on after a kill: run.json, and the weights that it names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from headway.files import read_regular, write_whole
from headway.observe import RunLog

_SNAPSHOT = "run.json"


def name_policy(home: Path, run: str, policy: str) -> None:
    """Note which policy a finished run became."""
    path = home / "work" / run / RunLog.ABOUT
    with suppress(OSError, ValueError):  # runs may be deleted at any time
        about = json.loads(read_regular(path))
        path.write_text(json.dumps({**about, "policy": policy}), "utf-8")


def write_snapshot(folder: Path, name: str, weights: bytes, about: Mapping[str, Any]) -> None:
    """Write run.json and the weights that it names, and delete older ones: a reader finds both or none."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_whole(folder / name, weights)
    write_whole(folder / _SNAPSHOT, json.dumps({**about, "weights": name}).encode())
    drop_snapshot(folder, but=name)


def drop_snapshot(folder: Path, *, but: str = "") -> None:
    """Forget earlier runs, so that nothing resumes one in place of a run that starts now; or all but these weights."""
    if not but:
        (folder / _SNAPSHOT).unlink(missing_ok=True)
    for path in folder.glob("*weights-*.safetensors*"):  # also those that a killed process was writing
        if path.name != but:
            path.unlink(missing_ok=True)
