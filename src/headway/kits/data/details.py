"""Details of kits in an export: kit → name → base64."""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as BadBase64
from collections.abc import Iterable, Mapping, Sequence

from headway.nouns import Detail, id_bytes
from headway.observe import Database


def having_details(database: Database, decisions: Sequence[str]) -> set[bytes]:
    """Which of these decisions have details, as the bytes of their ids."""
    rows = database.query_in("SELECT DISTINCT decision FROM details WHERE decision IN ({})", map(id_bytes, decisions))
    return {bytes(row[0]) for row in rows}


def as_text(details: Iterable[Detail]) -> dict[str, dict[str, str]]:
    """Kit → name → base64, as an export holds them."""
    by_kit: dict[str, dict[str, str]] = {}
    for detail in details:
        by_kit.setdefault(detail.kit, {})[detail.name] = b64encode(detail.data).decode("ascii")
    return by_kit


def from_text(value: object) -> tuple[Detail, ...]:
    """The details that `as_text` wrote; a ValueError with a readable message for anything else."""
    if not isinstance(value, Mapping):
        raise ValueError("expected an object of kits")
    details = []
    for kit, by_name in value.items():
        if not isinstance(by_name, Mapping):
            raise ValueError(f"expected an object of names for the kit {kit!r}")
        for name, text in by_name.items():
            try:
                data = b64decode(text, validate=True)
            except (BadBase64, TypeError, ValueError):
                raise ValueError(f"expected base64 for {name!r} of the kit {kit!r}") from None
            details.append(Detail(str(kit), str(name), data))
    return tuple(details)
