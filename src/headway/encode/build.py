"""Encoders by name.

encoder("hashing")                           # 128 buckets, cached
encoder({"name": "hashing", "width": 256})
encoder("hashing-1-w256")                    # by version, as a bundle's header names it
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from headway.encode.hashing import HashingEncoder
from headway.encode.text import CachedEncoder
from headway.nouns.errors import InvalidSettings, UnknownName, did_you_mean
from headway.nouns.protocols import Cache, Encoder

__all__ = ["ENCODERS", "encoder"]

ENCODERS = ("hashing",)
_HASHING_VERSION = re.compile(r"hashing-1-w(\d{1,4})\Z")


def encoder(spec: str | Mapping[str, Any] = "hashing", *, cache: Cache | None = None, cached: bool = True) -> Encoder:
    """The encoder that a name, a table with `name`, or a version string asks for."""
    if isinstance(spec, str):
        version = _HASHING_VERSION.match(spec)
        settings: dict[str, Any] = {"name": "hashing", "width": int(version[1])} if version else {"name": spec}
    else:
        settings = dict(spec)
    name = settings.pop("name", None)
    if name != "hashing":
        raise UnknownName(
            f"There is no encoder {name!r}.", code="encoder_missing", hint=did_you_mean(str(name), ENCODERS)
        )
    unknown = sorted(settings.keys() - {"width"})
    if unknown:
        raise InvalidSettings(
            f"The hashing encoder has no setting {unknown[0]!r}.",
            code="unknown_key",
            hint=did_you_mean(unknown[0], ["width"]),
        )
    width = settings.get("width", 128)
    if not isinstance(width, int) or isinstance(width, bool):
        raise InvalidSettings(
            f"width is {width!r}, not a whole number.", code="bad_encoder", hint="Use a power of two, for example 128."
        )
    plain = HashingEncoder(width)
    return CachedEncoder(plain, cache) if cached else plain
