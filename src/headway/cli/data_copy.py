"""`headway data copy`: a store into another one."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headway.cli.verb import Session, verb
from headway.nouns.errors import UnknownName

if TYPE_CHECKING:
    from headway.observe.database import Database

__all__ = ["copy"]


@verb("copy", "headway data copy . postgresql://headway@db.example.com/headway", "headway data copy store backup.db")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
def copy(session: Session, source: str, target: str) -> None:
    """Copy a whole store into another, SQLite or PostgreSQL, row for row.

    FROM and TO are a project folder (its SQLite file), an SQLite file, a postgresql:// URL, or the word `store`: what
    headway.toml or HEADWAY_STORE_URL names. A copy that was stopped goes on where it was; at the end both are compared.
    """
    from headway.observe.copy_store import copy as write

    with ExitStack() as stack:
        ends = [_open(session, place, create=place is target) for place in (source, target)]
        for each in ends:
            stack.callback(each.close)
        for each in ends:
            stack.enter_context(each.lock("project"))  # no loop settles or learns meanwhile
        progress = stack.enter_context(session.out.progress())
        found = write(*ends, progress=progress)
    names = [each.name for each in ends]
    session.out.document({"from": names[0], "to": names[1], **asdict(found)})
    session.out.table(("table", "rows"), [(name, f"{count:,}") for name, count in found.rows.items()], right=("rows",))
    session.out.line(f"{names[1]} holds what {names[0]} holds: {found.written:,} rows written, every hash the same.")
    if ends[1].engine == "postgresql":
        session.out.line("To use it, set `url` under [store] in headway.toml, or HEADWAY_STORE_URL.")
    session.next("headway doctor")


def _open(session: Session, place: str, *, create: bool) -> Database:
    from headway.observe.database import open_database
    from headway.settings import load

    if place == "store":
        store = load(session.folder).store
        if not store.embedded:
            return open_database(store.url, store.durability)
        place = str(session.folder)
    if place.startswith(("postgresql://", "postgres://")):
        return open_database(place)
    path = Path(place)
    file = path / ".headway" / "headway.db" if path.is_dir() else path
    if create:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    elif not file.is_file():
        raise UnknownName(
            f"There is no store at {place!r}.",
            code="no_store",
            hint="Name a project folder, an SQLite file or a postgresql:// URL.",
        )
    return open_database(file)
