"""The folder of models: every file has a known hash, and installation is atomic.

    <cache>/models/smollm2/          the model's files and headway-model.json, its manifest
    <cache>/models/.locks/smollm2    held while the model is added or removed; released if the process dies
    <cache>/models/.work/            builds in progress, on the same disk: renamed into place when complete
    <cache>/models/.seen/smollm2     sizes and times of the files at the last hash: if equal, they are not hashed again

`check` finds a flipped byte, a missing file and a changed manifest. It hashes a model again if its files were written
to since the last hash. Corruption by the disk itself is found by `verify`, which always hashes.
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

from headway.files import open_regular, read_regular, write_whole
from headway.nouns import Finding, Progress, errors
from headway.settings import Settings

MANIFEST = "headway-model.json"
Say = Callable[[str], None]  # shows one sentence to the user
_FORMAT = 1
_CHUNK = 1 << 20
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledModel:
    """An installed model; `problem` is empty if it is intact."""

    name: str
    folder: Path
    kind: str  # "language" or "text"
    source: Mapping[str, str]
    recipe: int  # number of the conversion; a newer one rebuilds the model
    added: str
    bytes: int = 0
    files: Mapping[str, tuple[str, int]] = field(default_factory=dict)  # path → sha256, bytes
    problem: str = ""


def _models(cache: Path) -> Path:
    return cache / "models"


def named(name: str) -> str:
    """The name, if it is valid for a model."""
    if not _NAME.match(name):
        raise errors.InvalidInput(
            f"{name[:80]!r} is not a valid model name.",
            code="bad_model_name",
            hint="Use up to 64 of a-z, 0-9, '_', '.' and '-', starting with a letter or digit.",
        )
    return name


# -- reading


def look(name: str, cache: Path) -> InstalledModel | None:
    """The model as its manifest describes it, without reading the files; None if it does not exist."""
    folder = _models(cache) / named(name)
    try:
        raw = read_regular(folder / MANIFEST)
    except (FileNotFoundError, NotADirectoryError):
        if folder.is_dir():
            return _broken(name, folder, "its manifest is missing")
        return None
    except OSError:
        return _broken(name, folder, "its manifest cannot be read")
    try:
        body = json.loads(raw)
        digest = body.pop("digest")
        if digest != _digest(body):
            return _broken(name, folder, "its manifest was changed")
        files = {path: (row["sha256"], row["bytes"]) for path, row in body["files"].items()}
        return InstalledModel(
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


def findings(settings: Settings) -> Iterator[Finding]:
    """For `headway doctor`: whether each model is intact."""
    for model in installed(settings.cache):
        problem = check(model, settings.cache)
        yield Finding(
            name=f"model {model.name}",
            ok=not problem,
            found=problem or f"intact, {model.bytes / 1e6:,.0f} MB",
            cure=f"Rebuild it: headway models add {model.name}",
        )


def check(model: InstalledModel, cache: Path) -> str:
    """The problem of a model, or "". Hashes its files only if they changed since the last hash."""
    if model.problem:
        return model.problem
    stamp = _stamp(model)
    if stamp is None:
        return _first_missing(model)
    seen = _models(cache) / ".seen" / model.name
    try:
        if read_regular(seen).decode("utf-8") == stamp:
            return ""
    except (OSError, ValueError):
        pass
    problem = verify(model)
    if not problem:
        _remember(seen, stamp)
    return problem


def verify(model: InstalledModel, progress: Progress | None = None) -> str:
    """The problem of a model, or "". Hashes every file."""
    if model.problem:
        return model.problem
    done = 0
    for path, (sha256, size) in model.files.items():
        try:
            with os.fdopen(open_regular(model.folder / path, follow=True), "rb") as file:
                if os.fstat(file.fileno()).st_size != size:
                    return f"{path} is not {size:,} bytes long"
                digest = hashlib.sha256()
                while chunk := file.read(_CHUNK):
                    digest.update(chunk)
                    done += len(chunk)
                    if progress is not None:
                        progress(f"checking {model.name}", done, model.bytes)
        except FileNotFoundError:
            return f"{path} is missing"
        except OSError as error:
            return f"{path} cannot be read: {error.strerror}"
        if digest.hexdigest() != sha256:
            return f"{path} does not match its hash"
    return ""


def installed(cache: Path) -> list[InstalledModel]:
    """Every installed model, intact or not, sorted by name."""
    try:
        names = sorted(path.name for path in _models(cache).iterdir() if path.is_dir() and _NAME.match(path.name))
    except (FileNotFoundError, NotADirectoryError):
        return []
    models = (look(name, cache) for name in names)
    return [model for model in models if model is not None]


# -- writing


@contextmanager
def locked(name: str, cache: Path, say: Say | None = None) -> Iterator[None]:
    """Hold the lock of a model, so that only one process adds or removes it; waits if another holds it."""
    with _disk(cache):
        folder = _models(cache) / ".locks"
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / named(name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if say is not None:
                say(f"Another process is changing the model {name!r}; waiting for it.")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextmanager
def work(name: str, cache: Path) -> Iterator[Path]:
    """A temporary folder for a build; needs the lock. Also removes leftovers of killed processes."""
    with _disk(cache):
        parent = _models(cache) / ".work"
        parent.mkdir(parents=True, exist_ok=True)
        for leftover in parent.glob(f"{name}~*"):
            shutil.rmtree(leftover, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(prefix=f"{name}~", dir=parent))
    try:
        with _disk(cache):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def install(
    made: Path, name: str, cache: Path, *, kind: str, source: Mapping[str, str], recipe: int, progress: Progress
) -> InstalledModel:
    """Move a folder from `work` into place, with a manifest of its files; needs the lock."""
    files: dict[str, tuple[str, int]] = {}
    paths = sorted(path for path in made.rglob("*") if path.is_file())
    whole, done = sum(path.stat().st_size for path in paths), 0
    for path in paths:
        digest = hashlib.sha256()
        with os.fdopen(open_regular(path, follow=True), "rb") as file:
            os.fchmod(file.fileno(), 0o644)
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
                done += len(chunk)
                progress(f"checking {name}", done, whole)
            os.fsync(file.fileno())
        files[path.relative_to(made).as_posix()] = (digest.hexdigest(), path.stat().st_size)
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
        # A non-empty folder cannot be replaced by a rename, so the old one is moved into `work` first.
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


def remove(name: str, cache: Path, say: Say | None = None) -> InstalledModel:
    """Remove a model; returns its description."""
    model = look(name, cache)
    if model is None:
        names = [model.name for model in installed(cache)]
        raise errors.UnknownName(
            f"There is no model {name!r} in {cache}.", code="model_missing", hint=errors.did_you_mean(name, names)
        )
    with locked(name, cache, say), work(name, cache) as folder:
        try:
            model.folder.rename(folder / "old")
        except FileNotFoundError:
            raise errors.Conflict(f"Another process removed the model {name!r}.", code="model_missing") from None
        (_models(cache) / ".seen" / name).unlink(missing_ok=True)
    return model


def fits(cache: Path, needed: int, what: str) -> None:
    """Raise before anything is fetched if the disk does not have enough space."""
    with _disk(cache):
        cache.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(cache).free
    if free < needed:
        raise _full(
            cache, f"{what} needs {needed / 1e6:,.0f} MB during installation, and {free / 1e6:,.0f} MB are free"
        )


# -- private


@contextmanager
def _disk(cache: Path) -> Iterator[None]:
    """Turn disk errors into clear messages."""
    try:
        yield
    except OSError as error:
        if isinstance(error, errors.HeadwayError):
            raise
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _full(cache, "no more data can be written") from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
            raise errors.Unavailable(
                f"Models cannot be stored in {cache}: {error.strerror}.",
                code="cache_unwritable",
                hint="Make the folder writable, or use another one: export HEADWAY_CACHE=/path/to/folder",
            ) from error
        raise


def _full(cache: Path, why: str) -> errors.Unavailable:
    return errors.Unavailable(
        f"The disk of {cache} is too full: {why}. Nothing was left behind.",
        code="disk_full",
        hint="Free some space, or use a folder on another disk: export HEADWAY_CACHE=/path/to/folder",
    )


def _broken(name: str, folder: Path, problem: str) -> InstalledModel:
    return InstalledModel(name=name, folder=folder, kind="", source={}, recipe=0, added="", problem=problem)


def _first_missing(model: InstalledModel) -> str:
    for path in model.files:
        if not (model.folder / path).is_file():
            return f"{path} is missing"
    return "a file is missing"


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _stamp(model: InstalledModel) -> str | None:
    """A stamp of all files that any write, rename or copy changes; None if a file is missing."""
    rows = []
    for path in (MANIFEST, *model.files):
        try:
            info = (model.folder / path).stat()
        except OSError:
            return None
        rows.append([path, info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino])
    return json.dumps(rows)


def _remember(seen: Path, stamp: str) -> None:
    """Store the stamp if possible; in a read-only cache, files are hashed every time."""
    try:
        seen.parent.mkdir(exist_ok=True)
        write_whole(seen, stamp.encode())
    except OSError:
        pass


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def damaged(name: str, problem: str, why: str = "") -> errors.Damaged:
    """The error for a damaged model that could not be rebuilt."""
    return errors.Damaged(
        f"The model {name!r} is damaged: {problem}.{why}",
        code="model_damaged",
        hint=f"Add it again: headway models add {name}",
    )
