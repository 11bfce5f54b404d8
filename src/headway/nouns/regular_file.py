"""Opens files that others may have replaced: no link is followed, and nothing but a regular file is opened."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

__all__ = ["open_regular"]


def open_regular(path: Path, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """A descriptor, or an OSError. A pipe or device neither blocks nor is read.

    Not covered: links among the folders above the file.
    """
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise OSError(error.errno, "it is not a regular file", str(path)) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return descriptor
