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
    source = _source(package)
    if not source:
        raise ImportError(
            f"{package} is installed without its source, which lists its names: install headway from a wheel"
        )
    block = source.partition("\nif TYPE_CHECKING:\n")[2].partition("\nelse:\n")[0]
    listed: dict[str, str] = {}
    for statement in block.replace("(", "").replace(")", "").split("    from ")[1:]:
        home, _, names = statement.partition(" import ")
        listed |= {name.split(" as ")[0].strip(): home for name in names.split(",") if name.strip()}
    return listed


def _source(package: str) -> str:
    """The text of a package's `__init__`, also where a loader that measures coverage wraps the usual one."""
    spec = sys.modules[package].__spec__
    read = getattr(spec and spec.loader, "get_source", None)
    if read is not None:
        return read(package) or ""
    import linecache

    return "".join(linecache.getlines(spec.origin or "")) if spec is not None else ""
