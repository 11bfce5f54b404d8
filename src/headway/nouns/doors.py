"""The door of a room or kit: the names that others may import from it, each loaded on first use.

    if TYPE_CHECKING:
        from headway.observe.store import Store as Store
    else:
        __all__, __getattr__ = door(__name__)

The imports under TYPE_CHECKING are the only list: type checkers follow them, and `door` reads them from the source of
the package. Using a name imports the module that defines it, and no other.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


def door(package: str) -> tuple[list[str], Callable[[str], Any]]:
    """`__all__` and `__getattr__` of a package."""
    listed = _listed(package)

    def load(name: str) -> Any:
        if name not in listed:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = listed[name]
        found = import_module(f"{package}.{name}") if home == package else getattr(import_module(home), name)
        setattr(sys.modules[package], name, found)  # found without this function from now on
        return found

    return sorted(listed), load


def _listed(package: str) -> dict[str, str]:
    """Each name and the module that defines it; a module that is listed itself comes from the package."""
    spec = sys.modules[package].__spec__
    source = spec.loader.get_source(package) if spec is not None else None  # type: ignore[union-attr]
    if source is None:
        raise ImportError(
            f"{package} is installed without its source, which lists its names: install headway from a wheel"
        )
    block = source.partition("\nif TYPE_CHECKING:\n")[2].partition("\nelse:\n")[0]
    listed: dict[str, str] = {}
    for statement in block.replace("(", "").replace(")", "").split("    from ")[1:]:
        home, _, names = statement.partition(" import ")
        listed |= {name.split(" as ")[0].strip(): home for name in names.split(",") if name.strip()}
    return listed
