"""The folder of models: every file known by its hash, nothing ever half there.

    <cache>/models/smollm2/          the model's files and headway-model.json, its manifest
    <cache>/models/.locks/smollm2    held while the model is added or removed; the kernel lets go of a dead holder's
    <cache>/models/.work/            what is being made, on the same disk: renamed into its place when it is whole
    <cache>/models/.seen/smollm2     size and times of the files when they were last hashed: equal → not hashed again

`check` finds a flipped byte, a missing file and a changed manifest. A model that was written to since it was hashed is
hashed again; one that only the disk itself has changed is found by `verify`, which always hashes.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headway.nouns.errors import Conflict, Damaged, HeadwayError, InvalidInput, Unavailable, UnknownName, did_you_mean
from headway.nouns.protocols import Progress

__all__ = [
    "MANIFEST",
    "Model",
    "Say",
    "check",
    "fits",
    "install",
    "installed",
    "locked",
    "look",
    "remove",
    "verify",
    "work",
]

MANIFEST = "headway-model.json"
Say = Callable[[str], None]  # one sentence for the user
_FORMAT = 1
_CHUNK = 1 << 20
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What is known of an installed model; `problem` says what is wrong with it, empty: nothing."""

    name: str
    folder: Path
    kind: str  # "language" or "text"
    source: Mapping[str, str]
    recipe: int  # of our own conversion; a newer one makes the model again
    added: str
    bytes: int = 0
    files: Mapping[str, tuple[str, int]] = field(default_factory=dict)  # path → sha256, bytes
    problem: str = ""


def _models(cache: Path) -> Path:
    return cache / "models"


def named(name: str) -> str:
    """The name itself, if a model may have it."""
    if not _NAME.match(name):
        raise InvalidInput(
            f"{name[:80]!r} is not a name for a model.",
            code="bad_model_name",
            hint="Use up to 64 of a-z, 0-9, '_', '.' and '-', starting with a letter or digit.",
        )
    return name


# -- reading


def look(name: str, cache: Path) -> Model | None:
    """What the manifest says, without reading the files; None: there is no such model."""
    folder = _models(cache) / named(name)
    try:
        raw = (folder / MANIFEST).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        if folder.is_dir():
            return _broken(name, folder, "its manifest is missing")
        return None
    try:
        body = json.loads(raw)
        digest = body.pop("digest")
        if digest != _digest(body):
            return _broken(name, folder, "its manifest was changed")
        files = {path: (row["sha256"], row["bytes"]) for path, row in body["files"].items()}
        return Model(
            name=name,
            folder=folder,
            kind=body["kind"],
            source=body["source"],
            recipe=body["recipe"],
            added=body["added"],
            bytes=sum(size for _, size in files.values()),
            files=files,
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return _broken(name, folder, "its manifest cannot be read")


def check(model: Model, cache: Path) -> str:
    """What is wrong with a model, empty: nothing. Hashes only files that may have changed since they were hashed."""
    if model.problem:
        return model.problem
    stamp = _stamp(model)
    if stamp is None:
        return _first_missing(model)
    seen = _models(cache) / ".seen" / model.name
    try:
        if seen.read_text("utf-8") == stamp:
            return ""
    except (OSError, ValueError):
        pass
    problem = verify(model)
    if not problem:
        _remember(seen, stamp)
    return problem


def verify(model: Model, progress: Progress | None = None) -> str:
    """What is wrong with a model, every byte of it read; empty: nothing."""
    if model.problem:
        return model.problem
    done = 0
    for path, (sha256, size) in model.files.items():
        try:
            with (model.folder / path).open("rb") as file:
                if os.fstat(file.fileno()).st_size != size:
                    return f"{path} is not {size:,} bytes long"
                found = hashlib.sha256()
                while chunk := file.read(_CHUNK):
                    found.update(chunk)
                    done += len(chunk)
                    if progress is not None:
                        progress(f"checking {model.name}", done, model.bytes)
        except FileNotFoundError:
            return f"{path} is missing"
        except OSError as error:
            return f"{path} cannot be read: {error.strerror}"
        if found.hexdigest() != sha256:
            return f"{path} is not what its hash says"
    return ""


def installed(cache: Path) -> list[Model]:
    """Every model that is there, whole or not, by name."""
    try:
        names = sorted(each.name for each in _models(cache).iterdir() if each.is_dir() and _NAME.match(each.name))
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = (look(name, cache) for name in names)
    return [each for each in found if each is not None]


# -- changing


@contextmanager
def locked(name: str, cache: Path, say: Say | None = None) -> Iterator[None]:
    """Only one process adds or removes a model at a time; the others wait, and say so."""
    with _disk(cache):
        folder = _models(cache) / ".locks"
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / named(name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if say is not None:
                say(f"Another process is at work on the model {name!r}; waiting for it.")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextmanager
def work(name: str, cache: Path) -> Iterator[Path]:
    """An empty folder to make a model in, gone afterwards; the lock is held. Removes what a killed process left."""
    with _disk(cache):
        above = _models(cache) / ".work"
        above.mkdir(parents=True, exist_ok=True)
        for left in above.glob(f"{name}~*"):
            shutil.rmtree(left, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(prefix=f"{name}~", dir=above))
    try:
        with _disk(cache):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def install(
    made: Path, name: str, cache: Path, *, kind: str, source: Mapping[str, str], recipe: int, progress: Progress
) -> Model:
    """Moves a folder that was made in `work` into its place, with a manifest of every file. The lock is held."""
    files: dict[str, tuple[str, int]] = {}
    paths = sorted(each for each in made.rglob("*") if each.is_file())
    whole, done = sum(each.stat().st_size for each in paths), 0
    for path in paths:
        found = hashlib.sha256()
        with path.open("rb") as file:
            os.fchmod(file.fileno(), 0o644)
            while chunk := file.read(_CHUNK):
                found.update(chunk)
                done += len(chunk)
                progress(f"checking {name}", done, whole)
            os.fsync(file.fileno())
        files[path.relative_to(made).as_posix()] = (found.hexdigest(), path.stat().st_size)
    body: dict[str, Any] = {
        "format": _FORMAT,
        "name": name,
        "kind": kind,
        "source": dict(source),
        "recipe": recipe,
        "added": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "files": {path: {"sha256": sha256, "bytes": size} for path, (sha256, size) in files.items()},
    }
    body["digest"] = _digest(body)
    with (made / MANIFEST).open("w", encoding="utf-8") as out:
        out.write(json.dumps(body, indent=2) + "\n")
        out.flush()
        os.fsync(out.fileno())
    made.chmod(0o755)
    place = _models(cache) / name
    if place.exists():
        # A folder that is not empty cannot be renamed over: the old one steps aside first, within `work`.
        place.rename(made.parent / f"{made.name}.old")
    try:
        made.rename(place)
    finally:
        shutil.rmtree(made.parent / f"{made.name}.old", ignore_errors=True)
    _sync(place.parent)
    model = look(name, cache)
    assert model is not None
    stamp = _stamp(model)
    if stamp is not None:
        _remember(_models(cache) / ".seen" / name, stamp)
    return model


def remove(name: str, cache: Path, say: Say | None = None) -> Model:
    """Takes a model away; gives what it was."""
    model = look(name, cache)
    if model is None:
        there = [each.name for each in installed(cache)]
        raise UnknownName(
            f"There is no model {name!r} in {cache}.", code="model_missing", hint=did_you_mean(name, there)
        )
    with locked(name, cache, say), work(name, cache) as folder:
        try:
            model.folder.rename(folder / "old")
        except FileNotFoundError:
            raise Conflict(f"The model {name!r} was removed meanwhile.", code="model_missing") from None
        (_models(cache) / ".seen" / name).unlink(missing_ok=True)
    return model


def fits(cache: Path, wanted: int, what: str) -> None:
    """An error before anything is fetched, where the disk cannot hold it."""
    with _disk(cache):
        cache.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(cache).free
    if free < wanted:
        raise _full(cache, f"{what} needs {wanted / 1e6:,.0f} MB while it is added, and {free / 1e6:,.0f} MB are free")


# -- inside


@contextmanager
def _disk(cache: Path) -> Iterator[None]:
    """What goes wrong with the disk, in our words."""
    try:
        yield
    except OSError as error:
        if isinstance(error, HeadwayError):
            raise
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _full(cache, "nothing more can be written") from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
            raise Unavailable(
                f"Models cannot be kept in {cache}: {error.strerror}.",
                code="cache_unwritable",
                hint="Make the folder writable, or name another: export HEADWAY_CACHE=/path/to/folder",
            ) from error
        raise


def _full(cache: Path, why: str) -> Unavailable:
    return Unavailable(
        f"The disk of {cache} is too full: {why}. Nothing was left behind.",
        code="disk_full",
        hint="Free some space, or name a folder on another disk: export HEADWAY_CACHE=/path/to/folder",
    )


def _broken(name: str, folder: Path, problem: str) -> Model:
    return Model(name=name, folder=folder, kind="", source={}, recipe=0, added="", problem=problem)


def _first_missing(model: Model) -> str:
    for path in model.files:
        if not (model.folder / path).is_file():
            return f"{path} is missing"
    return "a file is missing"


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _stamp(model: Model) -> str | None:
    """Everything that changes when a file is written to: any write, rename or copy gives another stamp."""
    rows = []
    for path in (MANIFEST, *model.files):
        try:
            info = (model.folder / path).stat()
        except OSError:
            return None
        rows.append([path, info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino])
    return json.dumps(rows)


def _remember(seen: Path, stamp: str) -> None:
    """Writes the stamp where it may; a read-only cache is hashed every time instead."""
    try:
        seen.parent.mkdir(exist_ok=True)
        fresh = seen.with_name(f"{seen.name}~{os.getpid()}")
        fresh.write_text(stamp, "utf-8")
        fresh.replace(seen)
    except OSError:
        pass


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def damaged(name: str, problem: str, why: str = "") -> Damaged:
    """A model that is not what it was, and could not be made again."""
    return Damaged(
        f"The model {name!r} is damaged: {problem}.{why}",
        code="model_damaged",
        hint=f"Add it again: headway models add {name}",
    )
