"""Modules of this kit as one script, for an interpreter that cannot import them: `python -c SOURCE`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_START = """
import sys, types
for name, source in {sources!r}:
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(source, name, "exec"), module.__dict__)
module.main()
"""


def script(*names: str, **more: str) -> str:
    """The source that loads the modules in `more` and the named ones of this kit, and calls `main` of the last.

    Each is registered under its full name, so that their imports of one another work.
    """
    return _START.format(sources=[*more.items(), *((f"{__package__}.{name}", _source(name)) for name in names)])


@cache
def _source(name: str) -> str:
    return Path(__file__).with_name(f"{name}.py").read_text("utf-8")
