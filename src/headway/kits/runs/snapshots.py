"""The snapshot of a run, from which a learner goes on after a kill: run.json, and the weights that it names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from headway.files import read_regular, write_whole
from headway.nouns import Damaged, UnknownName
from headway.observe import UNREADABLE, RunLog

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


@contextmanager
def opened_snapshot(folder: Path, run: str) -> Iterator[Any]:
    """What run.json tells, for a caller that goes on from it and its weights; one that cannot be used is refused."""
    from safetensors import SafetensorError

    path = folder / _SNAPSHOT
    if not path.exists():
        raise UnknownName(
            f"There is no unfinished run of {run}.", code="nothing_to_resume", hint="Omit --resume to start one."
        )
    try:
        yield json.loads(read_regular(path))
    except (OSError, RuntimeError, SafetensorError, *UNREADABLE) as error:
        raise Damaged(
            f"The snapshot in {str(folder)!r} cannot be used: {error}.",
            code="damaged_snapshot",
            hint="Delete that folder and start again without --resume.",
        ) from error


def drop_snapshot(folder: Path, *, but: str = "") -> None:
    """Forget earlier runs, so that nothing resumes one in place of a run that starts now; or all but these weights."""
    if not but:
        (folder / _SNAPSHOT).unlink(missing_ok=True)
    for path in folder.glob("*weights-*.safetensors*"):  # also those that a killed process was writing
        if path.name != but:
            path.unlink(missing_ok=True)
