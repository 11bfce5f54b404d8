"""One file that holds a project: the store, the policies and headway.toml, each with its SHA-256.

    write_backup(database, folder, Path("monday.backup"))     # while servers decide: SQLite's own online copy
    read_backup(Path("monday.backup"), Path("restored"))      # into a folder without a project

A gzipped tar; its last member is `manifest.json`. Both sides work beside their target and put it in place with one
rename, so that a killed run leaves nothing half done. An existing file or project is never overwritten.
Not covered: the project token and what only this machine needs (locks, logs, addresses); PostgreSQL, which has pg_dump.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import sqlite3
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import IO, Any

import msgspec

from headway.files import open_regular, read_regular
from headway.nouns import errors
from headway.observe import Database

HOME, STORE, SETTINGS, MANIFEST = ".headway", ".headway/headway.db", "headway.toml", "manifest.json"
_FORM = 1
_LEFT_OUT = ("token", "run", "work")
_SCRATCH = ".headway.restore-"
_CHUNK = 1 << 20
_LARGEST_READ = 64 << 20  # of a manifest, or of a header of tar
_MOST_HEADERS = 1 << 20  # bytes between two members
_MOST_FILES, _LONGEST_NAME = 200_000, 300
_MOST_RATIO, _SMALL = 100, 64 << 20  # an archive may unpack to this many times its size, and this much more


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupContent:
    """What a backup holds."""

    files: int
    bytes: int
    decisions: int
    policies: int


def write_backup(database: Database, folder: Path, target: Path) -> BackupContent:
    """Copy the project in a folder into one file."""
    if database.engine != "sqlite":
        raise errors.InvalidInput(
            "The store is PostgreSQL, which has its own tools for backups.",
            code="backup_postgres",
            hint=f"Use pg_dump for the database and copy {folder / HOME / 'policies'}, or copy the rows into an SQLite "
            "file: headway data copy store FILE",
        )
    if target.exists():
        raise _exists(target)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.parent)
    scratch = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            content = _pack(file, Path(database.name), folder)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(scratch, target)  # unlike a rename, it never replaces
        except FileExistsError:
            raise _exists(target) from None
        return content
    finally:
        scratch.unlink(missing_ok=True)


def _exists(target: Path) -> errors.Conflict:
    return errors.Conflict(
        f"{str(target)!r} exists already, and a backup overwrites nothing.",
        code="file_exists",
        hint="Name another file, or move this one away.",
    )


def _pack(file: IO[bytes], store: Path, folder: Path) -> BackupContent:
    hashes: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="headway-backup-", dir=store.parent) as scratch:
        copied = Path(scratch) / "headway.db"
        decisions = _copy_store(store, copied)
        with tarfile.open(fileobj=file, mode="w:gz", compresslevel=3) as archive:
            for name, path in [(STORE, copied), *_files(folder)]:
                hashes[name] = _add(archive, name, path)
            manifest = json.dumps({"form": _FORM, "files": hashes}, indent=1).encode()
            entry = tarfile.TarInfo(MANIFEST)
            entry.size = len(manifest)
            archive.addfile(entry, BytesIO(manifest))
    policies = {PurePosixPath(name).parts[2] for name in hashes if name.startswith(f"{HOME}/policies/")}
    return BackupContent(
        files=len(hashes),
        bytes=sum(one["bytes"] for one in hashes.values()),
        decisions=decisions,
        policies=len(policies),
    )


def _copy_store(store: Path, target: Path) -> int:
    """A consistent copy while others write, checked; returns its number of decisions."""
    source = sqlite3.connect(f"file:{store.resolve().as_posix()}?mode=ro", uri=True, timeout=30)
    copy = sqlite3.connect(target)
    try:
        source.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE")  # one file, without a log beside it
        problems = [row[0] for row in copy.execute("PRAGMA quick_check(5)") if row[0] != "ok"]
        if problems:
            raise errors.Damaged(
                f"The store {str(store)!r} is damaged: {'; '.join(problems)}.",
                code="store_damaged",
                hint="No backup was written. `headway doctor` says more.",
            )
        return int(copy.execute("SELECT COUNT(*) FROM decisions").fetchone()[0])
    except sqlite3.DatabaseError as error:
        raise errors.Damaged(
            f"The store {str(store)!r} cannot be read: {error}.",
            code="store_damaged",
            hint="No backup was written. `headway doctor` says more.",
        ) from error
    finally:
        copy.close()
        source.close()


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """The other files of the project; links are left out."""
    if (folder / SETTINGS).is_file():
        yield SETTINGS, folder / SETTINGS
    home = folder / HOME
    for path in sorted(home.rglob("*")):
        inside = path.relative_to(home)
        top = inside.parts[0]
        if top in _LEFT_OUT or top.startswith(("headway-backup-", "headway.db")) or path.suffix == ".lock":
            continue
        if path.is_file() and not path.is_symlink():
            yield f"{HOME}/{inside.as_posix()}", path


def _add(archive: tarfile.TarFile, name: str, path: Path) -> dict[str, Any]:
    """Add one file as it is now; one that grows meanwhile is cut at the size that it had."""
    with os.fdopen(open_regular(path, follow=True), "rb") as file:
        entry = tarfile.TarInfo(name)
        entry.size = os.fstat(file.fileno()).st_size
        entry.mode = 0o600
        entry.mtime = int(os.fstat(file.fileno()).st_mtime)
        reader = _HashingReader(file)
        archive.addfile(entry, reader)
    return {"bytes": entry.size, "sha256": reader.digest()}


class _HashingReader:
    """A file that hashes what is read from it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._hash = file, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._hash.update(data)
        return data

    def digest(self) -> str:
        return self._hash.hexdigest()


# -- restoring


def read_backup(source: Path, folder: Path) -> BackupContent:
    """Make a folder the project of a backup, after every byte was compared with its hash."""
    if os.path.lexists(folder / HOME):
        raise errors.Conflict(
            f"There is a project in {str(folder.resolve())!r} already, and a restore overwrites nothing.",
            code="project_exists",
            hint="Restore into another folder: headway -C restored restore FILE",
        )
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob(f"{_SCRATCH}*"):  # of a killed run
        shutil.rmtree(left, ignore_errors=True)
    scratch = Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=folder))
    try:
        files = _unpack(source, scratch)
        decisions = _count(source, scratch / STORE)
        settings = scratch / SETTINGS
        if settings.exists():
            _put_settings(settings, folder / SETTINGS)
        (scratch / HOME).chmod(0o700)
        (scratch / HOME).rename(folder / HOME)  # the one step that makes it a project
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    policies = {PurePosixPath(name).parts[2] for name in files if name.startswith(f"{HOME}/policies/")}
    size = sum(file.bytes for file in files.values())
    return BackupContent(files=len(files), bytes=size, decisions=decisions, policies=len(policies))


class _PackedFile(msgspec.Struct, frozen=True):
    bytes: int
    sha256: str


class _Manifest(msgspec.Struct, frozen=True):
    form: int
    files: dict[str, _PackedFile] = {}


class _Unzipped(gzip.GzipFile):
    """The archive without its compression, within limits: what is read at once, and in all."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(fileobj=file, mode="rb")
        self._most = os.fstat(file.fileno()).st_size * _MOST_RATIO + _SMALL
        self.headers: int | None = _MOST_HEADERS  # bytes that are left for headers, while one is read

    def read(self, size: int | None = -1) -> bytes:
        if size is not None and size > _LARGEST_READ:
            raise ValueError(f"it has a header of {size:,} bytes")
        if self.headers is not None:
            self.headers -= size or 0
            if self.headers < 0:
                raise ValueError(f"its headers have more than {_MOST_HEADERS:,} bytes")
        data = super().read(size)
        if self.tell() > self._most:
            raise ValueError(f"it unpacks to more than {self._most:,} bytes")
        return data


def _unpack(source: Path, target: Path) -> dict[str, _PackedFile]:
    """Extract every member, and compare it with the manifest at the end."""
    seen, manifest = _members(source, target)
    if manifest is None:
        raise _broken(source, "it ends too early")
    if manifest.form != _FORM:
        raise _broken(source, f"its form is {manifest.form!r}, and this version reads {_FORM}")
    files = manifest.files
    wrong = sorted(name for name in {*files, *seen} if files.get(name) != seen.get(name))
    if wrong or STORE not in files:
        raise _broken(source, f"{(wrong or [STORE])[0][:200]!r} does not have the bytes that were backed up")
    return files


def _members(source: Path, target: Path) -> tuple[dict[str, _PackedFile], _Manifest | None]:
    """The members, which are extracted, and the manifest, which is the last one."""
    seen: dict[str, _PackedFile] = {}
    manifest: _Manifest | None = None
    try:
        with _opened(source) as file, _Unzipped(file) as unzipped, tarfile.open(fileobj=unzipped, mode="r:") as archive:
            while (entry := archive.next()) is not None:
                unzipped.headers = None
                archive.members = []  # type: ignore[attr-defined]  # it would keep them all
                body = archive.extractfile(entry) if entry.isreg() and not entry.issparse() else None
                if body is None or manifest is not None or len(seen) >= _MOST_FILES:
                    raise _broken(source, f"{entry.name[:200]!r} is not a file of a backup")
                if entry.name == MANIFEST:
                    manifest = msgspec.json.decode(body.read(_LARGEST_READ), type=_Manifest)
                else:
                    seen[entry.name] = _extract(source, body, target, entry.name)
                unzipped.headers = _MOST_HEADERS
            unzipped.headers = None
            while unzipped.read(_CHUNK):  # to the end, where the checksum of the whole file is
                pass
    except FileNotFoundError:
        raise
    except (tarfile.TarError, zlib.error, msgspec.MsgspecError, EOFError, OSError, ValueError, RecursionError) as error:
        raise _broken(source, str(error)[:200].rstrip(".")) from error
    return seen, manifest


def _opened(source: Path) -> IO[bytes]:
    """The file; a pipe or a device would block or never end."""
    return os.fdopen(open_regular(source, follow=True), "rb")


def _extract(source: Path, body: IO[bytes], target: Path, name: str) -> _PackedFile:
    path = PurePosixPath(name)
    inside = name == SETTINGS or (name.startswith(f"{HOME}/") and len(path.parts) > 1)
    if path.is_absolute() or ".." in path.parts or not inside or len(name) > _LONGEST_NAME:
        raise _broken(source, f"{name[:200]!r} lies outside of a project")
    own = path.parts[1] if len(path.parts) > 1 else ""
    if name != STORE and (own in _LEFT_OUT or own.startswith("headway.db") or path.suffix == ".lock"):
        raise _broken(source, f"{name[:200]!r} belongs to a machine and is in no backup")
    place = target.joinpath(*path.parts)
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    digest, size = hashlib.sha256(), 0
    with place.open("xb") as file:
        while chunk := body.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
            file.write(chunk)
        os.fchmod(file.fileno(), 0o600)
        os.fsync(file.fileno())
    return _PackedFile(size, digest.hexdigest())


def _put_settings(settings: Path, target: Path) -> None:
    text = read_regular(settings)
    if not target.exists():
        settings.replace(target)
        target.chmod(0o644)
    elif read_regular(target) != text:
        raise errors.Conflict(
            f"{str(target)!r} exists and differs from the one in the backup.",
            code="file_exists",
            hint="Move it away first, or restore into an empty folder.",
        )


def _count(source: Path, store: Path) -> int:
    """The decisions of the store, which is checked."""
    connection = sqlite3.connect(f"file:{store.resolve().as_posix()}?mode=ro&immutable=1", uri=True)
    try:
        problems = [row[0] for row in connection.execute("PRAGMA quick_check(1)") if row[0] != "ok"]
        if problems:
            raise _broken(source, f"its store is damaged: {problems[0]}")
        return int(connection.execute("SELECT COUNT(*) FROM decisions").fetchone()[0])
    except sqlite3.Error as error:
        raise _broken(source, f"its store cannot be read: {error}") from error
    finally:
        connection.close()


def _broken(source: Path, why: str) -> errors.Damaged:
    return errors.Damaged(
        f"{str(source)!r} is not a whole backup: {why}.",
        code="backup_damaged",
        hint="Nothing was restored. Use another backup.",
    )
