"""`headway data copy`: copy a store into another one."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli import Column, Output, RecordTable, Session, renders, verb
from headway.nouns import errors

if TYPE_CHECKING:
    from headway.kits.data.copy_store import Copied
    from headway.observe import Database


@verb("copy", "headway data copy . postgresql://headway@db.example.com/headway", "headway data copy store backup.db")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
def copy(session: Session, source: str, target: str) -> None:
    """Copy a whole store into another, SQLite or PostgreSQL, row for row.

    FROM and TO are a project folder (its SQLite file), an SQLite file, a postgresql:// URL, or the word `store`: the
    store that headway.toml or HEADWAY_STORE_URL names. An interrupted copy continues where it stopped; at the end both
    stores are compared.
    """
    from headway.kits.data.copy_store import check_apart, copy as write

    with ExitStack() as stack:
        stores = []
        for place, create in ((source, False), (target, True)):
            stores.append(_open(session, place, create=create))
            stack.callback(stores[-1].close)
        check_apart(*stores)
        for store in stores:
            stack.enter_context(store.lock("project"))  # no loop settles or learns at the same time
        copied = write(*stores, progress=session.out.progress)
    first, second = stores
    session.show(CopiedStore(source=first.name, target=second.name, engine=second.engine, copied=copied))
    session.next("headway doctor")


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedStore:
    """A store that was copied into another."""

    source: str
    target: str
    engine: str  # of the target
    copied: Copied

    def document(self) -> dict[str, Any]:
        return {"from": self.source, "to": self.target, **asdict(self.copied)}


_ROWS = RecordTable[tuple[str, int]](Column.text("table", lambda row: row[0]), Column.value("rows", lambda row: row[1]))


@renders(CopiedStore)
def _copied(out: Output, store: CopiedStore) -> None:
    _ROWS.print(out, store.copied.rows.items())
    out.line(f"{store.target} is a copy of {store.source}: {store.copied.written:,} rows written, all hashes match.")
    if store.engine == "postgresql":
        out.line("To use it, set `url` under [store] in headway.toml, or HEADWAY_STORE_URL.")


def _open(session: Session, place: str, *, create: bool) -> Database:
    from headway.observe import open_database
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
        raise errors.UnknownName(
            f"There is no store at {place!r}.",
            code="no_store",
            hint="Name a project folder, an SQLite file or a postgresql:// URL.",
        )
    return open_database(file)
