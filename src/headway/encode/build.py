"""Encoders by name.

encoder("hashing")                           # 128 buckets, cached
encoder({"name": "hashing", "width": 256})
encoder("hashing-1-w256")                    # by version, as a bundle's header names it
encoder("minilm", models=cache)              # the text model of this cache folder
encoder("wordllama")
encoder("minilm+structure", models=cache)    # several side by side; each part by name or by version
encoder({"url": "http://127.0.0.1:11434/v1", "model": "nomic-embed-text", "width": 768})

Nothing is loaded and nothing is asked until the first text, or `load()`. What is missing then is an error that names
the command; no encoder ever stands in for another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway.encode.hashing import HashingEncoder
from headway.encode.joined import JoinedEncoder
from headway.encode.structure import StructureEncoder
from headway.encode.text import CachedEncoder
from headway.encode.vectors import DiskCache
from headway.nouns.errors import InvalidSettings, Unavailable, UnknownName, did_you_mean
from headway.nouns.protocols import Cache, Encoder

__all__ = ["ENCODERS", "encoder"]

ENCODERS = ("hashing", "wordllama", "minilm", "structure")
_HASHING_VERSION = re.compile(r"hashing-1-w(\d{1,4})\Z")
_VERSIONS = {"minilm-1-w384": "minilm", "wordllama-1-w256": "wordllama", StructureEncoder.version: "structure"}


def encoder(
    spec: str | Mapping[str, Any] = "hashing",
    *,
    cache: Cache | None = None,
    cached: bool = True,
    models: Path | None = None,
    vectors: Path | None = None,
    keys: Mapping[str, str] | None = None,
) -> Encoder:
    """The encoder that a name, a table with `name` or `url`, or a version string asks for.

    `models` is the cache folder with the models, `keys` has the values of the variables that `key_env` names, and
    `vectors` is a file in which slow encoders keep what they have encoded.
    """

    def kept(one: str | Mapping[str, Any]) -> Encoder:
        plain = _plain(one, models, keys or {})
        disk = cached and vectors is not None and getattr(plain, "slow", False)
        return CachedEncoder(plain, DiskCache(vectors)) if disk and vectors is not None else plain

    joined = isinstance(spec, str) and "+" in spec
    found = JoinedEncoder([kept(each) for each in str(spec).split("+")]) if joined else kept(spec)
    return CachedEncoder(found, cache) if cached else found


def _plain(spec: str | Mapping[str, Any], models: Path | None, keys: Mapping[str, str]) -> Encoder:
    if isinstance(spec, str):
        version = _HASHING_VERSION.match(spec)
        settings: dict[str, Any] = {"name": "hashing", "width": int(version[1])} if version else {"name": spec}
        settings["name"] = _VERSIONS.get(spec, settings["name"])
    else:
        settings = dict(spec)
    if "url" in settings:
        return _endpoint(settings, keys)
    name = settings.pop("name", None)
    if name not in ENCODERS:
        raise UnknownName(
            f"There is no encoder {name!r}.", code="encoder_missing", hint=did_you_mean(str(name), ENCODERS)
        )
    _only(name, settings, ("width",) if name == "hashing" else ())
    if name == "minilm":
        from headway.encode.minilm import MinilmEncoder

        if models is None:
            raise Unavailable(
                "The encoder 'minilm' was not told where models are.",
                code="model_missing",
                hint='Give the folder: encoder("minilm", models=settings.cache).',
            )
        return MinilmEncoder(models)
    if name == "wordllama":
        from headway.encode.wordllama import WordllamaEncoder

        return WordllamaEncoder()
    if name == "structure":
        return StructureEncoder()
    return HashingEncoder(_whole(settings.get("width", 128)))


def _endpoint(settings: dict[str, Any], keys: Mapping[str, str]) -> Encoder:
    from headway.encode.endpoint import EndpointEncoder

    _only("endpoint", settings, ("url", "model", "key_env", "width", "batch", "timeout_s"))
    if "width" in settings:
        _whole(settings["width"])
    return EndpointEncoder(**settings, key=keys.get(settings.get("key_env", ""), ""))


def _only(name: str, settings: Mapping[str, Any], known: tuple[str, ...]) -> None:
    unknown = sorted(settings.keys() - set(known))
    if unknown:
        raise InvalidSettings(
            f"The {name} encoder has no setting {unknown[0]!r}.",
            code="unknown_key",
            hint=did_you_mean(unknown[0], known),
        )


def _whole(width: object) -> int:
    if not isinstance(width, int) or isinstance(width, bool):
        raise InvalidSettings(
            f"width is {width!r}, not a whole number.", code="bad_encoder", hint="Use a power of two, for example 128."
        )
    return width
