"""The settings table of a kit, as an external package would write it."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    most: Annotated[int, Meta(ge=1)] = 8


class AcmeSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[acme]"""

    address: str
    mode: Literal["fast", "exact"] = "fast"
    share: Annotated[float, Meta(ge=0, lt=1)] = 0.5
    steps: list[int] = []
    nickname: str | None = None
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        if self.mode == "exact" and self.share > 0.5:
            raise ValueError('share of at most 0.5 with mode = "exact"')
