"""An environment with exactly what a page says that it needs: links to some of the installed packages, and Headway."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_NEEDS = re.compile(r"^Needs: (?:nothing but Headway|`pip install (?P<packages>[^`]+)`)")
PROGRAMS = {"headway": "headway.cli.main", "pip": "pip._internal.cli.main"}


def needed(page: str) -> tuple[str, ...] | None:
    """What the first line of a page names, as pip takes it; None where the page does not say."""
    lines = [line for line in page.splitlines() if line.strip()]
    match = _NEEDS.match(lines[1]) if len(lines) > 1 else None
    if match is None:
        return None
    return tuple(sorted((match["packages"] or "headway").replace('"', "").split()))


def environment(folder: Path, packages: Iterable[str], source: Path) -> Path:
    """The folder of programs of a new environment with these packages, what they require, and nothing else."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    names = closure([*PROGRAMS, *packages])
    (site,) = folder.glob("lib/python*/site-packages")
    for path in links(names):
        if path.endswith(".pth"):  # of an editable install: the source below is the one that is tested
            continue
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).symlink_to(installed()["headway"].locate_file(path))
    (site / "source.pth").write_text(f"{source / 'src'}\n", "utf-8")
    for name, module in PROGRAMS.items():
        program = folder / "bin" / name
        program.write_text(
            f"#!{folder / 'bin' / 'python'}\nimport sys\nfrom {module} import main\n\nsys.exit(main())\n", "utf-8"
        )
        program.chmod(0o755)
    return folder / "bin"


@cache
def installed() -> dict[str, Distribution]:
    """Every distribution of this environment by its name."""
    return {canonicalize_name(found.metadata["Name"]): found for found in distributions()}


def closure(packages: Iterable[str]) -> set[str]:
    """The distributions that pip would install for these; what is not installed here is an error."""
    names: set[str] = set()
    done: set[tuple[str, frozenset[str]]] = set()
    todo = [Requirement(package) for package in packages]
    while todo:
        requirement = todo.pop()
        name = canonicalize_name(requirement.name)
        if (name, frozenset(requirement.extras)) in done:
            continue
        done.add((name, frozenset(requirement.extras)))
        names.add(name)
        for line in installed()[name].requires or ():
            needs = Requirement(line)
            if any(not needs.marker or needs.marker.evaluate({"extra": extra}) for extra in {"", *requirement.extras}):
                todo.append(needs)
    return names


def links(names: set[str]) -> list[str]:
    """The fewest files and folders of site-packages that hold these distributions and no other."""
    owners = _owners()
    out: list[str] = []

    def walk(folder: str) -> None:
        for path in sorted(_children()[folder]):
            if owners[path] <= names:
                out.append(path)
            elif owners[path] & names:
                walk(path)

    walk("")
    return out


@cache
def _owners() -> dict[str, set[str]]:
    owners: dict[str, set[str]] = defaultdict(set)
    for name, found in installed().items():
        for file, *_ in csv.reader((found.read_text("RECORD") or "").splitlines()):
            if file.startswith(("..", "/")):
                continue
            parts = file.split("/")
            for depth in range(1, len(parts) + 1):
                owners["/".join(parts[:depth])].add(name)
    return owners


@cache
def _children() -> dict[str, set[str]]:
    children: dict[str, set[str]] = defaultdict(set)
    for path in _owners():
        children[path.rpartition("/")[0]].add(path)
    return children
