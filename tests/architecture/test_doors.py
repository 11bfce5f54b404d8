"""A room has one door: others import what its `__init__` lists, and no module inside it."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from headway.nouns import doors
from tests.architecture.rooms import ROOT, SOURCE, files, kits, rooms

FRONT = {"headway", "headway.__main__", "headway.kits"}  # the package itself: its front, its command, its list of kits
PLACES = [f"headway.{room}" for room in rooms()] + [f"headway.kits.{kit}" for kit in kits()]


@cache
def module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def place_of(module: str) -> str:
    """The room or kit of a module."""
    parts = module.split(".")
    return ".".join(parts[: 3 if parts[1:2] == ["kits"] else 2])


def crossings(path: Path, here: str) -> list[tuple[int, str, str]]:
    """Line, place and name of what a file imports from other rooms and kits; a name inside of one is dotted."""
    inside = {module_of(each) for each in files()}
    found: list[tuple[int, str, str]] = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        targets: list[str] = []
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names if alias.name in inside]
        elif isinstance(node, ast.ImportFrom) and node.module in inside:
            targets = [f"{node.module}.{alias.name}" for alias in node.names]
        for target in targets:
            place = place_of(target)
            if place in PLACES and place not in (here, target):
                found.append((node.lineno, place, target.removeprefix(f"{place}.")))
    return found


@pytest.mark.parametrize("path", files(), ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_a_module_imports_other_rooms_and_kits_through_their_doors(path: Path) -> None:
    module = module_of(path)
    for line, place, name in [] if module in FRONT else crossings(path, place_of(module)):
        where = f"{path.relative_to(ROOT)}:{line}"
        assert "." not in name, f"{where} imports {name!r} from inside {place}; list it in {place}/__init__.py"
        listed = sys.modules[place] if place in sys.modules else importlib.import_module(place)
        assert name in getattr(listed, "__all__", vars(listed)) or name in vars(listed), (
            f"{place} lists no {name!r} ({where})"
        )


@pytest.mark.parametrize("place", PLACES)
def test_every_name_of_a_door_exists_and_is_no_module_by_accident(place: str) -> None:
    package = importlib.import_module(place)
    folder = Path(str(package.__file__)).parent
    for name in getattr(package, "__all__", ()):
        found = getattr(package, name)
        module = (folder / f"{name}.py").exists() or (folder / name / "__init__.py").exists()
        assert isinstance(found, ModuleType) == module, f"{place}.{name} is also the name of a module"
    with pytest.raises(AttributeError, match="has no attribute 'nothing_like_this'"):
        package.nothing_like_this  # noqa: B018


@pytest.mark.parametrize("place", PLACES)
def test_no_name_of_a_door_is_that_of_the_module_that_defines_it(place: str) -> None:
    """Whoever imports such a module first puts it in the place of the function, for everybody after."""
    package = importlib.import_module(place)
    folder = Path(str(package.__file__)).parent
    modules = {path.stem for path in folder.glob("*.py")} | {path.parent.name for path in folder.glob("*/__init__.py")}
    assert not [name for name, home in doors._listed(place).items() if name in modules and home != place]


def test_a_name_loads_no_other_module_of_its_room() -> None:
    code = "import sys; from headway.reward import SAFETY_FLAG; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {name for name in loaded if name.startswith("headway.reward.")} == {"headway.reward.signals"}
