"""A running proof as bytes, and back: objects of this room, arrays, lists and numbers; no pickle.

data = freeze(running)
running = thaw(data)                               # goes on with the same numbers, in every bit

An object that occurs twice is one object afterwards. `RunningHash` is a hash that can go on like that.
"""

from __future__ import annotations

import zlib
from hashlib import sha256
from importlib import import_module
from typing import Any

import msgspec
import numpy as np

_PLAIN = (type(None), bool, int, float, str, bytes)
_ROOMS = ("headway.prove.", "headway.nouns.")
_PIECE = 16_384


class RunningHash:
    """The hash of all bytes so far, whatever the pieces in which they came: a chain over pieces of equal size."""

    def __init__(self, begin: bytes = b"") -> None:
        self._chain, self._rest = b"", begin

    def update(self, data: bytes) -> None:
        whole, start = self._rest + data, 0
        while start + _PIECE <= len(whole):
            self._chain, start = sha256(self._chain + whole[start : start + _PIECE]).digest(), start + _PIECE
        self._rest = whole[start:]

    def digest(self) -> bytes:
        return sha256(self._chain + self._rest).digest()


def freeze(value: object) -> bytes:
    """The bytes of a value."""
    table: list[Any] = []
    places: dict[int, int] = {}

    def put(part: Any) -> Any:
        """A plain value as it is, and [its place in the table] of any other."""
        part = part.item() if isinstance(part, np.generic) else part
        if type(part) in _PLAIN:
            return part
        if id(part) not in places:
            places[id(part)] = place = len(table)
            table.append(None)
            table[place] = entry(part)
        return [places[id(part)]]

    def entry(part: Any) -> list[Any]:
        if isinstance(part, np.ndarray):
            return ["array", part.dtype.str, part.shape, part.tobytes()]
        if isinstance(part, dict):
            return ["dict", [put(key) for key in part], [put(one) for one in part.values()]]
        if isinstance(part, list | tuple):
            return [type(part).__name__, [put(one) for one in part]]
        kind = type(part)
        assert kind.__module__.startswith(_ROOMS), kind
        slots = [name for one in kind.__mro__ for name in one.__dict__.get("__slots__", ())]
        names = [name for name in (*slots, *getattr(part, "__dict__", ())) if hasattr(part, name)]
        return [f"{kind.__module__}.{kind.__name__}", names, [put(getattr(part, name)) for name in names]]

    return zlib.compress(msgspec.msgpack.encode([put(value), table]), 1)


def thaw(data: bytes) -> Any:
    """The value again."""
    root, table = msgspec.msgpack.decode(zlib.decompress(data))
    made: dict[int, Any] = {}

    def get(part: Any) -> Any:
        if not isinstance(part, list):
            return part
        (place,) = part
        if place not in made:
            kind, *held = table[place]
            if kind == "array":
                made[place] = np.frombuffer(bytearray(held[2]), dtype=held[0]).reshape(held[1])
            elif kind == "dict":
                made[place] = {get(key): get(one) for key, one in zip(*held, strict=True)}
            elif kind in ("list", "tuple"):
                some = [get(one) for one in held[0]]
                made[place] = some if kind == "list" else tuple(some)
            else:
                module, _, name = kind.rpartition(".")
                assert module.startswith(_ROOMS), kind
                made_of = getattr(import_module(module), name)
                made[place] = made_of.__new__(made_of)
                for name, one in zip(*held, strict=True):
                    object.__setattr__(made[place], name, get(one))
        return made[place]

    return get(root)
