"""Language models for a project: asked of its worker, or loaded into this process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from headway.client.worker import Worker
from headway.encode import models
from headway.nouns.protocols import Generator
from headway.settings import load

if TYPE_CHECKING:
    from headway.project.facade import Project

__all__ = ["generator", "local"]


def generator(project: Project, model: str | Path, *, here: bool = False) -> Generator:
    """The project's worker with this model; `here` loads it into this process instead."""
    if here:
        return _loaded(model, project.settings.cache)
    return Worker(project.folder, model)


def local(
    folder: Path, model: str | Path, *, device: str = "auto", environ: Mapping[str, str] | None = None
) -> Generator:
    """A model in this process, found as the project in `folder` finds it; the project need not exist."""
    return _loaded(model, load(folder, environ).cache, device)


def _loaded(model: str | Path, cache: Path, device: str = "auto") -> Generator:
    folder = models.folder(model, cache)  # whether it is there at all, before torch is imported
    from headway.decide.language import LanguageModel

    return LanguageModel.load(folder, name=Path(model).name, device=device)
