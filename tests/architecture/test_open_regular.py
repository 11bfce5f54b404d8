"""Files are read by one function that opens regular files only: a pipe or a device neither blocks nor fills memory."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "headway"

# Reads that need none of it: how many per file, and why.
ALLOWED = {
    "files/__init__.py": (0, "the function"),
    "cli/glossary.py": (1, "part of the package"),
    "cli/main.py": (1, "part of the package"),
    "serve/page.py": (1, "part of the package"),
    "kits/grow/morph/ways.py": (1, "pictures that this process has just drawn"),
    "serve/metrics.py": (1, "files of our own workers, in a folder that only we can write"),
    "client/process.py": (1, "the log of a server that this process started"),
    "loop/when.py": (1, "/proc"),
    "loop/address.py": (1, "/proc"),
    "kits/sandbox/cgroup.py": (2, "/sys and /proc"),
    "kits/sandbox/launch.py": (2, "/proc"),
    "kits/sandbox/server.py": (1, "a pipe of our own; runs without this package"),
    "kits/sandbox/tree.py": (1, "/proc; runs without this package"),
    "kits/grow/commands/evaluate.py": (1, "mapped into memory after open_regular"),
    "kits/reply/engines/graph.py": (1, "mapped into memory after open_regular"),
}


def _reads(source: str) -> int:
    """How many calls read a file by name, those of files beside the module excepted."""
    return sum(_is_read(node) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))


def _is_read(call: ast.Call) -> bool:
    function = call.func
    if "__file__" in ast.unparse(call) or "files(__package__)" in ast.unparse(call):
        return False
    if ast.unparse(function) in ("load_file", "safe_open", "np.load", "torch.load"):
        return True
    if isinstance(function, ast.Name):
        return function.id == "open" and _mode(call.args[1:2]).startswith("r")
    if not isinstance(function, ast.Attribute):
        return False
    if function.attr in ("read_text", "read_bytes"):
        return True
    of_module = isinstance(function.value, ast.Name) and function.value.id in ("gzip", "tarfile", "io", "lzma", "bz2")
    fileobj = any(keyword.arg == "fileobj" for keyword in call.keywords)
    if function.attr == "open" and of_module:
        return not fileobj
    is_mode = bool(call.args) and set(_mode(call.args[:1])) <= set("rbt+")
    return function.attr == "open" and is_mode


def _mode(arguments: list[ast.expr]) -> str:
    if not arguments:
        return "r"
    return arguments[0].value if isinstance(arguments[0], ast.Constant) and isinstance(arguments[0].value, str) else "?"


def test_every_file_is_read_by_the_one_function() -> None:
    found = Counter({str(path.relative_to(SOURCE)): _reads(path.read_text()) for path in SOURCE.rglob("*.py")})
    allowed = {name: count for name, (count, _) in ALLOWED.items() if count}
    assert {name: count for name, count in found.items() if count} == allowed, (
        "read with headway.files, or say above why a pipe cannot be there"
    )


def test_the_check_finds_reads() -> None:
    for line in (
        "path.read_text()", "path.read_bytes()", "open(path)", "open(path, 'rb')", "path.open('rb')", "gzip.open(path)",
        "tarfile.open(path, 'r:gz')", "load_file(path)", "safe_open(path, framework='numpy')", "torch.load(path)",
    ):  # fmt: skip
        assert _reads(line) == 1, line
    for line in ("open(path, 'w')", "path.open('ab')", "tarfile.open(fileobj=file)", "run.open()", "os.open(p, flags)"):
        assert _reads(line) == 0, line
