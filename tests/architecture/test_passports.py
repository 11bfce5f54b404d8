"""What a passport says that its room or kit never does, compared with what its files import and call."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

import pytest

from tests.architecture.rooms import ROOT, SOURCE, files, kits, nodes, passport, rooms

_NUMBERS = {"numpy", "scipy", "statistics"}
_SQL = {"sqlite3", "psycopg"}
_SOCKETS = {"socket", "ssl", "http.client", "httpx", "urllib.request", "asyncio.streams"}
_READS = {"pathlib", "open", "os.open", "os.fdopen", "shutil", "tempfile", "headway.files"}
_WRITES = {"write_text", "write_bytes", "mkdir", "touch", "rename", "unlink", "tempfile", "shutil", "write_whole"}
_CLOCKS = {"time.time", "time.time_ns", "time.monotonic", "time.perf_counter", "datetime.now", "datetime.utcnow"}

# A phrase of `Never:` → modules that are then not imported, and functions that are then not called.
FORBIDDEN = {
    "does maths": _NUMBERS,
    "loads numpy,": {"numpy"},
    "reads a file": _READS,
    "writes a file": _WRITES,
    "makes a file": _WRITES,
    "uses SQL": _SQL | {"execute", "SQL"},
    "reads a store": _SQL | {"headway.observe.store", "headway.observe.database", "headway.observe.query"},
    "writes a row": _SQL | {"headway.observe"},
    "opens a socket": _SOCKETS,
    "HTTP or a terminal": {"httpx", "http.client", "granian", "click", "rich", "print"},
    "reads a clock": _CLOCKS,
    "computes a gradient": {"torch"},
    "trains": {"headway.learn", "torch"},
    "imports the trainer": {"headway.learn"},
    "estimates": {"headway.prove"},
    "promotes": {"headway.promote"},
    "reads a reward": {"headway.reward"},
    "computes a reward": {"headway.reward"},
    "reads configuration": {"headway.settings", "tomllib"},
    "opens a project": {"headway.project"},
    "holds a language model": {"torch", "transformers"},
    "needs a project": {"headway.project"},
}
PASSPORTS = [*rooms(), *(f"kits/{kit}" for kit in kits())]


def never(place: str) -> str:
    """What a passport says after `Never:`, on one line."""
    return " ".join("\n".join(passport(place)).rpartition("Never:")[2].partition("May import:")[0].split())


def used(module: Sequence[ast.AST]) -> Iterator[tuple[int, str]]:
    """(line, name) of what a file imports, imports for types excepted, and of the functions that it calls."""
    for_types = {
        id(inner)
        for node in module
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in module:
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            called = ast.unparse(node.func)
            yield node.lineno, called
            if isinstance(node.func, ast.Attribute):
                yield node.lineno, node.func.attr


def breaks(name: str, forbidden: set[str]) -> bool:
    return name in forbidden or any(name.startswith(f"{module}.") for module in forbidden)


@pytest.mark.parametrize("place", PASSPORTS)
def test_a_room_does_not_do_what_its_passport_rules_out(place: str) -> None:
    said = never(place)
    phrases = {phrase: names for phrase, names in FORBIDDEN.items() if re.search(rf"\b{phrase}", said)}
    for path in files(SOURCE / place):
        for line, name in used(nodes(path)):
            for names in phrases.values():
                where = f"{path.relative_to(ROOT)}:{line} uses {name}"
                assert not breaks(name, names), f"{where}; the passport of {place} says: Never: {said}"


@pytest.mark.parametrize(
    ("source", "phrase"),
    [
        ("import numpy.linalg", "does maths"),
        ("from headway.files import read_regular", "reads a file"),
        ("path.write_text('')", "writes a file"),
        ("import sqlite3", "uses SQL"),
        ("def late():\n    from http import client", "opens a socket"),
        ("import time\nnow = time.time()", "reads a clock"),
        ("from headway import learn", "trains"),
    ],
)
def test_what_a_passport_rules_out_is_noticed(source: str, phrase: str) -> None:
    found = [name for _, name in used([*ast.walk(ast.parse(source))]) if breaks(name, FORBIDDEN[phrase])]
    assert found
    assert any(phrase in never(place) for place in PASSPORTS), "no passport says this any more"
