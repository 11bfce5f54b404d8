"""The reference is complete: every command, error code and public name is documented."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import get_args

import headway
from headway.kits.models import outgoing
from headway.project import Project
from tests.cli.help_pages import REFERENCE, reference

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def headings(page: str) -> list[str]:
    text = re.sub(r"^```.*?^```", "", (DOCS / "reference" / page).read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    return [match[1] for match in re.finditer(r"^#+ (.+)$", text, re.MULTILINE)]


def strings(node: ast.expr | None) -> Iterator[str]:
    """The possible texts of an expression, if they are literals."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from strings(node.body)
        yield from strings(node.orelse)


def codes(source: str) -> Iterator[str]:
    """Every error code in a source text: `code=…` in calls and defaults, "code": … in documents."""
    if "code" not in source and "_damaged" not in source:
        return  # most files; parsing them takes seconds
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            for keyword in node.keywords:
                if keyword.arg == "code":
                    yield from strings(keyword.value)
            if isinstance(node.func, ast.Name) and node.func.id == "_damaged":
                for node_argument in node.args[2:]:
                    yield from strings(node_argument)
        elif isinstance(node, ast.FunctionDef):
            named = [*zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)]
            if node.args.defaults:
                arguments = [*node.args.posonlyargs, *node.args.args]
                named += zip(arguments[-len(node.args.defaults) :], node.args.defaults, strict=True)
            for argument, default in named:
                if argument.arg == "code":
                    yield from strings(default)
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "code":
                    yield from strings(value)


@cache
def raised() -> dict[str, str]:
    places: dict[str, str] = {}
    for path in sorted((ROOT / "src" / "headway").rglob("*.py")):
        for code in codes(path.read_text("utf-8")):
            places.setdefault(code, path.relative_to(ROOT).as_posix())
    for kind in get_args(outgoing.Kind):
        places.setdefault(f"upstream_{kind}", "src/headway/kits/models/outgoing.py")
    return places


def test_the_page_of_commands_is_generated_from_the_commands() -> None:
    assert REFERENCE.read_text("utf-8") == reference(), "run python -m tests.cli.help_pages"


def test_every_error_code_has_a_heading() -> None:
    known = set(headings("errors.md"))
    missing = {code: path for code, path in raised().items() if code not in known}
    assert not missing, f"docs/reference/errors.md has no heading for {missing}"


def test_every_heading_of_the_errors_page_is_a_code_or_a_group() -> None:
    names = headings("errors.md")
    assert len(names) == len(set(names))
    gone = [name for name in names if re.fullmatch(r"[a-z_]+", name) and name not in raised()]
    assert not gone, f"no code of the source is called {gone}"


def test_codes_are_found_in_every_form() -> None:
    source = (
        'raise A("x", code="one")\n'
        'raise A("x", code="two" if late else "three")\n'
        'body = {"code": "four"}\n'
        'def f(x, code="five", *, d=1): ...\n'
        'def g(*, code="six"): ...\n'
        '_damaged(x, "what", "seven")\n'
    )
    assert sorted(codes(source)) == ["five", "four", "one", "seven", "six", "three", "two"]


def test_every_public_name_is_on_the_page_about_python() -> None:
    text = (DOCS / "reference" / "python.md").read_text("utf-8")
    names = [*headway.__all__, *(name for name in dir(Project) if not name.startswith("_"))]
    assert not [name for name in names if not re.search(rf"\b{name}\b", text)]


def test_the_index_links_to_every_page() -> None:
    index = (DOCS / "index.md").read_text("utf-8")
    pages = [path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md") if path != DOCS / "index.md"]
    assert not [page for page in pages if f"]({page})" not in index]
