"""`headway keys`: who may call the server from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING

import click

from headway.cli.output import Output
from headway.cli.show import Column, RecordTable, renders
from headway.cli.verbs import Session, Verbs, verb
from headway.cli.written import minute
from headway.nouns import errors
from headway.observe import SCOPES, Keys

if TYPE_CHECKING:
    from headway.observe import Key


@click.group("keys", cls=Verbs, examples=("headway keys add agent --scope decide", "headway keys list"))
def keys() -> None:
    """Create, replace and revoke the keys that callers of the server need."""


@verb("add", "headway keys add agent --scope decide", "headway keys add judge --scope signal --expires 90d")
@click.argument("name")
@click.option(
    "--scope", "scopes", multiple=True, required=True, type=click.Choice(SCOPES), help="What it may do; repeatable."
)
@click.option("--expires", metavar="TIME", help="How long it is valid: 12h, 90d, 4w; for ever by default.")
def add(session: Session, name: str, scopes: tuple[str, ...], expires: str | None) -> None:
    """Create a key. It is shown only once and stored as a hash.

    Give an agent that is optimised the scope `decide` and not `signal`: an agent that rates itself learns to please
    itself.
    """
    with session.project(create=True) as project:
        now = project.clock()
        secret = Keys(project.database).add(name, scopes, now=now, expires=_until(now, expires))
    session.show(NewKey(name=name, key=secret))
    session.undo(f"headway keys revoke {name}")


@verb("rotate", "headway keys rotate agent", "headway keys rotate agent --expires 90d")
@click.argument("name")
@click.option("--expires", metavar="TIME", help="How long the new secret is valid: 12h, 90d, 4w.")
def rotate(session: Session, name: str, expires: str | None) -> None:
    """Replace a key's secret; the old one stops working at once."""
    with session.project() as project:
        now = project.clock()
        secret = Keys(project.database).rotate(name, now=now, expires=_until(now, expires))
    session.show(NewKey(name=name, key=secret))
    session.next("headway keys list")


@verb("revoke", "headway keys revoke agent", "headway keys revoke agent --json")
@click.argument("name")
def revoke(session: Session, name: str) -> None:
    """Revoke a key; running servers reject it within a second. Its name stays taken, and its ratings stay."""
    with session.project() as project:
        Keys(project.database).revoke(name, now=project.clock())
    session.show(RevokedKey(revoked=name))
    session.next("headway keys list")


@verb("list", "headway keys list", "headway keys list --json")
def list_keys(session: Session) -> None:
    """List every key: what it may do, since when, until when. Secrets are not stored."""
    with session.project() as project:
        now = project.clock()
        known = KeyList(keys=tuple(_listed(key, now) for key in Keys(project.database).list()))
    session.show(known)
    valid = next((key.name for key in known.keys if key.state == "valid"), None)
    session.next(f"headway keys rotate {quote(valid)}" if valid else "headway keys add agent --scope decide")


for _command in (add, list_keys, rotate, revoke):
    keys.add_command(_command)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """A key with its secret: the only time that it is shown."""

    name: str
    key: str


@renders(NewKey)
def _new_key(out: Output, new: NewKey) -> None:
    out.line(new.key, style="bold")
    out.line(f"This is the key {new.name!r}. It is not stored and not shown again.")
    out.line(f"Send it as: Authorization: Bearer {new.key[:7]}…")


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokedKey:
    revoked: str


@renders(RevokedKey)
def _revoked(out: Output, key: RevokedKey) -> None:
    out.line(f"{key.revoked} is revoked.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedKey:
    """A key without its secret."""

    name: str
    scopes: Sequence[str]
    created: str | None
    expires: str | None
    revoked: str | None
    valid: bool

    @property
    def state(self) -> str:
        return "valid" if self.valid else "revoked" if self.revoked else "expired"


def _listed(key: Key, now: float) -> ListedKey:
    return ListedKey(
        name=key.name,
        scopes=list(key.scopes),
        created=minute(key.created),
        expires=minute(key.expires),
        revoked=minute(key.revoked),
        valid=key.valid(now),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyList:
    keys: Sequence[ListedKey]


_KEYS = RecordTable[ListedKey](
    Column.text("name", lambda key: key.name),
    Column.text("scopes", lambda key: " ".join(key.scopes)),
    Column.text("created", lambda key: key.created or ""),
    Column.text("expires", lambda key: key.expires or "never"),
    Column.text("state", lambda key: key.state),
)


@renders(KeyList)
def _key_list(out: Output, known: KeyList) -> None:
    if not known.keys:
        out.line("There are no keys. On this machine, deciding and signalling need none.")
    _KEYS.print(out, known.keys)


def _until(now: float, duration: str | None) -> float | None:
    return None if duration is None else now + _duration(duration)


_UNITS = {"h": 3600.0, "d": 86_400.0, "w": 7 * 86_400.0}


def _duration(text: str) -> float:
    """12h, 90d or 4w as seconds."""
    count, unit = text[:-1], text[-1:]
    if unit not in _UNITS or not (count.isascii() and count.isdigit()) or not 0 < int(count) < 10_000:
        raise errors.InvalidInput(f"{text[:40]!r} is not a duration.", code="bad_time", hint="Write 12h, 90d or 4w.")
    return int(count) * _UNITS[unit]
