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

import math
import re
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from headway.encode import hashing
from headway.encode.text import CachedEncoder
from headway.encode.vectors import DiskCache
from headway.nouns import Cache, Encoder, Floats, errors

Make = Callable[..., Encoder]  # (models=…, keys=…, **settings) → Encoder
Find = Callable[[str], Make]  # by name; raises UnknownName
_VERSION = re.compile(r"([a-z]+)-\d+(?:-w(\d{1,4}))?\Z")
_WIDE = ("hashing",)  # encoders whose width is a setting


def core(name: str) -> Make:
    """The encoders that need no kit."""
    makers: dict[str, Make] = {"hashing": hashing.make, "structure": make}
    if name not in makers:
        raise errors.UnknownName(
            f"There is no encoder {name!r}.", code="encoder_missing", hint=errors.did_you_mean(name, makers)
        )
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
    make = find(name)
    _check(name, make, settings)
    return make(models=models, keys=keys, **settings)


def _check(name: str, make: Make, settings: Mapping[str, Any]) -> None:
    """Refuse a setting that the maker of this encoder does not name, and a width that is no whole number."""
    parameters = signature(make).parameters.values()
    known = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY and one.name not in ("models", "keys")]
    unknown = sorted(settings.keys() - set(known))
    if unknown and not any(one.kind is one.VAR_KEYWORD for one in parameters):
        raise errors.InvalidSettings(
            f"The {name} encoder has no setting {unknown[0]!r}.",
            code="unknown_key",
            hint=errors.did_you_mean(unknown[0], known),
        )
    width = settings.get("width", 0)
    if not isinstance(width, int) or isinstance(width, bool):
        raise errors.InvalidSettings(
            f"width is {width!r}, not a whole number.", code="bad_encoder", hint="Use a power of two, for example 128."
        )


class JoinedEncoder:
    """The concatenated vectors of its parts."""

    __slots__ = ("parts", "slow", "version", "width")

    def __init__(self, parts: Sequence[Encoder]) -> None:
        versions = [part.version for part in parts]
        if len(parts) < 2 or len(set(versions)) != len(versions):
            raise errors.InvalidSettings(
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


NAMES = (
    "characters", "words", "lines", "longest_line", "first_line", "digits", "digit_share", "numbers", "symbols",
    "word_length", "distinct_words", "capitals", "non_ascii", "commas", "quotes", "questions", "ends_asking",
    "blanks", "options", "negations", "asks_for_a_number", "asks_why", "code", "brackets",
)  # fmt: skip
# Centre and scale of each entry before the 0.1; rounded from two sets of prompts (exam questions, mixed requests).
_CENTRE = np.array(
    [5.6, 3.9, 1.4, 4.6, 4.4, 1.1, 0.03, 0.8, 1.3, 4.7, 0.8, 0.05, 0.05, 0.9, 0.1, 0.5, 0.3, 0.1, 0.7, 0.1, 0.15, 0.1,
     0.1, 0.4]
)  # fmt: skip
_SCALE = np.array(
    [0.9, 0.9, 0.8, 0.9, 0.9, 1.2, 0.05, 0.9, 1.1, 0.8, 0.15, 0.05, 0.4, 0.9, 0.4, 0.4, 0.5, 0.3, 0.8, 0.3, 0.35, 0.3,
     0.4, 0.7]
)  # fmt: skip
_WEIGHT, _MOST = 0.1, 4.0
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_SYMBOL = re.compile(r"[+\-*/=^<>%$\\|~∑∫√≤≥≠±×÷]")
_OPTION = re.compile(r"^\s*(?:[A-Ea-e1-9][.)]|\([A-Ea-e1-9]\)|[-*•])\s", re.MULTILINE)
_NEGATION = re.compile(r"\b(?:not|except|never|neither|nor|incorrect|false|least)\b", re.IGNORECASE)
_NUMERIC = re.compile(
    r"\b(?:how (?:many|much|far|long|old)|calculate|compute|solve|evaluate|estimate|probability|percent|find the)\b",
    re.IGNORECASE,
)
_WHY = re.compile(r"\b(?:why|explain|because|prove|derive|justify|which of the following)\b", re.IGNORECASE)
_CODE = re.compile(r"```|\bdef \w|\bclass \w|\breturn\b|\bimport \w|;\s*$|\w\(\)|</\w", re.MULTILINE)
_BRACKET = re.compile(r"[()\[\]{}]")


def make(*, models: Path | None, keys: Mapping[str, str]) -> StructureEncoder:  # noqa: ARG001 — every maker takes these
    """The encoder that settings describe."""
    return StructureEncoder()


class StructureEncoder:
    """24 numbers per text, in the order of NAMES.

    Entries are centred, scaled by constants (typical of prompts to language models) and multiplied by 0.1: together
    they weigh about as much as one unit-length text vector. For use beside another encoder: "minilm+structure".
    """

    __slots__ = ()
    version = "structure-1"
    width = len(NAMES)

    def encode(self, texts: Sequence[str]) -> Floats:
        """One row per text; row i depends on text i alone."""
        raw = np.array([_measure(text) for text in texts], dtype=np.float64).reshape(len(texts), self.width)
        raw -= _CENTRE
        raw /= _SCALE
        np.clip(raw, -_MOST, _MOST, out=raw)
        raw *= _WEIGHT
        return raw


def _measure(text: str) -> tuple[float, ...]:
    count = max(len(text), 1)
    words, lines = _WORD.findall(text), text.split("\n")
    first = next((line for line in lines if line.strip()), "")
    digits = sum(map(str.isdigit, text))
    return (
        math.log1p(len(text)),
        math.log1p(len(words)),
        math.log1p(len(lines)),
        math.log1p(max(map(len, lines))),
        math.log1p(len(first)),
        math.log1p(digits),
        digits / count,
        math.log1p(len(_NUMBER.findall(text))),
        math.log1p(len(_SYMBOL.findall(text))),
        sum(map(len, words)) / max(len(words), 1),
        len({word.lower() for word in words}) / max(len(words), 1),
        sum(map(str.isupper, text)) / count,
        0.0 if text.isascii() else math.log1p(sum(1 for character in text if ord(character) > 127)),
        math.log1p(text.count(",")),
        math.log1p(text.count('"') + text.count("“")),
        math.log1p(text.count("?")),
        float(first.rstrip().endswith("?")),
        float("__" in text),
        math.log1p(len(_OPTION.findall(text))),
        float(_NEGATION.search(text) is not None),
        float(_NUMERIC.search(text) is not None),
        float(_WHY.search(text) is not None),
        math.log1p(len(_CODE.findall(text))),
        math.log1p(len(_BRACKET.findall(text))),
    )
