"""[alerts] in headway.toml."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from headway.settings import Url, Variable


class AlertSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whom the background loop tells about an alarm."""

    webhook: Url = ""  # gets a POST with JSON
    key_env: Variable = ""  # the variable with its bearer key
    command: tuple[str, ...] = ()  # gets the sentence as its last argument and the JSON as its standard input
    timeout_s: Annotated[float, Meta(gt=0, le=600)] = 10.0  # of each
