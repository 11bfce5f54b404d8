"""Refuses JSON in which an object names a key twice.

Parsers disagree about which value counts: Headway could check one and an upstream or a proxy act on the other.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from headway.nouns.errors import InvalidInput

_decode = msgspec.json.Decoder().decode
_NESTED = (dict, list)
_KEY = re.compile(rb'"[ \t\r\n]*:')  # also matches in a text such as ":)"


def refuse_duplicate_keys(raw: bytes) -> None:
    """Raises `duplicate_key`. A body that is not JSON is left to its own parser.

    The decoded body has at most as many keys as the text, and the text at most as many as it has colons: where both
    counts agree, no key is repeated. This costs a twentieth of a parser that collects the keys, which the rest needs.
    """
    try:
        body = _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return
    keys = len(body) if type(body) is dict and raw.count(b"{") == 1 else _count_keys(body)
    if keys != raw.count(b":") and keys != len(_KEY.findall(raw)):
        json.loads(raw, object_pairs_hook=_refuse, parse_int=float)


def _count_keys(value: Any) -> int:
    keys = 0
    pending = [value]
    while pending:
        part = pending.pop()
        if type(part) is dict:
            keys += len(part)
            part = part.values()
        elif type(part) is not list:
            continue
        pending += [inner for inner in part if type(inner) in _NESTED]
    return keys


def _refuse(pairs: list[tuple[str, Any]]) -> None:
    names = set[str]()
    for name, _ in pairs:
        if name in names:
            raise InvalidInput(
                f"An object names {name[:80]!r} twice.", code="duplicate_key", hint="Send each key once."
            )
        names.add(name)
