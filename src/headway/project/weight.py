"""Write the weight of a signal into headway.toml, as `headway tradeoff` recommends it."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headway.nouns import errors
from headway.settings import parse, settings_text, with_weight

if TYPE_CHECKING:
    from headway.project.project.folder import Opened


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenWeight:
    """What was written where. It counts once the programs that decide are started again."""

    file: str
    line: int
    signal: str
    before: float | None
    after: float
    next: str


def write_weight(project: Opened, task: str, signal: str, weight: float) -> WrittenWeight:
    """Change the weight of a signal in the task's reward; the rest of the file stays as it is."""
    settings = project.settings.task(task)
    if isinstance(settings.reward, str):
        raise errors.InvalidInput(
            f"The reward of {task!r} is the function {settings.reward!r}, which has no weights in headway.toml.",
            code="reward_mismatch",
            hint="Change the function.",
        )
    with project.lock():
        text, file = settings_text(project.folder)
        if file is None:
            raise errors.InvalidSettings(
                f"There is no headway.toml in {project.folder}.",
                code="settings_not_editable",
                hint="Create one: headway init",
            )
        changed, line = with_weight(text, task, signal, weight)
        parse(changed, directory=project.folder, environ={}, file=file, catalogue=project.catalogue)  # or an error
        real = file.resolve()
        handle, name = tempfile.mkstemp(prefix=f".{real.name}-", dir=real.parent)  # 0600, and nobody's link
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as scratch:
                scratch.write(changed)
                os.fchmod(scratch.fileno(), real.stat().st_mode & 0o777)
            Path(name).replace(real)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    before = project.rewards(task).weights.get(signal)
    return WrittenWeight(
        file=str(file), line=line, signal=signal, before=before, after=weight, next=f"headway rewards rescore {task}"
    )
