"""The text of the files: their size, unfinished work, and names of machines."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.architecture.rooms import PYPROJECT, ROOT, SOURCE, files

LINES_AT_MOST = 400
# Written in pieces, so that the search does not match this file.
LEFT_OVERS = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK|NotImplemented" + r"Error)\b")
FOREIGN = re.compile(r"(?<![\w.-])/wor" + r"k/|\.\./shar" + r"ed|/op" + r"t/|file" + r"://|/ro" + r"ot/")
CONFTEST = ROOT / "tests" / "conftest.py"  # the only file that may name the folder of real data
_PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;@]+)")


def tracked() -> list[Path]:
    """Text files of the repository: tracked or not ignored by git; without git, all files in its folders."""
    done = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode == 0:
        paths = [ROOT / name for name in done.stdout.splitlines()]
    else:
        paths = [path for folder in ("src", "tests", "docs", "benchmarks") for path in (ROOT / folder).rglob("*.*")]
    kinds = {".py", ".md", ".toml", ".txt", ".json", ".yml", ".ts", ".svelte", ".css", ".html", ""}
    return [path for path in paths if path.is_file() and path.suffix in kinds and "__pycache__" not in path.parts]


@pytest.mark.parametrize("path", files(), ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_a_source_file_can_be_read_in_one_sitting(path: Path) -> None:
    lines = len(path.read_text("utf-8").splitlines())
    assert lines <= LINES_AT_MOST, f"{path.relative_to(ROOT)} has {lines} lines; split it by noun"


def test_no_file_has_a_todo() -> None:
    places = [
        f"{path.relative_to(ROOT)}:{at}: {line.strip()}"
        for path in tracked()
        if path.suffix in {".py", ".ts", ".svelte"}
        for at, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if LEFT_OVERS.search(line)
    ]
    assert not places, "\n".join(places)


def test_no_file_names_the_machine_it_was_written_on() -> None:
    places = [
        f"{path.relative_to(ROOT)}:{at}: {line.strip()}"
        for path in tracked()
        if path != CONFTEST
        for at, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if FOREIGN.search(line)
    ]
    assert not places, "\n".join(places)


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    matched = [_PIN.fullmatch(line) for line in lines if line and not line.startswith("#")]
    assert all(matched), "constraints.txt contains only name==version lines, no paths or addresses"
    return {normal(match["name"]): match["version"] for match in matched if match}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_ci_installs_only_pinned_packages() -> None:
    project = PYPROJECT["project"]
    asked = [*project["dependencies"], *PYPROJECT["build-system"]["requires"]]
    for extra in ("text", "parquet", "plot", "dev"):
        asked += project["optional-dependencies"][extra]
    for path in sorted((ROOT / "requirements").glob("*.txt")):
        lines = path.read_text("utf-8").splitlines()
        asked += [line for line in lines if line.strip() and not line.startswith("#")]
    names = {normal(re.split(r"[\s<>=!~\[;]", line)[0]) for line in asked}
    assert not names - pins().keys(), "missing from constraints.txt"


def test_every_extra_is_part_of_all_except_dev() -> None:
    extras = PYPROJECT["project"]["optional-dependencies"]
    (everything,) = extras["all"]
    named = set(everything.removeprefix("headway[").removesuffix("]").split(","))
    assert named == extras.keys() - {"all", "dev"}


def test_every_extra_contains_only_imported_packages() -> None:
    source = "\n".join(path.read_text("utf-8") for path in files())
    loaded_by_gymnasium = {"box2d", "pygame"}
    for extra, requirements in PYPROJECT["project"]["optional-dependencies"].items():
        names = {normal(re.split(r"[\s<>=!~\[;]", line)[0]) for line in requirements} - {"headway"}
        for name in set() if extra == "dev" else names - loaded_by_gymnasium:
            module = f"{name.partition('-')[0]}|{name.replace('-', '_')}"
            assert re.search(rf"\b(import|from) ({module})\b", source), (
                f"[{extra}] brings {name}, which nothing imports"
            )
