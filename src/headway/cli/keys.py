"""`headway keys`: who may call the server from elsewhere."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import click

from headway.cli.verb import Session, Verbs, verb
from headway.nouns.errors import InvalidInput
from headway.observe.keys import SCOPES, Keys

__all__ = ["keys"]

_UNITS = {"h": 3600.0, "d": 86_400.0, "w": 7 * 86_400.0}


@click.group("keys", cls=Verbs, examples=("headway keys add agent --scope decide", "headway keys list"))
def keys() -> None:
    """Make, replace and revoke the keys that callers of the server need."""


@verb("add", "headway keys add agent --scope decide", "headway keys add judge --scope signal --expires 90d")
@click.argument("name")
@click.option(
    "--scope", "scopes", multiple=True, required=True, type=click.Choice(SCOPES), help="What it may do; repeatable."
)
@click.option("--expires", metavar="TIME", help="Valid for so long: 12h, 90d, 4w. For ever by default.")
def add(session: Session, name: str, scopes: tuple[str, ...], expires: str | None) -> None:
    """Make a key. It is shown this once and stored as a hash.

    An agent that is optimised should hold `decide` and not `signal`: whoever rates itself learns to please itself.
    """
    with session.project(create=True) as project:
        now = project.clock()
        secret = Keys(project.database).add(name, scopes, now=now, expires=_until(now, expires))
    _show(session, name, secret)
    session.undo(f"headway keys revoke {name}")


@verb("rotate", "headway keys rotate agent", "headway keys rotate agent --expires 90d")
@click.argument("name")
@click.option("--expires", metavar="TIME", help="From now on valid for so long: 12h, 90d, 4w.")
def rotate(session: Session, name: str, expires: str | None) -> None:
    """Replace a key's secret; the old one stops at once."""
    with session.project() as project:
        now = project.clock()
        secret = Keys(project.database).rotate(name, now=now, expires=_until(now, expires))
    _show(session, name, secret)
    session.next("headway keys list")


@verb("revoke", "headway keys revoke agent", "headway keys revoke agent --json")
@click.argument("name")
def revoke(session: Session, name: str) -> None:
    """End a key; running servers heed it within a second. Its name stays taken: what it rated stays its own."""
    with session.project() as project:
        Keys(project.database).revoke(name, now=project.clock())
    session.out.document({"revoked": name})
    session.out.line(f"{name} is revoked.")
    session.next("headway keys list")


@verb("list", "headway keys list", "headway keys list --json")
def list_keys(session: Session) -> None:
    """Every key: what it may do, since when, until when. Secrets are not stored."""
    with session.project() as project:
        found = Keys(project.database).list()
    session.out.document(
        {
            "keys": [
                {
                    "name": each.name,
                    "scopes": list(each.scopes),
                    "created": _day(each.created),
                    "expires": _day(each.expires),
                    "revoked": _day(each.revoked),
                    "valid": each.valid(time.time()),
                }
                for each in found
            ]
        }
    )
    if not found:
        session.out.line("There is no key. On this machine nobody needs one to decide and signal.")
        session.next("headway keys add agent --scope decide")
        return
    session.out.table(
        ("name", "scopes", "created", "expires", "state"),
        [
            (
                each.name,
                " ".join(each.scopes),
                _day(each.created) or "",
                _day(each.expires) or "never",
                "valid" if each.valid(time.time()) else "revoked" if each.revoked else "expired",
            )
            for each in found
        ],
    )
    session.next("headway keys rotate NAME")


for _each in (add, list_keys, rotate, revoke):
    keys.add_command(_each)


def _show(session: Session, name: str, secret: str) -> None:
    session.out.document({"name": name, "key": secret})
    session.out.line(secret, style="bold")
    session.out.line(f"This is the key {name!r}. It is not stored and not shown again.")
    session.out.line("Send it as: Authorization: Bearer " + secret[:7] + "…")


def _until(now: float, text: str | None) -> float | None:
    if text is None:
        return None
    number, unit = text[:-1], text[-1:]
    if unit not in _UNITS or not (number.isascii() and number.isdigit()) or not 0 < int(number) < 10_000:
        raise InvalidInput(f"{text[:40]!r} is not a time.", code="bad_time", hint="Write 12h, 90d or 4w.")
    return now + int(number) * _UNITS[unit]


def _day(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")
