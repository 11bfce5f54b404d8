"""Details: named bytes that a kit stores with a decision. They are deleted, copied and exported with it.

    store.keep_details(decision.id, "proxy", "answer", b"…")      # replaces an existing detail of that name
    query.details(decision.id, "proxy")                           # {"answer": b"…"}

At most 1 MiB per detail and 16 MiB per decision. Not covered: redaction. Bytes are stored unchanged, so a kit that
stores users' text redacts it first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from headway.nouns import Detail, errors, ids
from headway.observe.database import Connection, Database, chunks, placeholders

LARGEST = 1 << 20  # bytes of one detail
MOST = 16 << 20  # bytes of all details of one decision: an export writes them on one line
_LONGEST_NAME = 200
_INSERT = "INSERT INTO details (decision, kit, name, data) VALUES (?, ?, ?, ?) ON CONFLICT (decision, kit, name) DO "

Prepared = Sequence[tuple[bytes, str, str, bytes]]  # rows of the table


def checked(decision: str, details: Iterable[Detail]) -> Prepared:
    """The rows for one decision, or InvalidInput if a name or size is not allowed."""
    raw = ids.raw(decision)
    rows = [(raw, detail.kit, detail.name, bytes(detail.data)) for detail in details]
    for _, kit, name, data in rows:
        for field, value in (("kit", kit), ("name", name)):
            if not 0 < len(value) <= _LONGEST_NAME or "\0" in value:
                raise errors.InvalidInput(
                    f"The {field} of a detail is {value[:60]!r}, expected 1 to {_LONGEST_NAME} characters without NUL.",
                    code="bad_detail",
                )
        if len(data) > LARGEST:
            raise _too_large(f"The detail {name!r} of the kit {kit!r} has {len(data):,} bytes", LARGEST)
    total = sum(len(data) for *_, data in rows)
    if total > MOST:
        raise _too_large(f"The details of {decision} have {total:,} bytes together", MOST)
    return rows


def insert(connection: Connection, rows: Prepared) -> None:
    """Add details to decisions that this transaction stores; existing details stay."""
    if rows:
        connection.executemany(f"{_INSERT}NOTHING", rows)


def put(connection: Connection, decision: str, rows: Prepared) -> None:
    """Add or replace details of one stored decision."""
    raw = ids.raw(decision)
    if connection.execute("SELECT 1 FROM decisions WHERE id = ?", (raw,)).fetchone() is None:
        raise errors.UnknownName(
            f"There is no decision {decision!r}.",
            code="unknown_decision",
            hint="Use the id that `decide` returned.",
        )
    connection.executemany(f"{_INSERT}UPDATE SET data = excluded.data", rows)
    total = connection.execute("SELECT SUM(LENGTH(data)) FROM details WHERE decision = ?", (raw,)).fetchone()[0] or 0
    if total > MOST:
        raise _too_large(f"The details of {decision} would have {total:,} bytes together", MOST)


def change(connection: Connection, decision: str, kit: str, name: str, how: Callable[[bytes | None], bytes]) -> None:
    """Replace a detail by what `how` makes of it (None: there is none), with no other writer in between."""
    row = connection.execute(
        "SELECT data FROM details WHERE decision = ? AND kit = ? AND name = ?", (ids.raw(decision), kit, name)
    ).fetchone()
    data = how(None if row is None else bytes(row[0]))
    put(connection, decision, checked(decision, [Detail(kit, name, data)]))


def read(database: Database, decision: str, kit: str | None = None) -> list[Detail]:
    """The details of one decision, sorted by kit and name; `kit` selects those of one kit."""
    where, values = ("", ()) if kit is None else (" AND kit = ?", (kit,))
    rows = database.query(
        f"SELECT kit, name, data FROM details WHERE decision = ?{where} ORDER BY kit, name",
        (ids.raw(decision), *values),
    )
    return [Detail(kit, name, bytes(data)) for kit, name, data in rows]


def read_many(database: Database, decisions: Sequence[str], kit: str) -> dict[str, dict[str, bytes]]:
    """By decision: what one kit stored with it. Those without details are not included."""
    found: dict[str, dict[str, bytes]] = {}
    for chunk in chunks([ids.raw(decision) for decision in decisions]):
        sql = f"SELECT decision, name, data FROM details WHERE decision IN ({placeholders(chunk)}) AND kit = ?"
        for decision, name, data in database.query(sql, (*chunk, kit)):
            found.setdefault(ids.text(bytes(decision)), {})[name] = bytes(data)
    return found


def _too_large(what: str, limit: int) -> errors.InvalidInput:
    return errors.InvalidInput(
        f"{what}; the limit is {limit:,}.",
        code="detail_too_large",
        hint="Store the data in a file, and only its name or hash as a detail.",
    )
