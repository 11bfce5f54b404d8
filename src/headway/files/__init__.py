"""files — opens files that others may have replaced, and writes files whole: nothing but a regular file is opened.

os.fdopen(open_regular(home / "token"))               # ours: no link is followed
read_regular(Path("model.json"))                      # named by the user, who may have linked it
os.fdopen(open_regular(log, follow=True), "rb")
with whole_folder(home / "policies" / name) as new: … # it exists completely or not at all

Takes: a path.   Gives: a descriptor or the bytes of a regular file, or an OSError.
Never: follows a link unless asked, waits for a pipe, leaves half a file.
May import: nothing.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["drop_abandoned", "open_regular", "read_regular", "whole_folder", "write_whole"]

_NEW, _ABANDONED_S = ".new-", 3600.0  # a folder that is being filled, or whose writer was killed so long ago


def open_regular(path: Path, flags: int = os.O_RDONLY, mode: int = 0o600, *, follow: bool = False) -> int:
    """A descriptor, or an OSError. A pipe or device neither blocks nor is read.

    Not covered: links among the folders above the file.
    """
    try:
        descriptor = os.open(path, flags | (0 if follow else os.O_NOFOLLOW) | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise OSError(error.errno, "it is not a regular file", str(path)) from error
        raise
    kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
    if kind != stat.S_IFREG:
        os.close(descriptor)
        if kind == stat.S_IFDIR:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return descriptor


def read_regular(path: Path, most: int = -1) -> bytes:
    """The bytes of a file, which may be a link to one; at most so many. An OSError if it is a pipe or a device."""
    with os.fdopen(open_regular(path, follow=True), "rb") as file:
        return file.read(most)


def write_whole(path: Path, body: bytes) -> None:
    """Write a file that a reader finds whole or not at all."""
    scratch = path.with_name(f".{path.name}.new")
    try:
        with scratch.open("wb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise


def drop_abandoned(root: Path) -> None:
    """Delete what killed writers left in a folder, an hour later."""
    for leftover in root.glob(f"{_NEW}*"):
        with suppress(OSError):  # another process was faster
            if time.time() - leftover.stat().st_mtime > _ABANDONED_S:
                shutil.rmtree(leftover, ignore_errors=True)


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """A new folder that becomes `target`; one that another process has just put there stays."""
    drop_abandoned(target.parent)
    import tempfile  # it loads random, which every start of the command line would wait for

    scratch = Path(tempfile.mkdtemp(prefix=_NEW, dir=target.parent))
    try:
        yield scratch
        try:
            scratch.rename(target)  # atomic: readers see the whole folder or none
        except OSError:
            if not target.exists():
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
