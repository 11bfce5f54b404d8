"""The facade is the only way in: doors and kits import `headway.project`, and one file publishes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import headway.project
from tests.architecture.rooms import ROOT, SOURCE, files, nodes

DOORS = ("cli", "serve", "loop", "kits")
FACADE = "headway.project"
VERBS = {
    "project", "decide", "signal", "learn", "prove", "promote", "publish", "inspect", "data", "alarm",
    "experiment", "guard", "ramp", "weight",
}  # fmt: skip


def imports_of_the_facade(path: Path) -> Iterator[tuple[int, str]]:
    """(line, name) of everything that a file imports of the facade; a module inside it has a dotted name."""
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            if node.module == FACADE:
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif node.module.startswith(f"{FACADE}."):
                yield node.lineno, node.module
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name.startswith(FACADE))


@pytest.mark.parametrize("room", DOORS)
def test_doors_and_kits_import_the_facade_only(room: str) -> None:
    for path in files(SOURCE / room):
        for line, name in imports_of_the_facade(path):
            where = f"{path.relative_to(ROOT)}:{line}"
            assert name in headway.project.__all__, f"{where} imports {name}; headway.project does not offer it"


def test_the_facade_has_one_file_or_folder_per_verb() -> None:
    assert {path.stem for path in (SOURCE / "project").glob("[a-z]*") if path.suffix in ("", ".py")} == VERBS


def test_the_facade_exports_its_public_names() -> None:
    for name in headway.project.__all__:
        assert getattr(headway.project, name) is not None
    assert set(headway.project.__all__) <= set(dir(headway.project))
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = headway.project.nothing_like_it


def test_one_file_makes_headers_bundles_and_ledger_rows() -> None:
    publish = SOURCE / "project" / "publish.py"
    for path in files():
        if path == publish or path.is_relative_to(SOURCE / "promote"):
            continue
        for node in nodes(path):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
                if isinstance(node.func, ast.Attribute) and node.func.attr not in ("append", "add"):
                    continue  # `unparse` takes most of the time
                called = ast.unparse(node.func)
                where = f"{path.relative_to(ROOT)}:{node.lineno} calls {called}; project/publish.py does that"
                assert called not in ("Header", "Entry"), where
                assert not called.endswith(("ledger.append", "registry.add")), where
