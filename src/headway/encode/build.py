"""Make encoders by name.

encoder("hashing")                           # 128 buckets, cached
encoder({"name": "hashing", "width": 256})
encoder("hashing-1-w256")                    # by version, as a bundle's header names it
encoder("minilm", models=cache)              # the text model of this cache folder
encoder("wordllama")
encoder("minilm+structure", models=cache)    # several side by side; each part by name or by version
encoder({"url": "http://127.0.0.1:11434/v1", "model": "nomic-embed-text", "width": 768})

Models are loaded on the first text, or by `load()`. A missing model is then an error that names the command to install
it; no encoder silently replaces another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headway.encode import hashing, structure
from headway.encode.text import CachedEncoder
from headway.encode.vectors import DiskCache
from headway.nouns import Cache, Encoder, Floats, InvalidSettings, UnknownName, did_you_mean

Make = Callable[..., Encoder]  # (models=…, keys=…, **settings) → Encoder
Find = Callable[[str], Make]  # by name; raises UnknownName
_VERSION = re.compile(r"([a-z]+)-\d+(?:-w(\d{1,4}))?\Z")
_WIDE = ("hashing",)  # encoders whose width is a setting


def core(name: str) -> Make:
    """The encoders that need no kit."""
    makers: dict[str, Make] = {"hashing": hashing.make, "structure": structure.make}
    if name not in makers:
        raise UnknownName(f"There is no encoder {name!r}.", code="encoder_missing", hint=did_you_mean(name, makers))
    return makers[name]


def encoder(
    spec: str | Mapping[str, Any] = "hashing",
    *,
    cache: Cache | None = None,
    cached: bool = True,
    find: Find = core,
    models: Path | None = None,
    vectors: Path | None = None,
    keys: Mapping[str, str] | None = None,
) -> Encoder:
    """The encoder for a name, a table with `name` or `url`, or a version string.

    `find` gives the maker for a name; `models` is the cache folder of the models, `keys` has the values of the
    variables that `key_env` names, and `vectors` is the file in which slow encoders cache their vectors.
    """

    def part(one: str | Mapping[str, Any]) -> Encoder:
        plain = _plain(one, find, models, keys or {})
        disk = cached and vectors is not None and getattr(plain, "slow", False)
        return CachedEncoder(plain, DiskCache(vectors)) if disk and vectors is not None else plain

    joined = isinstance(spec, str) and "+" in spec
    made = JoinedEncoder([part(one) for one in str(spec).split("+")]) if joined else part(spec)
    return CachedEncoder(made, cache) if cached else made


def _plain(spec: str | Mapping[str, Any], find: Find, models: Path | None, keys: Mapping[str, str]) -> Encoder:
    if isinstance(spec, str):
        version = _VERSION.match(spec)
        settings: dict[str, Any] = {"name": version[1] if version else spec}
        if version and version[1] in _WIDE and version[2]:
            settings["width"] = int(version[2])
    else:
        settings = dict(spec)
    name = "endpoint" if "url" in settings else str(settings.pop("name", None))
    return find(name)(models=models, keys=keys, **settings)


class JoinedEncoder:
    """The concatenated vectors of its parts."""

    __slots__ = ("parts", "slow", "version", "width")

    def __init__(self, parts: Sequence[Encoder]) -> None:
        versions = [part.version for part in parts]
        if len(parts) < 2 or len(set(versions)) != len(versions):
            raise InvalidSettings(
                f"The encoders {versions!r} cannot be joined.",
                code="bad_encoder",
                hint='Join two or more different encoders, for example "minilm+structure".',
            )
        self.parts = tuple(parts)
        self.version = "+".join(versions)
        self.width = sum(part.width for part in parts)
        self.slow = any(getattr(part, "slow", False) for part in parts)

    def encode(self, texts: Sequence[str]) -> Floats:
        """[text, width]."""
        return np.concatenate([part.encode(texts) for part in self.parts], axis=1)

    def load(self) -> None:
        """Load the models of all parts now."""
        self._call("load")

    def close(self) -> None:
        self._call("close")

    def _call(self, name: str) -> None:
        for part in self.parts:
            method = getattr(part, name, None)
            if method is not None:
                method()
