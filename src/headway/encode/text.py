"""Cache vectors by content: the same text is encoded once.

    cached = CachedEncoder(HashingEncoder())           # keeps 8,192 vectors in memory
    cached.encode(["hello", "hello"])                  # encodes "hello" once

The key is blake2b of the encoder's version and the text, so a new version never gets an old vector. Any
`nouns.Cache` works; `MemoryCache` is in this process. Thread-safe.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b
from threading import Lock

import numpy as np

from headway.encode.vectors import DiskCache
from headway.nouns import Cache, Encoder, Floats

_MANY = 500  # texts: as many are a part of a long stream, which would only evict the vectors of decisions


def key(version: str, text: str) -> bytes:
    """The key of a vector: 16 bytes of blake2b over the encoder's version and the text."""
    return blake2b(f"{version}\0{text}".encode("utf-8", "surrogatepass"), digest_size=16).digest()


class MemoryCache:
    """The `capacity` most recently used vectors; they are read-only, so callers cannot change them."""

    __slots__ = ("_capacity", "_lock", "_vectors")

    def __init__(self, capacity: int = 8192) -> None:
        self._capacity = capacity
        self._vectors: OrderedDict[bytes, Floats] = OrderedDict()
        self._lock = Lock()

    def get(self, key: bytes) -> Floats | None:
        with self._lock:
            vector = self._vectors.get(key)
            if vector is not None:
                self._vectors.move_to_end(key)
            return vector

    def put(self, key: bytes, vector: Floats) -> None:
        copy = np.array(vector, dtype=np.float64)
        copy.flags.writeable = False
        with self._lock:
            self._vectors[key] = copy
            self._vectors.move_to_end(key)
            while len(self._vectors) > self._capacity:
                self._vectors.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._vectors.clear()

    def __len__(self) -> int:
        return len(self._vectors)


class CachedEncoder:
    """An encoder with a cache. Its vectors equal those of the encoder, bit for bit."""

    __slots__ = ("_bulk", "_cache", "_encoder", "version", "width")

    def __init__(self, encoder: Encoder, cache: Cache | None = None) -> None:
        self._encoder = encoder
        self._bulk: tuple[list[str], Floats] = [], np.empty((0, encoder.width))  # the last texts of a long stream
        self._cache = MemoryCache() if cache is None else cache
        self.version = encoder.version
        self.width = encoder.width

    def encode(self, texts: Sequence[str]) -> Floats:
        if len(texts) == 1:  # a single decision
            name = key(self.version, texts[0])
            vector = self._cache.get(name)
            if vector is None or len(vector) != self.width:
                vector = self._encoder.encode(texts)[0]
                self._cache.put(name, vector)
            return np.array(vector, ndmin=2)
        if len(texts) >= _MANY and not isinstance(self._cache, DiskCache):
            return self._encode_bulk(texts)
        vectors = np.empty((len(texts), self.width))
        places: dict[str, list[int]] = {}
        for row, text in enumerate(texts):
            places.setdefault(text, []).append(row)
        names = {text: key(self.version, text) for text in places}
        cached = self._cached(names.values())
        missing: list[str] = []
        for text, rows in places.items():
            vector = cached.get(names[text])
            if vector is None or len(vector) != self.width:
                missing.append(text)
            else:
                vectors[rows] = vector
        if missing:
            fresh = self._encoder.encode(missing)
            for text, vector in zip(missing, fresh, strict=True):
                vectors[places[text]] = vector
            self._store({names[text]: vector for text, vector in zip(missing, fresh, strict=True)})
        return vectors

    def _encode_bulk(self, texts: Sequence[str]) -> Floats:
        """A batch of a long stream: both policies of a comparison are asked about it, and no other batch is."""
        known, vectors = self._bulk
        if known != texts:
            vectors = self._encoder.encode(texts)
            self._bulk = list(texts), vectors
        return vectors.copy()

    def _cached(self, names: Collection[bytes]) -> dict[bytes, Floats]:
        if isinstance(self._cache, DiskCache):
            return self._cache.get_many(names)
        pairs = ((name, self._cache.get(name)) for name in names)
        return {name: vector for name, vector in pairs if vector is not None}

    def _store(self, fresh: Mapping[bytes, Floats]) -> None:
        if isinstance(self._cache, DiskCache):
            self._cache.put_many(fresh)
            return
        for name, vector in fresh.items():
            self._cache.put(name, vector)

    def load(self) -> None:
        """Load the encoder now, so that no decision waits for it; raises an error if a model is missing."""
        load = getattr(self._encoder, "load", None)
        if load is not None:
            load()

    def close(self) -> None:
        for part in (self._cache, self._encoder):
            close = getattr(part, "close", None)
            if close is not None:
                close()

    def uncached(self) -> Encoder:
        """The encoder itself, for long streams that would evict useful vectors."""
        return self._encoder


def uncached(encoder: Encoder | None) -> Encoder | None:
    """The encoder without its cache, if it has one."""
    return encoder.uncached() if isinstance(encoder, CachedEncoder) else encoder
