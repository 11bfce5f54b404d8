"""The learner's input as a file: settled rows with their part of the split, without leaky fields."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.kits.data.export_files import replacing
from headway.nouns import Progress, Settled
from headway.observe import Recorded, dumps
from headway.project import Project

_PARTS = ("train", "tune")  # that learners read


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformReport:
    """The written rows by part and by source, and the omitted fields."""

    task: str
    file: str
    rows: int
    parts: Mapping[str, int]
    sources: Mapping[str, int]
    left_out: tuple[str, ...]
    upto: int
    reward_version: str


def transform(
    project: Project,
    task: str,
    out: Path,
    *,
    mined: bool = False,
    trust: Sequence[str] = (),
    overwrite: bool = False,
    progress: Progress | None = None,
) -> TransformReport:
    """Write the input of `learn` (the train and tune parts) to `out`: one JSON object per row, without leaky fields.

    The file appears completely or not at all.
    """
    project.settings.task(task)
    parts: Counter[str] = Counter()
    sources: Counter[str] = Counter()
    with replacing(out, overwrite=overwrite) as scratch, scratch.open("w", encoding="utf-8") as file:
        source = project.readable(task, trust=trust, mined=mined)
        for part, row in _rewarded(source.experience):
            parts[part] += 1
            sources[row.decision.source] += 1
            file.write(f"{dumps(_row(row, part))}\n")
            if progress is not None and parts.total() % 10_000 == 0:
                progress("transform", parts.total(), None)
    return TransformReport(
        task=task,
        file=str(out),
        rows=parts.total(),
        parts={part: parts[part] for part in _PARTS},
        sources=dict(sorted(sources.items())),
        left_out=source.left_out,
        upto=source.upto,
        reward_version=project.rewards(task).version,
    )


def _rewarded(experience: Recorded) -> Iterator[tuple[str, Settled]]:
    for part in _PARTS:
        for row in experience.part(part):
            if row.reward is not None:
                yield part, row


def _row(row: Settled, part: str) -> dict[str, Any]:
    decision = row.decision
    chosen = decision.candidates[decision.index]
    return {
        "id": decision.id,
        "part": part,
        "text": decision.situation.text,
        "state": dict(decision.situation.state),
        "role": decision.situation.role,
        "action": {"name": chosen.name, **chosen.features},
        "candidates": [candidate.name for candidate in decision.candidates],
        "propensity": decision.propensity or None,
        "reward": row.reward,
        "status": row.status,
        "source": decision.source,
    }
