"""Check Hugging Face folders, and copy them into the cache.

Only safetensors weights are accepted: the other formats are pickles, which can run code when they are loaded.
"""

from __future__ import annotations

import json
import os
from fnmatch import fnmatch
from pathlib import Path

from headway.files import open_regular, read_regular
from headway.kits.models import store
from headway.kits.models.store import InstalledModel, Say
from headway.nouns.errors import Conflict, InvalidInput, UnknownName
from headway.nouns.protocols import Progress

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
        raise UnknownName(f"There is no folder {str(folder)!r}.", code="no_folder", hint="Check the path.")
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
        raise Conflict(
            f"There is a model {name!r} already ({origin}).",
            code="model_exists",
            hint=f"Choose another --name, or replace it with --again, or remove it: headway models remove {name}",
        )
    return model


def _bad(folder: Path, why: str, hint: str) -> InvalidInput:
    return InvalidInput(f"{str(folder)!r} is not a usable model: {why}.", code="bad_model", hint=hint)
