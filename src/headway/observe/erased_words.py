"""The words of rows that a deletion removes, for what was derived from them.

    before = words_of_rows(connection, matched, documents(connection))    # words that a document repeats
    gone = remaining(connection, before)                                  # after the deletion: that no row has any more
    rewrite(connection, clean)                                            # each document, by a function

The documents are the texts of evidence and of the ledger, the results of jobs, and who asked for either.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from headway.observe.database import Connection
from headway.observe.erase import MatchedRows
from headway.observe.rows import dumps, loads

QUOTED = re.compile(r'text contains "([^"]*)"')  # a word of a text, in the region of an evidence
_EDGE = ".,;:!?\"'()[]{}<>"  # not part of a word at its ends
_LONGEST = 20_000  # characters of a text that are read
_WORD, _TOKEN = re.compile(r"\S+"), re.compile(r"\w+")
_PLAIN = ("why", "who", "key")  # the other documents are JSON
_DOCUMENTS = (
    ("evidence", "id", "body"),
    ("ledger", "seq", "why"),
    ("ledger", "seq", "who"),
    ("jobs", "seq", "key"),
    ("ledger", "seq", "detail"),
    ("jobs", "seq", "result"),
)


@dataclass(frozen=True, slots=True)
class Gone:
    """Words of rows, by where the rows had them."""

    raters: set[str] = field(default_factory=set)
    named: set[str] = field(default_factory=set)  # candidates, roles, signals, episodes, labels, state keys and values
    quoted: set[str] = field(default_factory=set)  # words of texts, in lower case


def words_of_text(text: str) -> set[str]:
    """The words of a text, in lower case, without signs at their ends."""
    return {word.strip(_EDGE) or word for word in _WORD.findall(text[:_LONGEST].lower())}


def strings(value: Any) -> Iterator[str]:
    """All strings in plain values, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for inner in (*value, *value.values()) if isinstance(value, Mapping) else value:
            yield from strings(inner)


def documents(connection: Connection) -> Iterator[str]:
    """The texts of the documents."""
    for _, _, column, body, _ in _rows(connection):
        yield from (body,) if column in _PLAIN else strings(loads(body))


def rewrite(connection: Connection, clean: Callable[[Any, str], Any]) -> None:
    """Replace every document that `clean` changes; it is given a text or plain values, and the column."""
    for table, key, column, body, identifier in _rows(connection):
        value = body if column in _PLAIN else loads(body)
        changed = clean(value, column)
        if changed != value:
            text = changed if column in _PLAIN else dumps(changed)
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE {key} = ?", (text, identifier))


def words_of_rows(connection: Connection, matched: MatchedRows, texts: Iterable[str]) -> Gone:
    """The words of the rows that go, as far as one of the texts has them."""
    said = "\n".join(texts)
    tokens = frozenset(_TOKEN.findall(said))
    quoted = {word.lower() for word in QUOTED.findall(said)}
    gone = Gone()

    def add(words: Iterable[Any], into: set[str]) -> None:
        for word in words:
            if isinstance(word, str) and word and tokens.issuperset(_TOKEN.findall(word)):
                into.update({word} if word in said or repr(word)[1:-1] in said else ())

    rows, values = f"FROM decisions WHERE {matched.where}", matched.values
    for kind, name in connection.execute("SELECT kind, name FROM names WHERE kind IN ('rater', 'role', 'signal')"):
        add([name], gone.raters if kind == "rater" else gone.named)
    labels = f"SELECT DISTINCT label FROM signals WHERE rater_id = ? OR subject IN (SELECT id {rows})"
    add((row[0] for row in connection.execute(labels, (matched.rater_id, *values))), gone.named)
    episodes = f"SELECT name FROM episodes WHERE id IN (SELECT episode {rows})"
    add((row[0] for row in connection.execute(episodes, values)), gone.named)
    sets = f"SELECT body FROM candidate_sets WHERE id IN (SELECT candidate_set_id {rows})"
    for sql in (sets, f"SELECT DISTINCT state {rows}"):
        for (body,) in connection.execute(sql, values):
            add(strings(loads(body)), gone.named)
    if quoted:
        for (body,) in connection.execute(f"SELECT text {rows}", values):
            gone.quoted.update(quoted & words_of_text(body))
    return gone


def remaining(connection: Connection, before: Gone) -> Gone:
    """Those of the words that no row has any more."""

    def found(word: str, *places: str, inside: str = "") -> bool:
        pattern = "%" + re.sub(r"[!%_]", r"!\g<0>", inside) + "%"
        return any(
            connection.execute(f"SELECT 1 FROM {place} LIMIT 1", (pattern if "LIKE" in place else word,)).fetchone()
            for place in places
        )

    named = (
        "names WHERE kind IN ('role', 'signal') AND name = ?", "episodes WHERE name = ?", "signals WHERE label = ?",
        "candidate_sets WHERE body LIKE ? ESCAPE '!'", "decisions WHERE state LIKE ? ESCAPE '!'",
    )  # fmt: skip
    return Gone(
        {name for name in before.raters if not found(name, "names WHERE kind = 'rater' AND name = ?")},
        {word for word in before.named if not found(word, *named, inside=dumps(word))},
        {
            word
            for word in before.quoted
            if not found(word, "decisions WHERE LOWER(text) LIKE ? ESCAPE '!'", inside=word)
        },
    )


def _rows(connection: Connection) -> list[tuple[str, str, str, str, Any]]:
    """Table, key, column, text and key of every document."""
    return [
        (table, key, column, body, identifier)
        for table, key, column in _DOCUMENTS
        for identifier, body in connection.execute(
            f"SELECT {key}, {column} FROM {table} WHERE {column} <> ''"
        ).fetchall()
    ]
