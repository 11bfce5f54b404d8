"""What the page shows of an evaluation, as plain records in a file: a server reads it without torch or numpy.

    keep_evaluation(home, evaluation)        # `headway grow evaluate` does
    kept_evaluations(home, "grow")           # of a task, newest first

A file per policy in `.headway/work/grow-evaluations`; the next evaluation of that policy replaces it, and the newest 50
are kept. The files may be deleted at any time.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import msgspec

from headway.files import read_regular, write_whole

_FOLDER = "grow-evaluations"
_LARGEST = 4 << 20  # bytes of a file that is read
_MOST = 50  # files that are kept


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowWay:
    """A way of growing on held-out hosts: means, the 95% interval of `net`, and the first way's lead over it."""

    way: str
    policies: int
    net: float
    low: float
    high: float
    test_accuracy: float
    rent: float
    parameters: float
    behind: float  # how much more the first way nets, paired by host; 0 for itself
    behind_low: float
    behind_high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotLane:
    """A slot over the epochs of an episode; a value per epoch each, `blueprints` are empty where there is no seed."""

    slot: str
    stages: list[str]
    blueprints: list[str]
    alphas: list[float]
    contributions: list[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowEpisode:
    """One host from start to end: its slots, its validation accuracy, and the operation of each epoch."""

    slots: list[SlotLane]
    accuracy: list[float]
    operations: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowEvaluation:
    """One `headway grow evaluate`: ways on the same hosts, the learned one first, and some of its episodes."""

    task: str
    policies: list[str]
    at: str
    hosts: int
    seed: int
    source: str
    ways: list[GrowWay]
    episodes: list[GrowEpisode]


def keep_evaluation(home: Path, evaluation: GrowEvaluation) -> Path:
    """Write an evaluation where the page finds it."""
    folder = home / "work" / _FOLDER
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    name = sha256("\0".join((evaluation.task, evaluation.policies[0])).encode()).hexdigest()[:16]
    path = folder / f"{name}.json"
    write_whole(path, msgspec.json.encode(evaluation))
    for old in _newest_first(folder)[_MOST:]:
        old.unlink(missing_ok=True)
    return path


def kept_evaluations(home: Path, task: str) -> list[GrowEvaluation]:
    """The evaluations of a task's policies, newest first; a file that cannot be read is left out."""
    found = []
    for path in _newest_first(home / "work" / _FOLDER):
        with suppress(OSError, msgspec.ValidationError, msgspec.DecodeError):
            if path.stat().st_size <= _LARGEST:
                found.append(msgspec.json.decode(read_regular(path), type=GrowEvaluation))
    return sorted((each for each in found if each.task == task), key=lambda each: each.at, reverse=True)


def _newest_first(folder: Path) -> list[Path]:
    times = {}
    for path in folder.glob("*.json"):
        with suppress(OSError):  # deleted meanwhile
            times[path] = path.stat().st_mtime_ns
    return sorted(times, key=lambda path: -times[path])
