"""What the source tree says about itself: rooms, layers, passports and imports, read without importing anything."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "headway"
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def layers() -> list[set[str]]:
    """The layers contract from top to bottom; each is a set of neighbours."""
    contract = next(each for each in PYPROJECT["tool"]["importlinter"]["contracts"] if each["type"] == "layers")
    return [set(re.findall(r"\w+", layer)) for layer in contract["layers"]]


def below(room: str) -> set[str]:
    """The rooms that a room may import at all."""
    found: set[str] = set()
    for layer in reversed(layers()):
        if room in layer:
            return found
        found |= layer
    raise LookupError(f"{room!r} is in no layer")


def rooms() -> list[str]:
    """The rooms that are there: folders of src/headway."""
    return sorted(each.name for each in SOURCE.iterdir() if each.is_dir() and any(each.glob("*.py")))


def files(where: Path = SOURCE) -> list[Path]:
    return sorted(where.rglob("*.py"))


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), str(path))


def imported(module: ast.Module) -> Iterator[str]:
    """Dotted names that a file imports anywhere in it, those for types only included."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            # `from headway import observe` imports the room observe, or a name of the root.
            yield from ([f"headway.{a.name}" for a in node.names] if node.module == "headway" else [node.module])


def passport(room: str) -> list[str]:
    """The lines of the room's docstring."""
    return (ast.get_docstring(tree(SOURCE / room / "__init__.py")) or "").splitlines()
