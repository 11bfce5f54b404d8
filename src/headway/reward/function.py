"""Custom rewards: `reward = "package.module:function"` names a Python function (decision, signals) → float.

Headway searches the project's directory first, then sys.path. It runs the bytes that it hashed, so the reward version
changes exactly when the function's file changes.
Not covered: changes in modules that this file imports. Put a version number into the file itself.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from headway.files import read_regular
from headway.nouns import Decision, errors

_only_read: ContextVar[bool] = ContextVar("only_read", default=False)
_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*\Z")


@dataclass(frozen=True, slots=True)
class Function:
    """A loaded reward function and the hash of the file it came from."""

    name: str
    source_hash: str
    call: Callable[[Decision | None, Mapping[str, float]], Any]

    def __call__(self, decision: Decision | None, signals: Mapping[str, float]) -> float:
        about = "" if decision is None else f" for decision {decision.id!r}"
        try:
            result = self.call(decision, dict(signals))
        except Exception as error:
            raise errors.InvalidInput(
                f"The reward function {self.name!r} raised {type(error).__name__}: {error}{about}.",
                code="reward_function_failed",
                hint="It is called with (decision, signals) and must return a finite number.",
            ) from error
        if isinstance(result, (str, bytes)) or not hasattr(result, "__float__"):
            raise self._wrong(result, about)
        number = float(result)
        if not math.isfinite(number):
            raise self._wrong(number, about)
        return number

    def _wrong(self, result: object, about: str) -> errors.InvalidInput:
        return errors.InvalidInput(
            f"The reward function {self.name!r} returned {result!r}{about}, expected a finite number.",
            code="reward_function_failed",
            hint="Return a float. To leave a decision without a reward, make a missing signal required.",
        )


def is_name(text: str) -> bool:
    """Whether the text has the form `package.module:function`."""
    return _NAME.match(text) is not None


def load(name: str, directory: Path | None = None) -> Function:
    """The function that `package.module:function` names."""
    if not is_name(name):
        raise errors.InvalidSettings(
            f"{name!r} does not name a reward function.",
            code="bad_reward_function",
            hint='Write "module:function" or "package.module:function".',
        )
    module_name, _, function_name = name.partition(":")
    if _only_read.get():
        return _read(name, directory)
    try:
        module, source = _module(module_name, directory)
    except errors.InvalidSettings:
        raise
    except Exception as error:
        raise errors.InvalidSettings(
            f"The reward function {name!r} could not be loaded: {type(error).__name__}: {error}.",
            code="bad_reward_function",
            hint=f"Headway searched {str(directory) if directory else 'sys.path'!r}"
            f"{' and on sys.path' if directory else ''}; `python -c 'import {module_name}'` shows the full error.",
        ) from error
    call = getattr(module, function_name, None)
    if not callable(call):
        names = [
            attribute for attribute, value in vars(module).items() if callable(value) and not attribute.startswith("_")
        ]
        raise errors.InvalidSettings(
            f"The module {module_name!r} has no function {function_name!r}.",
            code="bad_reward_function",
            hint=errors.did_you_mean(function_name, names) or f"Define it in {module.__file__!r}.",
        )
    return Function(name, hashlib.sha256(source).hexdigest(), call)


@contextmanager
def not_executed() -> Iterator[None]:
    """Inside, `load` reads the source of a function without running any of it; calling the function is an error."""
    before = _only_read.set(True)
    try:
        yield
    finally:
        _only_read.reset(before)


def _read(name: str, directory: Path | None) -> Function:
    module_name, _, function_name = name.partition(":")
    path = Path(*module_name.split("."))
    folders = [*([directory] if directory else []), *map(Path, sys.path)]
    files = [folder / file for folder in folders for file in (path.with_suffix(".py"), path / "__init__.py")]
    source = next((read_regular(file) for file in files if file.is_file()), None)
    if source is None:
        raise errors.InvalidSettings(
            f"The reward function {name!r} could not be loaded: there is no file for {module_name!r}.",
            code="bad_reward_function",
            hint=f"Headway searched {str(directory)!r} and on sys.path.",
        )
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise errors.InvalidSettings(
            f"The reward function {name!r} could not be loaded: {str(error) or type(error).__name__}.",
            code="bad_reward_function",
        ) from error

    names = {getattr(node, field, None) for node in nodes for field in ("name", "asname", "id")}
    if function_name not in names:
        raise errors.InvalidSettings(
            f"The module {module_name!r} has no function {function_name!r}.",
            code="bad_reward_function",
            hint=errors.did_you_mean(function_name, sorted(name for name in names if name)),
        )

    def call(*_: object) -> float:
        raise errors.InvalidSettings(f"The reward function {name!r} is not run here.", code="bad_reward_function")

    return Function(name, hashlib.sha256(source).hexdigest(), call)


def _module(name: str, directory: Path | None) -> tuple[ModuleType, bytes]:
    if directory is not None and "." not in name:
        file = directory / f"{name}.py"
        if file.is_file():
            return _from_file(file, directory)
    with _importable(directory):
        importlib.invalidate_caches()
        module = importlib.import_module(name)
    path = getattr(module, "__file__", None)
    if path is None or not path.endswith(".py"):
        raise errors.InvalidSettings(
            f"The module {name!r} has no source file, so a reward from it cannot be versioned.",
            code="bad_reward_function",
            hint="Put the function into a .py file.",
        )
    if directory is not None:
        local = directory.joinpath(*name.split("."))
        files = [file for file in (local.with_suffix(".py"), local / "__init__.py") if file.is_file()]
        if files and not any(Path(path).samefile(file) for file in files):
            raise errors.InvalidSettings(
                f"Another module {name!r} is already loaded, from {path!r}.",
                code="bad_reward_function",
                hint=f"Rename {str(files[0])!r}; two modules of the same name cannot be imported in one process.",
            )
    return module, read_regular(Path(path))


def _from_file(file: Path, directory: Path) -> tuple[ModuleType, bytes]:
    # Not by importlib: bytecode caches compare time and size, and two projects may both have a `rewards.py`.
    source = read_regular(file)
    module = ModuleType(f"headway_reward_{hashlib.sha256(bytes(file) + source).hexdigest()[:16]}")
    module.__file__ = str(file)
    with _importable(directory):
        sys.modules[module.__name__] = module  # dataclasses and typing look up their module
        try:
            exec(compile(source, str(file), "exec"), module.__dict__)
        except BaseException:
            del sys.modules[module.__name__]
            raise
    return module, source


@contextmanager
def _importable(directory: Path | None) -> Iterator[None]:
    if directory is None:
        yield
        return
    entry = str(directory)
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        if entry in sys.path:
            sys.path.remove(entry)
