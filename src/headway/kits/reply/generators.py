"""Language models of a project: in its worker, in this process, or behind one of its upstreams."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from headway.kits import models
from headway.kits.models import Completion, Delta, Generator, Prompt, Scored
from headway.kits.reply.client import LanguageWorker
from headway.nouns import errors
from headway.settings import load

if TYPE_CHECKING:
    from headway.project import Project


def local(
    folder: Path, model: str | Path, *, device: str = "auto", environ: Mapping[str, str] | None = None
) -> Generator:
    """A model in this process, found like the project in `folder` finds it; the project need not exist."""
    return _loaded(model, load(folder, environ).cache, device)


@contextmanager
def open_generator(project: Project, model: str, *, patient: bool = True) -> Iterator[tuple[Generator, str]]:
    """The generator for a model's name, and a short hash of everything that its answers depend on.

    The name is an upstream of headway.toml, else a local model in the project's worker, or in this process
    if no worker is running. Not `patient`: somebody waits, so an upstream that cannot be reached is an error at once.
    """
    settings = project.settings
    if model in settings.upstreams or "://" in model:
        from headway.kits.models import ChatEndpoint

        if model not in settings.upstreams:
            raise errors.UnknownName(
                f"{model!r} is an address, expected the name of a model.",
                code="unknown_upstream",
                hint="Declare [upstreams.NAME] with url and model in headway.toml, and use that name.",
            )
        upstream = settings.upstreams[model]
        with ChatEndpoint.of(settings, model, patient=patient) as endpoint:
            yield endpoint, _hash(f"{upstream.url}\0{upstream.model}\0{upstream.max_tokens}")
        return
    try:
        folder = models.folder(model, settings.cache)
    except errors.Unavailable as error:
        if error.code == "model_missing" and "/" not in model:
            error.hint = f"{error.hint} Or declare [upstreams.{model}] with url and model in headway.toml."
        raise
    yield worker_of(project.folder, model) or _LazyModel(model, settings.cache), _files(folder)


def worker_of(folder: Path, model: str | Path) -> LanguageWorker | None:
    """The worker of the project in a folder; None if none is running."""
    worker = LanguageWorker(folder, model)
    try:
        worker.health()
    except errors.Unavailable as error:
        if error.code not in ("worker_missing", "path_too_long"):
            raise
        return None
    return worker


class _LazyModel:
    """A model in this process that is loaded at the first question; if every answer is cached, it never is."""

    def __init__(self, model: str, cache: Path) -> None:
        self._model, self._cache = model, cache

    @property
    def model(self) -> str:
        return Path(self._model).name

    @cached_property
    def _generator(self) -> Generator:
        return _loaded(self._model, self._cache)

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        return self._generator.generate(prompts)

    def stream(self, prompt: Prompt) -> Iterator[Delta]:
        return self._generator.stream(prompt)

    def score(self, prompt: Prompt, reply: str | Sequence[int], *, ended: bool = False) -> Scored:
        return self._generator.score(prompt, reply, ended=ended)


def _files(folder: Path) -> str:
    """A hash of the model's files: a changed file makes a different model."""
    rows = ((path.relative_to(folder), path.stat()) for path in sorted(folder.rglob("*")) if path.is_file())
    return _hash("\n".join(f"{name} {info.st_size} {info.st_mtime_ns}" for name, info in rows))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _loaded(model: str | Path, cache: Path, device: str = "auto") -> Generator:
    folder = models.folder(model, cache)  # raises before torch is imported if there is no such model
    from headway.kits.reply import device as _device  # noqa: F401 — first: it names the extra that is missing
    from headway.kits.reply.model import LanguageModel

    return LanguageModel.load(folder, name=Path(model).name, device=device)
