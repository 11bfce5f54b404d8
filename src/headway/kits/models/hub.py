"""Fetch models by hub name; `huggingface_hub` provides address, token and proxy settings."""

from __future__ import annotations

import shutil
from pathlib import Path

from headway.kits.models import store
from headway.kits.models.folders import is_wanted, kind_of, present, usable
from headway.kits.models.store import InstalledModel, Say
from headway.nouns.errors import InvalidInput, MissingExtra, Unavailable, UnknownName
from headway.nouns.protocols import Progress


def add_from_hub(
    repository: str, name: str, cache: Path, *, revision: str, again: bool, progress: Progress, say: Say | None = None
) -> InstalledModel:
    """Fetch the safe files of a repository and install them under a name."""
    try:
        import huggingface_hub  # noqa: F401
    except ImportError:
        raise MissingExtra("Fetching a model from a hub", "huggingface_hub", "language") from None
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
    from huggingface_hub import errors
    from huggingface_hub.utils.tqdm import disable_progress_bars

    what = f"fetching {repository}"
    progress(what, 0, None)
    disable_progress_bars()  # Headway shows its own
    try:
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
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError) as error:
        raise UnknownName(
            f"The hub has no model {repository!r}" + (f" at {revision!r}." if revision else "."),
            code="model_unknown",
            hint="Check the name; a private one needs `hf auth login`.",
        ) from error
    except errors.HFValidationError as error:
        raise InvalidInput(
            f"{repository!r} is not a hub name: {error}",
            code="bad_model_name",
            hint="Write organisation/model.",
        ) from error
    except (errors.HfHubHTTPError, errors.LocalEntryNotFoundError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None and not isinstance(error, ConnectionError):
            raise  # a disk error, which `work` reports
        raise _unreachable(repository, error) from error
    except Exception as error:  # the HTTP library depends on the version of huggingface_hub
        if not type(error).__module__.startswith(("httpx", "httpcore", "requests", "urllib3")):
            raise
        raise _unreachable(repository, error) from error
    shutil.rmtree(made / ".cache", ignore_errors=True)  # huggingface_hub's notes about the download
    return info.sha or ""


def _unreachable(repository: str, error: Exception) -> Unavailable:
    reason = " ".join(str(error).split())[:300].rstrip(".")
    return Unavailable(
        f"The hub did not answer for {repository!r}: {type(error).__name__}: {reason}.",
        code="hub_unreachable",
        hint="Check the network (HF_ENDPOINT names another hub), or add a folder: headway models add ./folder",
    )
