"""Backups that somebody has made to harm: nothing is restored, nothing is written outside, and nothing blocks."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import random
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import headway as package
from headway.kits.backup import archive as backup_file
from headway.kits.backup.archive import write_backup
from tests.cli.terminal import headway

STORE = ".headway/headway.db"
Member = tuple[tarfile.TarInfo, bytes]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A store with three decisions, as a file without a log."""
    folder = tmp_path_factory.mktemp("project")
    with package.open(folder, seed=1) as project:
        for _ in range(3):
            project.decide("route", "t", ["a", "b"])
        write_backup(project.database, folder, folder / "a.backup")
    with tarfile.open(folder / "a.backup") as archive:
        body = archive.extractfile(STORE)
        assert body is not None
        return body.read()


def member(name: str, body: bytes = b"x", **fields: Any) -> Member:
    entry = tarfile.TarInfo(name)
    entry.size = len(body)
    for field, value in fields.items():
        setattr(entry, field, value)
    return entry, body


def manifest(*members: Member) -> bytes:
    files = {entry.name: {"bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()} for entry, body in members}
    return json.dumps({"form": 1, "files": files}).encode()


def packed(path: Path, *members: Member, said: bytes | None = None) -> Path:
    """An archive whose manifest agrees with it, unless `said` replaces it."""
    ending = member("manifest.json", manifest(*members) if said is None else said)
    with tarfile.open(path, "w:gz", format=tarfile.GNU_FORMAT) as archive:
        for entry, body in (*members, ending):
            archive.addfile(entry, io.BytesIO(body))
    return path


def refused(folder: Path, file: Path) -> str:
    """What `restore` says; the folder has nothing afterwards."""
    done = headway("-C", folder, "restore", file, "--json")
    assert done.code != 0
    assert "Traceback" not in done.err
    error = done.error
    assert error["code"] in {"backup_damaged", "project_exists"}, error
    assert not folder.exists() or not any(folder.iterdir())
    return str(error["message"])


MANIFESTS: dict[str, Callable[[bytes], bytes]] = {
    "a list": lambda _: b"[]",
    "a text": lambda _: b'"x"',
    "without files": lambda _: b'{"form": 1}',
    "files as a list": lambda _: b'{"form": 1, "files": []}',
    "a file as a text": lambda _: b'{"form": 1, "files": {".headway/headway.db": "x"}}',
    "without sizes": lambda body: body.replace(b'"bytes"', b'"size"'),
    "another size": lambda body: body.replace(b'"bytes": ', b'"bytes": 1'),
    "a size of 400 digits": lambda body: body.replace(b'"bytes": ', b'"bytes": 1' + b"0" * 400),
    "another hash": lambda body: body.replace(b'"sha256": "', b'"sha256": "0'),
    "nested": lambda _: b"[" * 100_000,
    "no JSON": lambda _: b"\xff\xfe",
}


@pytest.mark.parametrize("harm", MANIFESTS)
def test_a_manifest_that_is_none_restores_nothing(tmp_path: Path, store: bytes, harm: str) -> None:
    good = member(STORE, store)
    packed(tmp_path / "bad.backup", good, said=MANIFESTS[harm](manifest(good)))
    refused(tmp_path / "new", tmp_path / "bad.backup")


MEMBERS = {
    "the token": member(".headway/token", b"hw_" + b"0" * 64 + b"\n"),
    "a write-ahead log": member(".headway/headway.db-wal"),
    "a journal, which SQLite would roll back": member(".headway/headway.db-journal"),
    "another journal": member(".headway/headway.db-mj12345678"),
    "what is known about the store in use": member(".headway/headway.db.open.lock"),
    "a lock": member(".headway/store.lock", b""),
    "a file of the server": member(".headway/run/server.json", b"{}"),
    "a link": member(".headway/a", b"", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
    "a hard link": member(".headway/a", b"", type=tarfile.LNKTYPE, linkname=STORE),
    "a pipe": member(".headway/a", b"", type=tarfile.FIFOTYPE),
    "a device": member(".headway/a", b"", type=tarfile.CHRTYPE, devmajor=1, devminor=5),
    "a folder": member(".headway/a", b"", type=tarfile.DIRTYPE),
    "a path above": member(".headway/../../a"),
    "an absolute path": member("/tmp/a"),
    "a path beside": member("a.py"),
    "a name twice": member(f".headway//{STORE.removeprefix('.headway/')}"),
    "a file as a folder": member(f"{STORE}/a"),
    "an endless name": member(".headway/" + "a" * 5000),
    "a name of bytes": member(".headway/\udcff" + "/.." * 3),
}


@pytest.mark.parametrize("harm", MEMBERS)
def test_a_member_that_no_backup_has_restores_nothing(tmp_path: Path, store: bytes, harm: str) -> None:
    packed(tmp_path / "bad.backup", member(STORE, store), MEMBERS[harm], said=manifest(member(STORE, store)))
    refused(tmp_path / "new", tmp_path / "bad.backup")
    named = tmp_path / "named.backup"
    packed(named, member(STORE, store), MEMBERS[harm], said=manifest(member(STORE, store), MEMBERS[harm]))
    refused(tmp_path / "new", named)


def test_a_store_that_is_none_restores_nothing_and_no_settings(tmp_path: Path, store: bytes) -> None:
    for number, bad in enumerate((b"", b"x" * 9000, store[: len(store) // 2], store[:100] + b"\xff" * 5000)):
        file = tmp_path / f"{number}.backup"
        packed(file, member(STORE, bad), member("headway.toml", b"[tasks.route]\n"))
        refused(tmp_path / "new", file)


def test_an_archive_that_unpacks_to_far_more_than_its_size_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup_file, "_SMALL", 1 << 20)
    zeros = b"\0" * (1 << 20)
    entry = tarfile.TarInfo(".headway/zeros")
    entry.size = 3 << 30  # would fill the disk
    bomb = tmp_path / "bomb.backup"
    with gzip.open(bomb, "wb", compresslevel=1) as file:
        file.write(entry.tobuf(tarfile.GNU_FORMAT))
        for _ in range(20):
            file.write(zeros)
    assert "unpacks to" in refused(tmp_path / "new", bomb)


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XGLTYPE])
def test_a_header_that_would_fill_the_memory_is_refused(tmp_path: Path, kind: bytes) -> None:
    entry = tarfile.TarInfo(".headway/a")
    entry.type, entry.size = kind, 1 << 40
    with gzip.open(tmp_path / "bad.backup", "wb") as file:
        file.write(entry.tobuf(tarfile.GNU_FORMAT) + b"\0" * 65_536)
    assert "header" in refused(tmp_path / "new", tmp_path / "bad.backup")


def test_bytes_changed_anywhere_are_found(tmp_path: Path, store: bytes) -> None:
    good = packed(tmp_path / "good.backup", member(STORE, store)).read_bytes()
    assert headway("-C", tmp_path / "fine", "restore", tmp_path / "good.backup").code == 0
    rng = random.Random(23)
    for bad in changed(good, rng):
        (tmp_path / "bad.backup").write_bytes(bad)
        refused(tmp_path / "new", tmp_path / "bad.backup")


def changed(good: bytes, rng: random.Random) -> Iterator[bytes]:
    yield from (b"", good[:10], good[:-9], good[: len(good) // 2])
    for _ in range(12):
        place = rng.randrange(100, len(good))
        yield good[:place] + bytes([good[place] ^ (1 << rng.randrange(8))]) + good[place + 1 :]


def test_a_pipe_is_no_backup_and_a_link_is_no_empty_folder(tmp_path: Path, store: bytes) -> None:
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "new", tmp_path / "pipe")
    good = packed(tmp_path / "good.backup", member(STORE, store))
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / ".headway").symlink_to(tmp_path / "elsewhere")
    assert headway("-C", tmp_path / "linked", "restore", good, "--json").error["code"] == "project_exists"
    assert not (tmp_path / "elsewhere").exists()


def test_headers_without_end_are_refused(tmp_path: Path, store: bytes) -> None:
    record = b"1048576 comment=" + b"a" * ((1 << 20) - 17) + b"\n"
    headers = [member(f"{number}", record, type=tarfile.XGLTYPE) for number in range(40)]
    packed(tmp_path / "bad.backup", *headers, member(STORE, store), said=manifest(member(STORE, store)))
    refused(tmp_path / "new", tmp_path / "bad.backup")
