"""How large each room and kit is, and how much of it others have to know.

    make size                          the tables
    python scripts/size.py --json      the same as JSON, to compare two commits
    python scripts/size.py --no-trace  without running a decision

Counted without importing anything: lines, statements, imports inside functions, names that other rooms and kits
import, import cycles (imports inside functions and for types included), and modules with one importer. The trace is one
decision of a bandit, through `Project.decide` and through HTTP: the functions of Headway that ran, and their files.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import json
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "headway"
SMALL = 60  # lines; a module below it with one importer usually belongs to that importer


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", action="store_true", help="print JSON")
    options.add_argument("--no-trace", action="store_true", help="run no decision")
    chosen = options.parse_args()
    report = sizes()
    if not chosen.no_trace:
        report["trace"] = {"Project.decide": traced(_decide), "POST /v1/decisions": traced(_post)}
    print(json.dumps(report, indent=2) if chosen.json else _table(report))
    return 0


def sizes() -> dict[str, Any]:
    """The figures that need no running code."""
    modules = {_name(path): path for path in sorted(SOURCE.rglob("*.py"))}
    trees = {name: ast.parse(path.read_text("utf-8")) for name, path in modules.items()}
    places: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(("files", "lines", "statements", "lazy"), 0))
    for name, path in modules.items():
        place = places[_place(name)]
        place["files"] += 1
        place["lines"] += len(path.read_text("utf-8").splitlines())
        place["statements"] += sum(isinstance(node, ast.stmt) for node in ast.walk(trees[name]))
        place["lazy"] += sum(1 for _ in _lazy(trees[name]))
    edges, used = _edges(trees)
    importers = Counter(target for targets in edges.values() for target in targets)
    single = [name for name in modules if importers[name] == 1 and not modules[name].name.startswith("__")]
    public = Counter(_place(target) for target in used)
    cyclic = _cyclic(edges)
    return {
        "rooms": {name: {**place, "public": public[name]} for name, place in sorted(places.items())},
        "core": _sum(places, kits=False),
        "kits": _sum(places, kits=True),
        "names_kits_use": len({name for name, users in used.items() if any(map(_is_kit, users)) and not _is_kit(name)}),
        "modules_in_cycles": len(cyclic),
        "single_importer": len(single),
        "single_importer_small": sum(len(modules[name].read_text("utf-8").splitlines()) < SMALL for name in single),
    }


def _name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _place(module: str) -> str:
    """The room or kit of a module."""
    parts = module.split(".")
    return "/".join(parts[1:3] if parts[1:2] == ["kits"] else parts[1:2]) or "headway"


def _is_kit(module: str) -> bool:
    return module.startswith("headway.kits.")


def _sum(places: Mapping[str, Mapping[str, int]], *, kits: bool) -> dict[str, int]:
    chosen = [place for name, place in places.items() if name.startswith("kits") == kits]
    return {key: sum(place[key] for place in chosen) for key in ("files", "lines", "statements", "lazy")}


def _lazy(tree: ast.Module) -> Iterator[ast.AST]:
    """Imports inside functions."""
    for function in ast.walk(tree):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from (node for node in ast.walk(function) if isinstance(node, (ast.Import, ast.ImportFrom)))


def _edges(trees: Mapping[str, ast.Module]) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """module → modules that it imports; and "module.name" → modules of other rooms and kits that use it.

    A name counts once, by the module that defines it, whether a door gives it or a module does: of a module that is
    imported whole, every attribute that is used counts (`errors.InvalidInput`).
    """
    edges: dict[str, set[str]] = {name: set() for name in trees}
    used: dict[str, set[str]] = defaultdict(set)
    homes = _homes(trees)
    for name, tree in trees.items():
        whole: dict[str, str] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                edges[name] |= {alias.name for alias in node.names if alias.name in trees}
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module in trees:
                for alias in node.names:
                    inside = f"{node.module}.{alias.name}"
                    edges[name].add(inside if inside in trees else node.module)
                    home = homes.get(inside, inside)
                    if _place(node.module) == _place(name):
                        continue
                    if home in trees:
                        whole[alias.asname or alias.name] = home
                    else:
                        used[home].add(name)
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in whole:
                used[f"{whole[node.value.id]}.{node.attr}"].add(name)
        edges[name].discard(name)
    return edges, used


def _homes(trees: Mapping[str, ast.Module]) -> dict[str, str]:
    """Each name of a door → where it is defined."""
    given = {
        f"{name}.{alias.asname or alias.name}": f"{node.module}.{alias.name}"
        for name, tree in trees.items()
        if any(other.startswith(f"{name}.") for other in trees)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in trees
        for alias in node.names
    }
    for name, home in given.items():
        seen = {name}
        while home in given and home not in seen:
            seen.add(home)
            home = given[home]
        given[name] = home
    return given


def _cyclic(edges: Mapping[str, set[str]]) -> set[str]:
    """The modules that import themselves through others."""
    left = {name: set(targets) for name, targets in edges.items()}
    inside: set[str] = set()
    while True:
        try:
            TopologicalSorter(left).prepare()
        except CycleError as error:
            cycle = set(error.args[1])
            inside |= cycle
            one = min(cycle)  # fold the cycle into one module and look for the next
            merged = set().union(*(left.pop(name) for name in cycle)) - cycle
            left = {name: {one if target in cycle else target for target in left[name]} for name in left}
            left[one] = merged
        else:
            return inside


def traced(act: Callable[[Path], Callable[[], object]]) -> dict[str, int]:
    """The functions of Headway that run in one call, and their files. Generators and comprehensions are not counted.

    Of three calls the one with the fewest: a call may also look whether the ledger is newer, five times a second.
    """
    seen: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(SOURCE)) and not code.co_name.startswith("<"):
            seen.add((code.co_filename, code.co_qualname))

    with tempfile.TemporaryDirectory() as folder:
        call = act(Path(folder))
        call()  # what is loaded on first use is loaded now
        rounds: list[set[tuple[str, str]]] = []
        for _ in range(3):
            seen.clear()
            sys.setprofile(note)
            try:
                call()
            finally:
                sys.setprofile(None)
            rounds.append(set(seen))
    fewest = min(rounds, key=len)
    return {"functions": len(fewest), "files": len({file for file, _ in fewest})}


def _decide(folder: Path) -> Callable[[], object]:
    project = _learned(folder)
    return lambda: project.decide("route", "Prove that sqrt(2) is irrational", ["small", "large"])


def _post(folder: Path) -> Callable[[], object]:
    """The application's own code for one request, without the server below it."""
    from headway.serve.app import application

    project = _learned(folder)
    guard = application(project, project.settings.server, log_requests=False)
    loop = asyncio.new_event_loop()

    def call() -> None:
        wire = _Wire(b'{"task": "route", "text": "Prove that sqrt(2) is irrational"}')
        loop.run_until_complete(guard(_Scope(), wire))
        assert wire.status == 201, wire.status

    return call


class _Headers(dict[str, str]):
    def items(self) -> list[tuple[str, str]]:  # type: ignore[override]
        return list(super().items())

    def keys(self) -> list[str]:  # type: ignore[override]
        return list(self)


class _Scope:
    method, path, query_string, client, http_version = "POST", "/v1/decisions", "", "127.0.0.1:50000", "1.1"
    headers = _Headers({"host": "127.0.0.1", "content-type": "application/json"})


class _Wire:
    """One request, and what was answered."""

    def __init__(self, body: bytes) -> None:
        self.body, self.status = body, 0

    async def __call__(self) -> bytes:
        return self.body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self.body

    async def client_disconnect(self) -> None:
        await asyncio.Event().wait()

    def response_bytes(self, status: int, _headers: object, _body: bytes) -> None:
        self.status = status


def _learned(folder: Path) -> Any:
    """A project whose current policy is a bandit."""
    from headway.project import Project

    (folder / "headway.toml").write_text('[tasks.route]\nactions = ["small", "large"]\ngate = "off"\n', "utf-8")
    project = Project(folder, environ={})
    for number in range(200):
        choice = project.decide("route", f"question {number}", ["small", "large"])
        project.signal(choice.id, reward=float(choice.action == "large"))
    project.promote(project.learn("route"), task="route")
    return project


def _table(report: Mapping[str, Any]) -> str:
    keys = ("files", "lines", "statements", "lazy", "public")
    lines = [f"{'':24}" + "".join(f"{key:>12}" for key in keys)]
    rows = {**report["rooms"], "core": report["core"], "kits": report["kits"]}
    lines += [f"{name:24}" + "".join(f"{row.get(key, ''):>12}" for key in keys) for name, row in rows.items()]
    small = f"{report['single_importer_small']} under {SMALL} lines"
    lines += [
        "",
        f"lines in all               {report['core']['lines'] + report['kits']['lines']:,}",
        f"core names that kits use   {report['names_kits_use']}",
        f"modules in import cycles   {report['modules_in_cycles']}",
        f"modules with one importer  {report['single_importer']}, {small}",
    ]
    traces = report.get("trace", {}).items()
    lines += [f"{name:26} {trace['functions']} functions in {trace['files']} files" for name, trace in traces]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
