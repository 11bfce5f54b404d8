"""The files of the embedded store as this process opened them, and the check that they are still there.

    alone = files.open()    # before the first connection: creates the store, but never beside a process that uses it
    files.check()           # before a transaction, by the holder of the writers' lock: raises `store_lost`, for good
    files.record()          # after it

SQLite itself writes on into a file that was deleted. All processes that use a store lock `headway.db.open.lock`, which
holds what its last writer left: the identity of the three files, size and header of the first one, and the state of
the checkpoints. What changed while that state did not was not written by SQLite: a database browser raises no alarm.
The project's folder is locked as well: it remains if .headway is deleted, and then nobody makes a new store there.

A file that changed while no checkpoint did, behind the header and with the same size, is `touched`: the store examines
its structure then. Not covered: bytes of a value that is in no index, and what changes while no process has it open.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import stat
import struct
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from headway.files import open_regular
from headway.nouns import errors

_EVERY_S = 0.1  # names, identities and sizes; headers are compared before every transaction
_INDEX_BYTES = 136  # of wal-index: a header, then how far the checkpoints came
_HEADER_BYTES = 100
_LONGEST = 200  # of the words after the record that say how the store was lost
# The log's salt, how far it was copied, and how far that was tried: only SQLite's checkpoints change them.
_CHECKPOINTS, _STATE = struct.Struct("=Q56xI28xI"), 32  # and where they stand in the index
_LAYOUT = struct.Struct("<6QQQII100s")
_MAGIC = b"SQLite format 3\0"


class _Known(NamedTuple):
    """What a writer left."""

    files: tuple[int, ...]  # device and inode of each
    size: int
    checkpoints: tuple[int, ...]
    header: bytes


class StoreFiles:
    """The store, its write-ahead log and the log's index."""

    def __init__(self, path: Path) -> None:
        self.paths = (path, Path(f"{path}-wal"), Path(f"{path}-shm"))
        self.lost: errors.Unavailable | None = None  # once it is set, nothing is written any more
        self._lock_path = Path(f"{path}.open.lock")
        self._lock: int | None = None
        self._folder: int | None = None
        self._held: list[tuple[int, int]] = []
        self._store, self._log = _NONE, _NONE
        self._index: mmap.mmap | None = None  # its start, as SQLite itself maps it
        self._header = b""
        self._seen: tuple[int, ...] = ()  # and the state of checkpoints, at the last look
        self._next_look = 0.0
        self._changed = (0, ())  # when the store's file changed last, and the state of the checkpoints then
        self.touched = False  # by something that is not SQLite

    # -- opening and closing, by the holder of the writers' lock: who uses the store has it open

    def open(self) -> bool:
        """Before the first connection: lock the store as in use, create it if it was never there; whether it is ours.

        Never opens a file that exists: closing it again would end SQLite's locks on it.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._lock = os.open(self._lock_path, flags, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            alone = True
        except BlockingIOError:
            alone = False
        fcntl.flock(self._lock, fcntl.LOCK_SH)
        first = self._lock_folder()
        lost = os.pread(self._lock, _LONGEST, _LAYOUT.size).decode("utf-8", "replace")
        if lost:
            raise self._loses(int(lost[0]), lost[1:])
        self._claim(self._read(), alone=alone, first=first)
        return alone

    def _lock_folder(self) -> bool:
        """Lock the folder around .headway as in use; whether nobody else does."""
        home = self.paths[0].parent
        if home.name != ".headway":
            return True
        self._folder = os.open(home.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        first = True
        for how in (fcntl.LOCK_EX, fcntl.LOCK_SH):
            try:
                fcntl.flock(self._folder, how | fcntl.LOCK_NB)
            except BlockingIOError:
                first = False
            except OSError:  # a file system that locks no folders
                break
        return first

    def _claim(self, known: _Known | None, *, alone: bool, first: bool) -> None:
        """Makes sure that the store is a regular file that only its owner can read, and the one that was used."""
        path = self.paths[0]
        try:
            status = path.lstat()
        except FileNotFoundError:
            if known is not None or not (alone and first):
                raise self._loses(0, "is gone") from None
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
            return
        if not stat.S_ISREG(status.st_mode):
            raise errors.Damaged(
                f"{path} is not a regular file.",
                code="store_not_a_file",
                hint="A link, pipe or device is not opened. Move the store there, or use [store] url.",
            )
        if known is not None:
            if not status.st_size:
                raise self._loses(0, "was emptied")
            if not alone:
                self.present(zip(known.files[::2], known.files[1::2], strict=True))
            elif known.files[:2] != (status.st_dev, status.st_ino) and self._log_is_of(known):
                raise self._loses(0, f"was replaced by another file, beside {self.paths[1].name} of the old one")
        if status.st_mode & 0o077 and status.st_uid == os.geteuid():
            path.chmod(0o600)

    def _log_is_of(self, known: _Known) -> bool:
        """Whether there is the log of an earlier file, which SQLite would copy over the present one."""
        with suppress(FileNotFoundError):
            log = self.paths[1].stat()
            return log.st_size > 0 and known.files[2:4] == (log.st_dev, log.st_ino)
        return False

    def opened(self, *, alone: bool) -> None:
        """After the first connection: hold the files, and compare them with those that others use."""
        try:
            for number, path in enumerate(self.paths):
                self._held.append(_hold(path, self, mapped=number == 2))
        except FileNotFoundError:  # a file system without shared memory: SQLite keeps no write-ahead log
            return
        self._store, self._log, (_, self._index, _) = (_open_files[key] for key in self._held)
        if alone:
            self.record(again=True)
        self.check(look=True)

    def close(self) -> None:
        """After the last connection."""
        for key in self._held:
            _release(key, self)
        self._held, self._index = [], None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        if self._folder is not None:
            os.close(self._folder)
            self._folder = None

    # -- the check

    def present(self, files: Iterable[tuple[int, int]] = ()) -> list[int]:
        """The sizes of the files; raises `store_lost` if a name leads to another file now. Needs no lock."""
        if self.lost is not None:
            raise self.lost.with_traceback(None)
        sizes = []
        for number, key in enumerate(files or self._held):
            try:
                status = self.paths[number].lstat()
            except FileNotFoundError:
                raise self._loses(number, "is gone") from None
            if (status.st_dev, status.st_ino) != key:
                raise self._loses(number, "was replaced by another file")
            sizes.append(status.st_size)
        return sizes

    @property
    def due(self) -> bool:
        """Whether nobody has looked at names and sizes for a while."""
        return time.monotonic() >= self._next_look

    def check(self, *, look: bool = False) -> None:
        """Raises `store_lost` if a file is not what the last writer left; `look`: at names and sizes in any case."""
        if self.lost is not None:
            raise self.lost.with_traceback(None)
        if self._index is None:
            return
        header = os.pread(self._store.fd, _HEADER_BYTES, 0)
        if header == self._header and not look and time.monotonic() < self._next_look:
            return
        known = self._read()
        if known is None:
            return
        moved = _CHECKPOINTS.unpack_from(self._index, _STATE) != known.checkpoints
        if header != known.header and not (moved and header.startswith(_MAGIC)):
            raise self.loses("was overwritten" if header else "was emptied")
        self._look(0 if moved else known.size)
        self._header, self._seen, self._next_look = header, known.checkpoints, time.monotonic() + _EVERY_S

    def _look(self, least: int) -> None:
        store, log, _ = self.present()
        if store < least:
            raise self.loses("was cut off")
        assert self._index is not None
        before, self._changed = (
            self._changed,
            (os.fstat(self._store.fd).st_ctime_ns, _CHECKPOINTS.unpack_from(self._index, _STATE)),
        )
        self.touched |= before[0] not in (0, self._changed[0]) and before[1] == self._changed[1]
        page, frames = struct.unpack_from("=HI", self._index, 14)
        whole = log >= 32 + frames * (24 + page) and os.pread(self._log.fd, 8, 16) == self._index[32:40]  # the salt
        if frames and not whole:
            raise self._loses(1, "was overwritten" if log else "was emptied", for_good=True)

    def record(self, *, again: bool = False) -> None:
        """Write down what a checkpoint has changed; the caller holds the writers' lock."""
        if self._index is None or self._lock is None or self.lost is not None:
            return
        checkpoints = _CHECKPOINTS.unpack_from(self._index, _STATE)
        if checkpoints == self._seen and not again:
            return
        identities = [number for key in self._held for number in key]
        store, header = os.fstat(self._store.fd), os.pread(self._store.fd, _HEADER_BYTES, 0)
        os.pwrite(self._lock, _LAYOUT.pack(*identities, store.st_size, *checkpoints, header), 0)
        self._header, self._seen, self._changed = header, checkpoints, (store.st_ctime_ns, checkpoints)

    def _read(self) -> _Known | None:
        data = b"" if self._lock is None else os.pread(self._lock, _LAYOUT.size, 0)
        if len(data) < _LAYOUT.size:
            return None
        numbers = _LAYOUT.unpack(data)
        return _Known(numbers[:6], numbers[6], numbers[7:10], numbers[10])

    def loses(self, how: str) -> errors.Unavailable:
        """The store itself is lost, for whoever opens it later, too."""
        return self._loses(0, how, for_good=True)

    def _loses(self, number: int, how: str, *, for_good: bool = False) -> errors.Unavailable:
        """The error, from now on; `for_good`: for whoever opens the store later, too."""
        path, note = self.paths[number], f"{number}{how}".encode()
        if for_good and self._lock is not None:
            os.pwrite(self._lock, note, _LAYOUT.size)
        with suppress(OSError):  # deleted with the store: whoever looks next must not begin a new one beside us
            again = os.open(self._lock_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            os.pwrite(again, note, _LAYOUT.size)
            os.close(again)
        self.lost = errors.Unavailable(
            f"{path} {how}: nothing is stored any more.",
            code="store_lost",
            hint="Stop Headway. Put the file back, or move .headway away and run `headway restore FILE`; then start "
            f"it again. To start empty, move {self.paths[0]}* away; to go on with what is there, move only "
            f"{self._lock_path.name} away.",
        )
        return self.lost


class _OpenFile(NamedTuple):
    """A file that is opened once per process: closing it beside a connection would end SQLite's locks on it."""

    fd: int
    start: mmap.mmap | None
    users: list[object]


_NONE = _OpenFile(-1, None, [])
_open_files: dict[tuple[int, int], _OpenFile] = {}  # by device and inode
_opening = threading.Lock()


def _hold(path: Path, user: object, *, mapped: bool) -> tuple[int, int]:
    with _opening:
        status = path.stat()
        key = (status.st_dev, status.st_ino)
        if key not in _open_files:
            fd = open_regular(path)
            start = mmap.mmap(fd, _INDEX_BYTES, prot=mmap.PROT_READ) if mapped else None
            _open_files[key] = _OpenFile(fd, start, [])
        _open_files[key].users.append(user)
        return key


def _release(key: tuple[int, int], user: object) -> None:
    with _opening:
        file = _open_files[key]
        file.users.remove(user)
        if not file.users:
            del _open_files[key]
            if file.start is not None:
                file.start.close()
            os.close(file.fd)
