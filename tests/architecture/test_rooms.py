"""Each room is in its layer of ARCHITECTURE.md and imports only what its passport allows."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.rooms import (
    ROOT,
    SOURCE,
    below,
    files,
    imported,
    kits,
    layers,
    may_import,
    nodes,
    passport,
    rooms,
)

ENVIRONMENT = {"environ", "environb", "getenv", "getenvb"}


PASSPORTS = [*rooms(), *(f"kits/{kit}" for kit in kits())]


@pytest.mark.parametrize("room", PASSPORTS)
def test_a_room_or_kit_has_a_passport(room: str) -> None:
    lines, name = passport(room), room.removeprefix("kits/")
    assert lines, f"{room}/__init__.py has no docstring"
    assert re.match(rf"{name} — \w", lines[0]), f"the first line is {lines[0]!r}, expected '{name} — what it does'"
    body = "\n".join(lines[1:])
    for word in ("Takes:", "Gives:", "Never:"):
        assert word in body, f"{room}'s passport does not say {word!r}"
    assert re.search(r"\nMay import: [a-z,\s]+\.\Z", body), f"the last line is {lines[-1]!r}"


@pytest.mark.parametrize("room", PASSPORTS)
def test_a_room_or_kit_imports_only_what_its_passport_names(room: str) -> None:
    named, layer = may_import(room), room.partition("/")[0]
    assert named <= below(layer), f"the passport names {sorted(named - below(layer))}, which are not below {layer}"
    known = set().union(*layers())
    for path in files(SOURCE / room):
        for module in imported(nodes(path)):
            top, _, rest = module.partition(".")
            if top != "headway":
                continue
            target = rest.partition(".")[0]
            where = f"{path.relative_to(ROOT)} imports {module}"
            assert target in known, f"{where}: a room cannot import the root of the package"
            assert target == layer or target in named, f"{where}, and {room}'s passport does not name it"


def test_nouns_import_the_standard_library_only() -> None:
    for path in files(SOURCE / "nouns"):
        module = ast.parse(path.read_text("utf-8"))  # not the cached tree: it is changed here
        for node in ast.walk(module):
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                node.body = []  # imports for the type checker are never executed
        foreign = {
            name
            for name in imported(ast.walk(module))
            if name.partition(".")[0] not in sys.stdlib_module_names and not name.startswith("headway.")
        }
        assert not foreign, f"{path.relative_to(ROOT)} imports {sorted(foreign)}"


def test_only_settings_reads_the_environment() -> None:
    for path in files():
        if path.is_relative_to(SOURCE / "settings") or path == SOURCE / "settings.py":
            continue
        for node in nodes(path):
            used = isinstance(node, ast.Attribute) and node.attr in ENVIRONMENT and ast.unparse(node.value) == "os"
            used = used or (
                isinstance(node, ast.ImportFrom)
                and node.module == "os"
                and any(alias.name in ENVIRONMENT for alias in node.names)
            )
            assert not used, f"{path.relative_to(ROOT)}:{node.lineno} reads the environment; settings does that"


def test_the_map_names_every_room_and_kit() -> None:
    rows = [line for line in (ROOT / "ARCHITECTURE.md").read_text("utf-8").splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`(\w+)/?`", row.split("|")[1])}
    there = {*rooms(), *(path.stem for path in SOURCE.glob("[a-z]*.py"))}
    there |= set(kits())
    assert there <= named, f"ARCHITECTURE.md does not name {sorted(there - named)}"


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=folder,
        env={"PATH": "", "PYTHONPATH": str(folder / "src")},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def test_the_import_contracts_are_kept() -> None:
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package with empty rooms, which breaks no contract."""
    root = tmp_path_factory.mktemp("rooms")
    shutil.copy(ROOT / "pyproject.toml", root)
    package = root / "src" / "headway"
    for folder in (package, *(package / name for name in rooms())):
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text("", "utf-8")
    assert lint_imports(root).returncode == 0
    return root


@pytest.mark.parametrize(
    ("path", "line", "broken"),
    [
        ("nouns/stray.py", "import headway.observe", "Each room imports only rooms below it"),
        ("utils.py", "", "Each room imports only rooms below it"),
        ("prove/stray.py", "import torch", "Training and cluster packages"),
        ("prove/stray.py", "import headway.learn", "Each room imports only rooms below it"),
        ("observe/stray.py", "import granian", "Web packages stay in serve"),
        ("kits/stray.py", "import granian", "Web packages stay in serve"),
        ("kits/stray.py", "import click", "Web packages stay in serve, the terminal's in cli"),
        ("learn/stray.py", "import torch", "Training and cluster packages"),
        ("cli/stray.py", "import headway.kits", "The core imports no kit"),
        ("prove/stray.py", "import headway.testing", "Each room imports only rooms below it"),
    ],
)
def test_a_forbidden_import_breaks_the_contracts(empty: Path, path: str, line: str, broken: str) -> None:
    stray = empty / "src" / "headway" / path
    stray.write_text(line, "utf-8")
    try:
        done = lint_imports(empty)
    finally:
        stray.unlink()
    assert done.returncode == 1
    assert re.search(rf"{broken}.* BROKEN", done.stdout), done.stdout + done.stderr
