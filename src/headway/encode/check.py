"""Check the settings of an encoder before it is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway.nouns import InvalidSettings, did_you_mean


def only(name: str, settings: Mapping[str, Any], known: tuple[str, ...] = ()) -> None:
    """Refuse a setting that this encoder does not have."""
    unknown = sorted(settings.keys() - set(known))
    if unknown:
        raise InvalidSettings(
            f"The {name} encoder has no setting {unknown[0]!r}.",
            code="unknown_key",
            hint=did_you_mean(unknown[0], known),
        )


def whole(width: object) -> int:
    """A width as a whole number."""
    if not isinstance(width, int) or isinstance(width, bool):
        raise InvalidSettings(
            f"width is {width!r}, not a whole number.", code="bad_encoder", hint="Use a power of two, for example 128."
        )
    return width
