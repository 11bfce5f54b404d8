"""Read GGUF, as far as the embedded model needs it: metadata and tensors of F32, F16, Q8_0, Q4_0 and Q4_1, in numpy.

    content = read(path)
    content.fields["llama.block_count"]           # 30
    content.tensor("token_embd.weight")           # float32 [49152, 576]

The package `gguf` needs eleven seconds, because it creates an array per token; this module needs half a second.
https://github.com/ggml-org/ggml/blob/master/docs/gguf.md

Not covered: big-endian files, versions 1 and 2, the k-quants.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.nouns import Damaged

Array = NDArray[np.float32]

# value type → struct letter
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
# tensor type → (name, values per block, bytes per block)
_TYPES = {0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 8: ("Q8_0", 32, 34)}


@dataclass(frozen=True, slots=True)
class _Place:
    shape: tuple[int, ...]  # in numpy's order: the slowest dimension first
    kind: int
    offset: int


@dataclass(frozen=True, slots=True)
class Gguf:
    """A GGUF file: its metadata, and its tensors on demand."""

    fields: Mapping[str, Any]
    places: Mapping[str, _Place]
    data: NDArray[np.uint8]

    def tensor(self, name: str) -> Array:
        """A tensor as float32."""
        place = self.places.get(name)
        if place is None:
            raise Damaged(f"The GGUF file has no tensor {name!r}.", code="model_damaged")
        _, values, size = _TYPES[place.kind]
        count = int(np.prod(place.shape))
        raw = self.data[place.offset : place.offset + count // values * size]
        if count % values or len(raw) != count // values * size:
            raise Damaged(f"The GGUF file ends inside {name!r}.", code="model_damaged")
        return _UNPACK[place.kind](raw).reshape(place.shape)


class _Cursor:
    def __init__(self, data: memoryview) -> None:
        self.data, self.at = data, 0

    def take(self, letters: str) -> tuple[Any, ...]:
        values = struct.unpack_from("<" + letters, self.data, self.at)
        self.at += struct.calcsize("<" + letters)
        return values

    def text(self) -> str:
        (length,) = self.take("Q")
        raw = bytes(self.data[self.at : self.at + length])
        if len(raw) != length:
            raise struct.error("a text ends early")
        self.at += length
        return raw.decode("utf-8")

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            inner, count = self.take("IQ")
            if inner in _SCALARS:
                return list(self.take(f"{count}{_SCALARS[inner]}"))
            return [self.value(inner) for _ in range(count)]
        return self.take(_SCALARS[kind])[0]


def read(path: Path) -> Gguf:
    """Read the metadata; tensors stay on the disk until they are used."""
    data = np.memmap(path, dtype=np.uint8, mode="r")
    cursor = _Cursor(memoryview(data.data))
    try:
        magic, version, tensors, pairs = cursor.take("4sIQQ")
        if magic != b"GGUF" or version != 3:
            raise ValueError(f"it starts with {magic!r}, version {version}")
        fields: dict[str, Any] = {}
        for _ in range(pairs):
            name = cursor.text()
            fields[name] = cursor.value(cursor.take("I")[0])
        places: dict[str, _Place] = {}
        for _ in range(tensors):
            name, (rank,) = cursor.text(), cursor.take("I")
            shape = cursor.take(f"{rank}Q")
            kind, offset = cursor.take("IQ")
            if kind not in _TYPES:
                raise ValueError(f"tensor {name!r} has the unsupported type {kind}")
            places[name] = _Place(tuple(reversed(shape)), kind, offset)
    except (struct.error, ValueError, KeyError, OverflowError, MemoryError) as error:
        raise Damaged(f"{path.name} is not a readable GGUF file: {error}.", code="model_damaged") from error
    step = int(fields.get("general.alignment", 32))
    return Gguf(fields, places, data[-(-cursor.at // step) * step :])


def _f32(raw: NDArray[np.uint8]) -> Array:
    return raw.view("<f4").astype(np.float32)


def _f16(raw: NDArray[np.uint8]) -> Array:
    return raw.view("<f2").astype(np.float32)


def _nibbles(packed: NDArray[np.uint8]) -> Array:
    """[block, 16] bytes → [block, 32]: the low halves first, then the high ones."""
    return np.concatenate((packed & 0x0F, packed >> 4), axis=1).astype(np.float32)


def _q8_0(raw: NDArray[np.uint8]) -> Array:
    blocks = raw.reshape(-1, 34)
    scale = blocks[:, :2].copy().view("<f2").astype(np.float32)
    return scale * blocks[:, 2:].view(np.int8).astype(np.float32)


def _q4_0(raw: NDArray[np.uint8]) -> Array:
    blocks = raw.reshape(-1, 18)
    scale = blocks[:, :2].copy().view("<f2").astype(np.float32)
    return scale * (_nibbles(blocks[:, 2:]) - np.float32(8))


def _q4_1(raw: NDArray[np.uint8]) -> Array:
    blocks = raw.reshape(-1, 20)
    scale = blocks[:, :2].copy().view("<f2").astype(np.float32)
    least = blocks[:, 2:4].copy().view("<f2").astype(np.float32)
    return scale * _nibbles(blocks[:, 4:]) + least


_UNPACK = {0: _f32, 1: _f16, 2: _q4_0, 3: _q4_1, 8: _q8_0}
