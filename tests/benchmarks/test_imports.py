"""Benchmarks, examples and scripts import only names that exist: many of them are too slow to run in every test run."""

from __future__ import annotations

import ast
import importlib
import importlib.util
from pathlib import Path

import pytest

from tests.conftest import ROOT

FOLDERS = ("benchmarks", "examples", "scripts")


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_name_that_is_imported_from_headway_exists(folder: str) -> None:
    missing = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "headway":
                names = (name.name for name in node.names)
                missing += [f"{path.name}:{node.lineno} {name}" for name in names if not _there(node, name)]
    assert not missing


def _there(node: ast.ImportFrom, name: str) -> bool:
    module = importlib.import_module(node.module or "")
    if hasattr(module, name):
        return True
    return importlib.util.find_spec(f"{node.module}.{name}") is not None if hasattr(module, "__path__") else False


def test_there_are_benchmarks() -> None:
    assert sum(1 for _ in Path(ROOT / "benchmarks").rglob("*.py")) > 40
