"""Encode text without a model: signed hashed 1-2-grams (Weinberger et al., "Feature hashing", 2009).

    HashingEncoder().encode(["prove that sqrt(2) is irrational"])    # float64 [1, 128], length one

A token is a run of letters, digits and underscores of the NFC-normalised, lower-cased text; a Chinese or Japanese
character is a separate token, because those scripts put no spaces between words. Each token and each pair of
neighbours adds +1 or −1 to one of `width` buckets; the sum is divided by its Euclidean length. Counts are small
integers, so the result does not depend on the order of summation: one text alone and the same text in a batch are
equal bit for bit, on every machine.

Not covered: meaning. "increase" and "decrease" are unrelated words here, and so are "car" and "cars".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headway.nouns import Floats, errors

_ALONE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(r"\w+", re.ASCII)
_UNICODE_WORD = re.compile(rf"[{_ALONE}]|[^\W{_ALONE}]+")
_KNOWN_TOKENS = 1 << 17  # the token → hash table is emptied when it holds this many
_ODD = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)
_SHIFT = np.uint64(32)
_SIGN_SHIFT = np.uint64(63)


def tokens(text: str) -> list[str]:
    """The words of a text, as the encoder sees them."""
    if text.isascii():
        return _WORD.findall(text.lower())
    return _UNICODE_WORD.findall(unicodedata.normalize("NFC", text).lower())


def make(*, models: Path | None, keys: Mapping[str, str], width: int = 128) -> HashingEncoder:  # noqa: ARG001 — every maker takes these
    """The encoder that settings describe."""
    return HashingEncoder(width)


class HashingEncoder:
    """Encodes any text without a model: `width` is a power of two between 8 and 4096."""

    __slots__ = ("_hashes", "_mask", "version", "width")

    def __init__(self, width: int = 128) -> None:
        if width < 8 or width > 4096 or width & (width - 1):
            raise errors.InvalidSettings(
                f"The hashing encoder cannot have width {width!r}.",
                code="bad_encoder",
                hint="Use a power of two between 8 and 4096; 128 is the default.",
            )
        self.width = width
        self.version = f"hashing-1-w{width}"
        self._mask = np.uint64(width - 1)
        self._hashes: dict[str, int] = {}

    def encode(self, texts: Sequence[str]) -> Floats:
        """One row per text; a text without any token is all zeros."""
        known = self._hashes
        words: list[int] = []
        ends: list[int] = []
        for text in texts:
            text_tokens = tokens(text)
            try:
                words.extend([known[token] for token in text_tokens])
            except KeyError:
                words.extend([self._hash(token) for token in text_tokens])
            ends.append(len(words))
        count, width = len(texts), self.width
        if not words:
            return np.zeros((count, width))
        single = np.array(words, dtype=np.uint64)
        pair = (single[:-1] * _ODD) ^ single[1:]  # wraps on purpose: arithmetic modulo 2**64
        pair *= _MIX
        pair ^= pair >> _SHIFT
        sums: Floats
        if count == 1:
            sums = self._count(single, None, 1) + self._count(pair, None, 1)
        else:
            rows = np.repeat(np.arange(count), np.diff(ends, prepend=0))
            same = rows[:-1] == rows[1:]
            sums = self._count(single, rows, count) + self._count(pair[same], rows[:-1][same], count)
        norms = np.sqrt((sums * sums).sum(axis=1))  # exact: small integers
        norms[norms == 0.0] = 1.0
        vectors: Floats = sums / norms[:, None]
        return vectors

    def _count(self, hashes: NDArray[np.uint64], rows: NDArray[np.int64] | None, count: int) -> Floats:
        slots = (hashes & self._mask).astype(np.int64)
        if rows is not None:
            slots += rows * self.width
        signs = 1.0 - 2.0 * (hashes >> _SIGN_SHIFT)
        sums = np.bincount(slots, weights=signs, minlength=count * self.width)
        return sums.astype(np.float64, copy=False).reshape(count, self.width)

    def _hash(self, token: str) -> int:
        hashed = self._hashes.get(token)
        if hashed is None:
            hashed = int.from_bytes(blake2b(token.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
            if len(self._hashes) >= _KNOWN_TOKENS:
                self._hashes = {}  # a new dict, because another thread may be reading the old one
            self._hashes[token] = hashed
        return hashed
