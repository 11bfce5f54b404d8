"""Language models for a project: asked of its worker, loaded into this process, or behind one of its upstreams."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from headway.kits import models
from headway.kits.reply.client import Worker
from headway.nouns.errors import Unavailable, UnknownName
from headway.nouns.protocols import Completion, Delta, Generator, Prompt, Scored
from headway.settings import load

if TYPE_CHECKING:
    from headway.project import Project

__all__ = ["answering", "generator", "local"]


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


@contextmanager
def answering(project: Project, model: str) -> Iterator[tuple[Generator, str]]:
    """The model that a name means, and what its answers depend on, as a short hash.

    An upstream of headway.toml; else a local model, in the project's worker where one runs, or in this process.
    """
    settings = project.settings
    if model in settings.upstreams or "://" in model:
        from headway.client.endpoint import ChatEndpoint

        if model not in settings.upstreams:
            raise UnknownName(
                f"{model!r} is an address; a model is called by its name.",
                code="unknown_upstream",
                hint="Declare [upstreams.NAME] with url and model in headway.toml, and give that name.",
            )
        upstream = settings.upstreams[model]
        with ChatEndpoint(
            model,
            upstream.url,
            upstream.model,
            key=settings.key(upstream.key_env) if upstream.key_env else "",
            timeout_s=upstream.timeout_s,
            max_tokens=upstream.max_tokens,
        ) as found:
            yield found, _hash(f"{upstream.url}\0{upstream.model}\0{upstream.max_tokens}")
        return
    try:
        folder = models.folder(model, settings.cache)
    except Unavailable as error:
        if error.code == "model_missing" and "/" not in model:
            error.hint = f"{error.hint} Or declare [upstreams.{model}] with url and model in headway.toml."
        raise
    here = False
    worker = Worker(project.folder, model)
    try:
        worker.health()
    except Unavailable as error:
        if error.code not in ("worker_missing", "path_too_long"):
            raise
        here = True
    yield _Later(model, settings.cache) if here else worker, _files(folder)


class _Later:
    """A model of this process that is loaded at the first question: with every answer remembered, there is none."""

    def __init__(self, model: str, cache: Path) -> None:
        self._model, self._cache = model, cache

    @property
    def model(self) -> str:
        return Path(self._model).name

    @cached_property
    def _found(self) -> Generator:
        return _loaded(self._model, self._cache)

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        return self._found.generate(prompts)

    def stream(self, prompt: Prompt) -> Iterator[Delta]:
        return self._found.stream(prompt)

    def score(self, prompt: Prompt, reply: str | Sequence[int], *, ended: bool = False) -> Scored:
        return self._found.score(prompt, reply, ended=ended)


def _files(folder: Path) -> str:
    """A model by its files: a changed one is another model."""
    rows = ((path.relative_to(folder), path.stat()) for path in sorted(folder.rglob("*")) if path.is_file())
    return _hash("\n".join(f"{name} {told.st_size} {told.st_mtime_ns}" for name, told in rows))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _loaded(model: str | Path, cache: Path, device: str = "auto") -> Generator:
    folder = models.folder(model, cache)  # whether it is there at all, before torch is imported
    from headway.kits.reply.language import LanguageModel

    return LanguageModel.load(folder, name=Path(model).name, device=device)
