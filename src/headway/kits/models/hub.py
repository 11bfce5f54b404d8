"""Models by hub name, where a hub is reachable; `huggingface_hub` brings its own address, token and proxy."""

from __future__ import annotations

import shutil
from pathlib import Path

from headway.kits.models import store
from headway.kits.models.folders import is_wanted, kind_of, present, usable
from headway.kits.models.store import Model, Say
from headway.nouns.errors import InvalidInput, MissingExtra, Unavailable, UnknownName
from headway.nouns.protocols import Progress

__all__ = ["add_from_hub"]


def add_from_hub(
    repository: str, name: str, cache: Path, *, revision: str, again: bool, progress: Progress, say: Say | None = None
) -> Model:
    """Fetches the safe files of a repository and keeps them under a name."""
    try:
        import huggingface_hub
        from huggingface_hub import errors
        from huggingface_hub.utils.tqdm import disable_progress_bars
    except ImportError:
        raise MissingExtra("Fetching a model from a hub", "huggingface_hub", "language") from None
    name = store.named(name or repository.rpartition("/")[2].lower())
    what = f"fetching {repository}"
    with store.locked(name, cache, say):
        source = {"hub": repository}
        model = present(name, cache, source, again)
        if model is not None and not revision and not store.check(model, cache):
            return model
        with store.work(name, cache) as folder:
            made = folder / "made"
            progress(what, 0, None)
            disable_progress_bars()  # there is one already
            try:
                info = huggingface_hub.HfApi().model_info(repository, revision=revision or None, files_metadata=True)
                wanted = [each.rfilename for each in info.siblings or [] if is_wanted(each.rfilename)]
                sizes = {each.rfilename: each.size or 0 for each in info.siblings or []}
                store.fits(cache, sum(sizes[each] for each in wanted), repository)
                done, whole = 0, sum(sizes[each] for each in wanted)
                for each in wanted:
                    progress(what, done, whole or None)
                    huggingface_hub.hf_hub_download(repository, each, revision=info.sha, local_dir=made)
                    done += sizes[each]
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
                    raise  # the disk, which `work` puts into words
                raise _unreachable(repository, error) from error
            except Exception as error:  # each version of huggingface_hub has an HTTP library of its own
                if not type(error).__module__.startswith(("httpx", "httpcore", "requests", "urllib3")):
                    raise
                raise _unreachable(repository, error) from error
            shutil.rmtree(made / ".cache", ignore_errors=True)  # huggingface_hub's notes about the download
            usable(made)
            source["revision"] = info.sha or ""
            return store.install(made, name, cache, kind=kind_of(made), source=source, recipe=0, progress=progress)


def _unreachable(repository: str, error: Exception) -> Unavailable:
    said = " ".join(str(error).split())[:300].rstrip(".")
    return Unavailable(
        f"No hub answers for {repository!r}: {type(error).__name__}: {said}.",
        code="hub_unreachable",
        hint="Check the network (HF_ENDPOINT names another hub), or add a folder: headway models add ./folder",
    )
