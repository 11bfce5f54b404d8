"""API keys: shown once, stored as SHA-256, limited to scopes.

    key = keys.add("agent", ("decide",), now=clock())     # "hw_…": shown only once
    keys.rotate("agent", now=clock())                     # a new secret under the same name; the old one stops at once
    keys.revoke("agent", now=clock())

A key is 256 random bits, so its hash cannot be reversed by search; a slow hash would only slow the server down. Names
of revoked keys are never reused, so their ratings keep a clear owner.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from secrets import randbits

from headway.nouns import errors
from headway.observe.database import Connection, Database
from headway.observe.rows import microseconds

PREFIX = "hw_"
SCOPES = ("decide", "signal", "ingest", "train", "admin")
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}\Z")
_RESERVED = ("owner", "page")  # names of the project token and the page's cookie


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key without its secret."""

    name: str
    scopes: tuple[str, ...]
    created: float
    expires: float | None = None
    revoked: float | None = None
    sha256: bytes = b""

    def valid(self, now: float) -> bool:
        return self.revoked is None and (self.expires is None or now < self.expires)


def new_secret() -> str:
    """256 random bits in a form that needs no quoting."""
    return PREFIX + secrets.token_hex(32)


def digest_of(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


class Keys:
    """The keys of a project."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, name: str, scopes: Sequence[str], *, now: float, expires: float | None = None) -> str:
        """A new key; returns the secret, which is stored nowhere."""
        if _NAME.match(name) is None or name in _RESERVED:
            raise errors.InvalidInput(
                f"{name[:80]!r} cannot name a key.",
                code="bad_key_name",
                hint="Use up to 64 of a-z, 0-9, '_', '.' and '-', starting with a letter or digit; "
                f"not {' or '.join(_RESERVED)}.",
            )
        secret = new_secret()
        with self._database.transaction() as connection:
            if connection.execute("SELECT 1 FROM keys WHERE name = ?", (name,)).fetchone() is not None:
                raise errors.Conflict(
                    f"There is or was a key called {name!r}.",
                    code="key_exists",
                    hint=f"Choose another name, or replace its secret: headway keys rotate {name}",
                )
            connection.execute(
                "INSERT INTO keys (name, sha256, scopes, created, expires) VALUES (?, ?, ?, ?, ?)",
                (
                    name,
                    digest_of(secret),
                    " ".join(_checked(scopes)),
                    microseconds(now),
                    None if expires is None else microseconds(expires),
                ),
            )
        return secret

    def rotate(self, name: str, *, now: float, expires: float | None = None) -> str:
        """A new secret for a key that is in use; the old one is void. `expires` None keeps the old date."""
        secret = new_secret()
        with self._database.transaction() as connection:
            self._live(connection, name)
            connection.execute(
                "UPDATE keys SET sha256 = ?, created = ?, expires = COALESCE(?, expires) WHERE name = ?",
                (digest_of(secret), microseconds(now), None if expires is None else microseconds(expires), name),
            )
        return secret

    def revoke(self, name: str, *, now: float) -> None:
        with self._database.transaction() as connection:
            self._live(connection, name)
            connection.execute("UPDATE keys SET revoked = ? WHERE name = ?", (microseconds(now), name))

    def list(self) -> list[Key]:
        rows = self._database.query("SELECT name, scopes, created, expires, revoked, sha256 FROM keys ORDER BY id")
        return [
            Key(
                name=name,
                scopes=tuple(scopes.split()),
                created=created / 1e6,
                expires=None if expires is None else expires / 1e6,
                revoked=None if revoked is None else revoked / 1e6,
                sha256=bytes(sha256),
            )
            for name, scopes, created, expires, revoked, sha256 in rows
        ]

    def _live(self, connection: Connection, name: str) -> None:
        row = connection.execute("SELECT revoked FROM keys WHERE name = ?", (name,)).fetchone()
        if row is None:
            known = [key for (key,) in connection.execute("SELECT name FROM keys WHERE revoked IS NULL")]
            raise errors.UnknownName(
                f"No key is called {name[:80]!r}.",
                code="unknown_key",
                hint=errors.did_you_mean(name, known) or "Make one: headway keys add NAME --scope decide",
            )
        if row[0] is not None:
            raise errors.Conflict(
                f"The key {name!r} is revoked.", code="key_revoked", hint="Add one under another name."
            )


def _checked(scopes: Sequence[str]) -> tuple[str, ...]:
    for scope in scopes:
        if scope not in SCOPES:
            raise errors.InvalidInput(
                f"{scope[:80]!r} is not a scope.", code="bad_scope", hint=errors.did_you_mean(scope, SCOPES)
            )
    if not scopes:
        raise errors.InvalidInput("A key needs a scope.", code="bad_scope", hint=f"One or more of {', '.join(SCOPES)}.")
    return tuple(scope for scope in SCOPES if scope in scopes)


_NAMES = ("secret 1", "secret 2")


def draw_secret(connection: Connection) -> None:
    """Write the secret of a new store; the caller's transaction."""
    rows = [(name, randbits(63)) for name in _NAMES]
    connection.executemany("INSERT INTO marks (task_id, name, value) VALUES (0, ?, ?)", rows)


def secret_of(database: Database) -> bytes:
    """The secret of a store, 16 bytes."""
    rows = database.query("SELECT value FROM marks WHERE task_id = 0 AND name IN (?, ?) ORDER BY name", _NAMES)
    return struct.pack("<2q", *(value for (value,) in rows))


_GRACE_S = 3600.0  # the clocks of machines that share a store may differ


class Links:
    """One-time links to the page: each works once, on any server of the project.

    Stores digests of used links until one hour after the links expire.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def use(self, sha256: bytes, *, until: float, now: float) -> bool:
        """Use a link; True if this is its first use."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM used_links WHERE until < ?", (microseconds(now - _GRACE_S),))
            added = connection.execute(
                "INSERT INTO used_links (sha256, until) VALUES (?, ?) ON CONFLICT DO NOTHING",
                (sha256, microseconds(until)),
            )
            return added.rowcount == 1
