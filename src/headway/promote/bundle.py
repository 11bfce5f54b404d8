"""A policy as files: header.json and weights.safetensors, named by the hash of both.

    digest = write(folder, header, tensors)      # atomic: a bundle exists completely or not at all
    header, tensors = read(folder, digest)       # verified: hash, limits, names, shapes, dtypes, finiteness
    remove(folder, digest)                       # atomic, and refused while a process reads it

A bundle is untrusted input. Nothing in it is executed; safetensors is parsed here, within limits, before numpy sees a
byte. Not covered: whether the policy is good (evidence shows that).
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import shutil
import struct
import time
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from headway.files import drop_abandoned, open_regular, whole_folder
from headway.nouns import Header, TensorSpec, errors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Tensors = Mapping[str, NDArray[np.generic]]

FORMAT = 1
HEADER, WEIGHTS = "header.json", "weights.safetensors"
_NEXT = "header.next"  # waits until the ledger vouches for it
_GONE = ".gone-"  # prefix of a bundle's name while it is being removed
_FRESH_NS = 100_000_000  # a file written this recently may change again within the same time stamp
_REMEMBERED = 256
_MAX_HEADER = 1 << 20
_MAX_TENSORS = 4096
_MAX_WEIGHTS = 8 << 30
_MAX_DIMENSIONS = 16
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "|u1", "BOOL": "|b1"}
_NAMES = {numpy: name for name, numpy in _DTYPES.items()}


FileIdentity = tuple[int, int, int, int]  # inode, size, times of the last change to content and to the inode


class VerifiedFiles:
    """The files that this process has already hashed. A file that changed since is hashed again.

    Not covered: a disk that returns other bytes for an unchanged file; the next process and `headway doctor` detect
    that.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[FileIdentity, ...]] = {}

    def knows(self, digest: str, files: tuple[FileIdentity, ...]) -> bool:
        return self._known.get(digest) == files

    def remember(self, digest: str, files: tuple[FileIdentity, ...]) -> None:
        changed = max(changed for *_, changed in files)
        if time.time_ns() - changed < _FRESH_NS or changed % 1_000_000_000 == 0:
            return  # too recent, or time stamps in whole seconds: the next change might go unnoticed
        self._known[digest] = files
        while len(self._known) > _REMEMBERED:
            with suppress(KeyError):  # another thread was faster
                del self._known[next(iter(self._known))]


def digest_of(header: bytes, weights: bytes) -> str:
    """The content hash that the ledger keeps: SHA-256 over both files, each preceded by its length."""
    digest = hashlib.sha256()
    for part in (header, weights):
        digest.update(struct.pack("<Q", len(part)))
        digest.update(part)
    return digest.hexdigest()


def write(root: Path, header: Header, tensors: Tensors) -> str:
    """Store a bundle under `root/<digest>` and return the digest; the same content twice is one bundle."""
    weights = _serialise(tensors)
    body = _serialised(header)
    if len(body) > _MAX_HEADER:
        raise errors.Damaged(
            f"The header would be {len(body):,} bytes; at most {_MAX_HEADER:,} are allowed.", code="bundle_too_large"
        )
    digest = digest_of(body, weights)
    target = root / digest
    drop_abandoned(root)
    if target.exists():
        return digest
    try:
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        with whole_folder(target) as scratch:
            for name, content in ((HEADER, body), (WEIGHTS, weights)):
                with (scratch / name).open("wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
        _sync_folder(root)
    except OSError as error:
        raise errors.Unavailable(
            f"The bundle could not be written to {root}: {error.strerror}.",
            code="disk_full" if error.errno == 28 else "bundle_not_written",
            hint="Free some space or check the folder's permissions; nothing was promoted.",
        ) from error
    return digest


def read_header(root: Path, digest: str) -> Header:
    """The header alone, without checking the weights: for lists."""
    return _parse_header(_bytes(root / digest / HEADER, _MAX_HEADER, digest)[0], digest)


def read(
    root: Path,
    digest: str,
    verified: VerifiedFiles | None = None,
    rewritten: Callable[[str], Container[str]] | None = None,
) -> tuple[Header, Tensors]:
    """Header and tensors of the bundle whose content hash is `digest`, or Damaged.

    `verified` records the hashed files: unchanged ones are not hashed again. `rewritten` gives the hashes that the
    bundle has since a deletion removed words from its header.
    """
    with _held(root / digest):
        body, of_header = _bytes(root / digest / HEADER, _MAX_HEADER, digest)
        weights, of_weights = _bytes(root / digest / WEIGHTS, _MAX_WEIGHTS, digest)
    files = (of_header, of_weights)
    if verified is None or not verified.knows(digest, files):
        content = digest_of(body, weights)
        if content != digest and (rewritten is None or content not in rewritten(digest)):
            raise _damaged(digest, f"its content hashes to {content[:12]}…", "bundle_hash_mismatch")
        if verified is not None:
            verified.remember(digest, files)
    header = _parse_header(body, digest)
    tensors = _parse_weights(weights, digest)
    declared = {spec.name: (spec.dtype, tuple(spec.shape)) for spec in header.tensors}
    present = {name: (_NAMES[array.dtype.str], array.shape) for name, array in tensors.items()}
    if declared != present:
        raise _damaged(digest, "its tensors do not match its header")
    return header, tensors


def prepare(root: Path, digest: str, header: Header) -> str:
    """Put a new header beside the present one; the hash that the bundle has once `finish` has put it in its place."""
    body = _serialised(header)
    with (root / digest / _NEXT).open("wb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    return digest_of(body, _bytes(root / digest / WEIGHTS, _MAX_WEIGHTS, digest)[0])


def finish(root: Path, digest: str, rewritten: Container[str]) -> None:
    """Put a header that waits in its place if `rewritten` has the hash that it gives; otherwise it is dropped."""
    waiting = root / digest / _NEXT
    if not waiting.exists():
        return
    body, weights = _bytes(waiting, _MAX_HEADER, digest)[0], _bytes(root / digest / WEIGHTS, _MAX_WEIGHTS, digest)[0]
    if digest_of(body, weights) in rewritten:
        waiting.replace(root / digest / HEADER)
    else:
        waiting.unlink()
    _sync_folder(root / digest)


def remove(root: Path, digest: str) -> bool:
    """Delete a bundle; False if it does not exist, cannot be deleted, or is being read.

    It is renamed before its files are deleted, so it exists completely or not at all; the next removal deletes what a
    killed process left behind.
    """
    for leftover in root.glob(f"{_GONE}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    try:
        handle = os.open(root / digest, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while a reader holds it
        gone = (root / digest).rename(root / f"{_GONE}{digest}")
    except OSError:
        return False
    finally:
        os.close(handle)
    shutil.rmtree(gone, ignore_errors=True)
    return True


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Keep `remove` from deleting a bundle between the reads of its two files. A missing bundle fails on reading."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        yield
        return
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_SH)
        yield
    finally:
        os.close(handle)


def specs(tensors: Tensors) -> tuple[TensorSpec, ...]:
    """The header's entries for these tensors; an unsupported dtype is a bug."""
    return tuple(
        TensorSpec(name, _NAMES[tensors[name].dtype.newbyteorder("<").str], tensors[name].shape)
        for name in sorted(tensors)
    )


def _bytes(path: Path, limit: int, digest: str) -> tuple[bytes, FileIdentity]:
    if path.parent.is_symlink():
        raise _damaged(digest, "its folder is a link")
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            status = os.fstat(file.fileno())
            if status.st_size > limit:
                raise _damaged(digest, f"{path.name} is larger than {limit:,} bytes")
            return file.read(), (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    except OSError as error:
        if not path.parent.exists():
            gone = "it is missing; old snapshots of online policies are removed"
            raise _damaged(digest, gone, "bundle_missing") from error
        raise _damaged(digest, f"{path.name} cannot be read ({error.strerror})", "bundle_missing") from error


def _parse_header(body: bytes, digest: str) -> Header:
    try:
        header = msgspec.json.decode(body, type=Header)
    except _UNREADABLE as error:
        raise _damaged(digest, f"header.json is not a valid header: {error}") from error
    if header.format != FORMAT:
        raise _damaged(digest, f"its format is {header.format}, this version reads {FORMAT}", "bundle_format")
    return header


def _serialised(header: Header) -> bytes:
    return json.dumps(msgspec.to_builtins(header), sort_keys=True, indent=1, allow_nan=False).encode()


def _serialise(tensors: Tensors) -> bytes:
    from safetensors.numpy import save

    return bytes(save({name: tensors[name] for name in sorted(tensors)}))


def _parse_weights(data: bytes, digest: str) -> Tensors:
    """Safetensors by hand: 8 bytes of length, a JSON table, one buffer without gaps or overlaps."""
    import numpy as np

    if len(data) < 8:
        raise _damaged(digest, "weights.safetensors is truncated")
    (length,) = struct.unpack("<Q", data[:8])
    if length > _MAX_HEADER or 8 + length > len(data):
        raise _damaged(digest, "weights.safetensors has an invalid header length")
    try:
        table: Any = msgspec.json.decode(data[8 : 8 + length])
    except _UNREADABLE as error:
        raise _damaged(digest, f"weights.safetensors has no readable table: {error}") from error
    if not isinstance(table, dict) or len(table) > _MAX_TENSORS:
        raise _damaged(digest, f"weights.safetensors must have a table of at most {_MAX_TENSORS} tensors")
    buffer = memoryview(data)[8 + length :]
    tensors: dict[str, NDArray[np.generic]] = {}
    end = 0
    entries = [(name, entry) for name, entry in table.items() if name != "__metadata__"]
    for name, entry in sorted(entries, key=lambda pair: _start(pair[1])):
        try:
            dtype, shape, (start, stop) = np.dtype(_DTYPES[entry["dtype"]]), entry["shape"], entry["data_offsets"]
            sound = len(shape) <= _MAX_DIMENSIONS and all(
                isinstance(size, int) and 0 <= size < 1 << 40 for size in (*shape, start, stop)
            )
        except (KeyError, TypeError, ValueError) as error:
            raise _damaged(digest, f"tensor {name[:60]!r} has an invalid description") from error
        count = math.prod(shape) if sound else 0
        if not sound or start != end or stop - start != count * dtype.itemsize or stop > len(buffer):
            raise _damaged(digest, f"tensor {name[:60]!r} does not match its place in the file")
        array = np.frombuffer(buffer[start:stop], dtype=dtype).reshape(shape)
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise _damaged(digest, f"tensor {name[:60]!r} holds a NaN or an infinity", "bundle_not_finite")
        tensors[name] = array
        end = stop
    if end != len(buffer):
        raise _damaged(digest, "weights.safetensors has bytes outside all tensors")
    return tensors


def _start(entry: Any) -> int:
    try:
        return int(entry["data_offsets"][0])
    except (KeyError, TypeError, ValueError, IndexError, OverflowError):
        return -1  # sorts first; the checks above then refuse it


def _damaged(digest: str, what: str, code: str = "bundle_damaged") -> errors.Damaged:
    return errors.Damaged(
        f"The bundle {digest[:12]} cannot be used: {what}.",
        code=code,
        hint="The policy in service is untouched. Learn again, or restore .headway/policies from a backup.",
    )


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
