"""Ids: 16 bytes in the store, a prefix and 32 hex digits everywhere else.

dec_0197c1f2a3b47000a1b2c3d4e5f60718    a decision: UUIDv7, so that ids sort by time
epi_5f0c…                               an episode: a hash of task and episode name, so that any client can compute it

    ids.decision(time())                 # a new one
    ids.episode("route", "chat-7")       # always the same
    ids.text(ids.raw("dec_0197…"))       # from and to the bytes in the store
"""

from __future__ import annotations

import hashlib
import os
import re

from headway.nouns.errors import InvalidInput

_PREFIXES = ("dec_", "epi_")
_CLIENT_ID = re.compile(
    r"(?:dec_)?([0-9a-f]{8})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{12})\Z", re.IGNORECASE
)
_EPISODE_BIT = 0x0F  # version nibble 15 marks an episode id: no UUID that a client can supply has it


def decision(now: float, noise: bytes | None = None) -> str:
    """A new time-ordered id (UUIDv7, RFC 9562: 48 bits of milliseconds, 12 of their fraction, 62 random).

    `noise`: eight random bytes, for callers that draw many at once.
    """
    milliseconds, fraction = divmod(int(now * 1_000_000), 1000)
    random = int.from_bytes(noise or os.urandom(8), "big") >> 2
    number = (milliseconds & 0xFFFFFFFFFFFF) << 80 | 7 << 76 | (fraction << 2) << 64 | 2 << 62 | random
    return f"dec_{number:032x}"


def parse_decision(text: str) -> str:
    """The canonical form of a client's id: `dec_` and 32 hex digits, or any UUID."""
    match = _CLIENT_ID.match(text)
    if match is None or match[3][0] in "fF":
        raise InvalidInput(
            f"{text[:80]!r} is not a decision id.",
            code="bad_id",
            hint="Use the id that `decide` returned, or supply a UUID (version 7 keeps ids in time order).",
        )
    return "dec_" + "".join(match.groups()).lower()


def episode(task: str, name: str) -> str:
    """The id of the episode `name` of a task; computed from both."""
    digest = bytearray(hashlib.blake2b(f"{task}\0{name}".encode(), digest_size=16, person=b"headway-episode").digest())
    digest[6] = _EPISODE_BIT << 4 | digest[6] & 0x0F
    return f"epi_{digest.hex()}"


def keyed(task: str, key: str, name: str, *, secret: bytes) -> str:
    """The id of a decision that a client names by a word of its own: the same word gives the same id (UUIDv8).

    `secret`: the store's, so that nobody can compute the id of another key's word, to occupy it or to signal it.
    """
    named = f"{task}\0{key}\0{name}".encode()
    digest = bytearray(hashlib.blake2b(named, digest_size=16, key=secret, person=b"headway-request").digest())
    digest[6], digest[8] = 0x80 | digest[6] & 0x0F, 0x80 | digest[8] & 0x3F
    return f"dec_{digest.hex()}"


def is_episode(identifier: str) -> bool:
    return identifier.startswith("epi_")


def raw(identifier: str) -> bytes:
    """The 16 bytes of an id."""
    try:
        found = bytes.fromhex(identifier[4:])  # fromhex skips spaces, but then there are too few bytes
    except ValueError:
        found = b""
    if len(found) != 16 or len(identifier) != 36 or identifier[:4] not in _PREFIXES:
        raise InvalidInput(
            f"{identifier[:80]!r} is not an id.", code="bad_id", hint="Ids look like dec_ or epi_ and 32 hex digits."
        )
    return found


def text(raw_id: bytes) -> str:
    """The id of 16 bytes."""
    return ("epi_" if raw_id[6] >> 4 == _EPISODE_BIT else "dec_") + raw_id.hex()
