"""The source tree's rooms, layers, passports and imports, read without importing anything."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "headway"
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def layers() -> list[set[str]]:
    """The layers contract from top to bottom; each is a set of neighbours."""
    contract = next(
        contract for contract in PYPROJECT["tool"]["importlinter"]["contracts"] if contract["type"] == "layers"
    )
    return [set(re.findall(r"\w+", layer)) for layer in contract["layers"]]


def below(room: str) -> set[str]:
    """The rooms that a room may import."""
    lower: set[str] = set()
    for layer in reversed(layers()):
        if room in layer:
            return lower
        lower |= layer
    raise LookupError(f"{room!r} is in no layer")


def rooms() -> list[str]:
    """All rooms: the folders of src/headway."""
    return sorted(path.name for path in SOURCE.iterdir() if path.is_dir() and any(path.glob("*.py")))


def files(where: Path = SOURCE) -> list[Path]:
    return sorted(where.rglob("*.py"))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), str(path))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a file, walked once for all tests."""
    return tuple(ast.walk(tree(path)))


def imported(module: Iterable[ast.AST]) -> Iterator[str]:
    """Dotted names that the nodes of a file import, including imports for types only."""
    for node in module:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            # `from headway import observe` imports the room observe, `from headway.kits import models` the kit models.
            inside = node.module in ("headway", "headway.kits")
            yield from ([f"{node.module}.{alias.name}" for alias in node.names] if inside else [node.module])


def kits() -> list[str]:
    """All kits: the folders of src/headway/kits."""
    return sorted(path.name for path in (SOURCE / "kits").iterdir() if (path / "__init__.py").is_file())


def passport(room: str) -> list[str]:
    """The lines of the docstring of a room ("observe") or a kit ("kits/offline")."""
    return (ast.get_docstring(tree(SOURCE / room / "__init__.py")) or "").splitlines()


def may_import(room: str) -> set[str]:
    """The rooms that a passport names."""
    return set(re.findall(r"\w+", "\n".join(passport(room)).rpartition("May import:")[2])) - {"nothing"}


def kits_imported(kit: str) -> dict[str, str]:
    """The kits that a kit imports, each with one location."""
    places: dict[str, str] = {}
    for path in files(SOURCE / "kits" / kit):
        for module in imported(nodes(path)):
            parts = module.split(".")
            if parts[:2] == ["headway", "kits"] and len(parts) > 2 and parts[2] != kit:
                places.setdefault(parts[2], f"{path.relative_to(ROOT)} imports {module}")
    return places
