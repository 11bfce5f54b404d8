"""What a learner reads, as a file: settled rows with their part of the split, leaky fields left out."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.nouns.errors import Conflict
from headway.nouns.protocols import Progress
from headway.observe.experience import Recorded
from headway.observe.rows import dumps
from headway.project.learning import LEARNED_PARTS

if TYPE_CHECKING:
    from headway.nouns.records import Settled
    from headway.project.facade import Project

__all__ = ["transform"]


def transform(
    project: Project,
    task: str,
    out: Path,
    *,
    mined: bool = False,
    trust: Sequence[str] = (),
    overwrite: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write the train and tune parts of a task to `out`; the file appears whole or not at all."""
    from headway.project.leaking import check

    if out.exists() and not overwrite:
        raise Conflict(
            f"{str(out)!r} exists already.", code="file_exists", hint="Choose another name, or overwrite it (--force)."
        )
    project.settings.task(task)
    project.settle(task)
    upto = project.query.last_settled(task)
    leaky = check(project, task, parts=LEARNED_PARTS, mined=mined).fields
    left_out = [each for each in leaky if each not in trust and each.removesuffix(":numbers") not in trust]
    parts: Counter[str] = Counter()
    sources: Counter[str] = Counter()
    handle, name = tempfile.mkstemp(prefix=f".{out.name[:100]}-", dir=out.parent)
    scratch = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            for part in LEARNED_PARTS:
                for row in Recorded(project.query, task, upto=upto, left_out=left_out, mined=mined).part(part):
                    if row.reward is None:
                        continue
                    parts[part] += 1
                    sources[row.decision.source] += 1
                    file.write(f"{dumps(_row(row, part))}\n")
                    if progress is not None and parts.total() % 10_000 == 0:
                        progress("transform", parts.total(), None)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(out)
    finally:
        scratch.unlink(missing_ok=True)
    return {
        "task": task,
        "file": str(out),
        "rows": parts.total(),
        "parts": {part: parts[part] for part in LEARNED_PARTS},
        "sources": dict(sorted(sources.items())),
        "left_out": left_out,
        "upto": upto,
        "reward_version": project.rewards(task).version,
    }


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
        "candidates": [each.name for each in decision.candidates],
        "propensity": decision.propensity if decision.propensity_known else None,
        "reward": row.reward,
        "status": row.status,
        "source": decision.source,
    }
