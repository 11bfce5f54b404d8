"""Installed packages for tests: a module and its installer metadata."""

from __future__ import annotations

from pathlib import Path

__all__ = ["install"]

PASSPORT = """
from headway.nouns.kit import Command, Family, Kit
KIT = Kit(name={name!r}, summary="A kit of the tests.", {fields})
"""


def install(site: Path, name: str, source: str = "", *, fields: str = "", **modules: str) -> None:
    """A package that offers the kit `name`; `source` is its module, or a passport with these fields."""
    folder = site / f"{name}_kit"
    folder.mkdir()
    (folder / "__init__.py").write_text(source or PASSPORT.format(name=name, fields=fields), "utf-8")
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(text, "utf-8")
    metadata = site / f"{name}_kit-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-kit\nVersion: 1.0\n", "utf-8")
    (metadata / "entry_points.txt").write_text(f"[headway.kits]\n{name} = {name}_kit:KIT\n", "utf-8")
