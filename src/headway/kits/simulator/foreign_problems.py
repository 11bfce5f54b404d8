"""Reads problem files of other projects: the shapes of HumanEval and MBPP, plain or gzip.

    imported = read_foreign(Path("HumanEval.jsonl.gz"))      # the shape is recognised
    imported.problems, imported.skipped                      # what can be judged; id → why not

Their tests are code. They become one `check(candidate)`, which the judge runs apart from the solution; it evaluates
their assertions itself, so that no file hides one that failed. There are no wrong solutions, and difficulty is a guess:
one level for every four lines of the reference.

Not covered: tests that need more from the solution than the one function (MBPP has some that use its classes).
"""

from __future__ import annotations

import ast
import gzip
import json
import os
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from headway.files import open_regular
from headway.kits.simulator.problem import CodeProblem, sealed
from headway.nouns import errors

Shape = Literal["human-eval", "mbpp"]
SHAPES: tuple[Shape, ...] = ("human-eval", "mbpp")
LARGEST = 64 << 20  # bytes, unpacked
_LINES_PER_LEVEL = 4
_UNSAFE = re.compile(r"[^A-Za-z0-9_./-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignProblems:
    """The problems of a file, and the ones that cannot be used, each with the reason."""

    shape: Shape
    problems: list[CodeProblem]
    skipped: dict[str, str]


def read_foreign(path: Path, shape: Shape | None = None) -> ForeignProblems:
    """The problems of a file; a line that does not fit the shape is refused with its number and field."""
    problems: list[CodeProblem] = []
    skipped: dict[str, str] = {}
    for number, line in enumerate(_content(path).split("\n"), 1):
        if not line.strip():
            continue
        where = f"{path.name}:{number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _bad(f"{where}: it is not JSON: {error}.") from error
        if not isinstance(row, dict):
            raise _bad(f"{where}: it is not an object.")
        shape = shape or _shape(row, where)
        problem = _human_eval(row, where) if shape == "human-eval" else _mbpp(row, where)
        if isinstance(problem, CodeProblem):
            problems.append(problem)
        else:
            skipped[str(row["task_id"])] = problem
    if shape is None or not problems:
        raise _bad(f"{path.name} has no problem that can be used ({len(skipped)} skipped).")
    if len({problem.id for problem in problems}) != len(problems):
        raise _bad(f"{path.name} has a task_id twice.")
    return ForeignProblems(shape=shape, problems=problems, skipped=skipped)


def _content(path: Path) -> str:
    try:
        with os.fdopen(open_regular(path, follow=True), "rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            content = (gzip.GzipFile(fileobj=file) if packed else file).read(LARGEST + 1)
        if len(content) > LARGEST:
            raise _bad(f"{path.name} has more than {LARGEST >> 20} MiB.")
        return content.decode("utf-8-sig")
    except (OSError, EOFError, zlib.error) as error:
        raise _bad(f"{str(path)!r} cannot be read: {getattr(error, 'strerror', None) or error}.") from error
    except UnicodeDecodeError as error:
        raise _bad(f"{path.name} is not UTF-8.") from error


def _shape(row: Mapping[str, Any], where: str) -> Shape:
    if "canonical_solution" in row:
        return "human-eval"
    if "test_list" in row:
        return "mbpp"
    raise _bad(f"{where}: it has neither 'canonical_solution' (HumanEval) nor 'test_list' (MBPP).")


def _human_eval(row: Mapping[str, Any], where: str) -> CodeProblem | str:
    prompt, solution = _text(row, "prompt", where), _text(row, "canonical_solution", where)
    entry, tests = _text(row, "entry_point", where), _text(row, "test", where)
    name = _UNSAFE.sub("-", str(_text(row, "task_id", where)))
    tests = _self_contained(tests, prompt + solution, entry)
    return _problem(name, "human-eval", prompt, entry, prompt + solution, tests, where)


def _self_contained(tests: str, reference: str, entry: str) -> str:
    """Tests that bring the other functions of the reference that they call, and know the candidate by its own name."""
    names = _names(tests)
    helpers = [
        ast.get_source_segment(reference, node) or ""
        for node in getattr(_tree(reference), "body", [])
        if isinstance(node, ast.FunctionDef) and node.name in names and node.name != entry
    ]
    imports = [line for line in reference.splitlines() if line.startswith(("import ", "from "))] if helpers else []
    tests = "\n".join([*imports, *helpers, tests])
    if entry in names:
        tests += "\n\n_check = check\n\n\n"
        tests += f"def check(candidate):\n    global {entry}\n    {entry} = candidate\n    _check(candidate)\n"
    return tests


def _mbpp(row: Mapping[str, Any], where: str) -> CodeProblem | str:
    text = _text(row, "prompt" if "prompt" in row else "text", where)
    code = _text(row, "code", where)
    asserts = _texts(row, "test_list", where)
    if not isinstance(row.get("task_id"), int | str):
        raise _bad(f"{where}: the field 'task_id' is missing.")
    setup = [*_texts(row, "test_imports", where), str(row.get("test_setup_code") or "")]
    defined = _defined(code)
    used = {name for line in asserts for name in _names(line)}
    called = [name for line in asserts for name in _called(line) if name in defined]
    if not called:
        return "its tests call no function of the solution"
    others = sorted(used & defined - {called[0]})
    if others:
        return f"its tests use {others[0]!r} of the solution beside {called[0]!r}"
    entry = called[0]
    body = [f"{entry} = candidate", *asserts]
    tests = "\n".join([*filter(None, setup), "def check(candidate):", *(f"    {line}" for line in body)]) + "\n"
    statement = f"{text.strip()}\nThe function is called `{entry}`. For example:\n{asserts[0]}"
    return _problem(f"MBPP/{row['task_id']}", "mbpp", statement, entry, code.replace("\r\n", "\n"), tests, where)


def _problem(
    name: str, source: Shape, statement: str, entry: str, reference: str, tests: str, where: str
) -> CodeProblem | str:
    try:
        ast.parse(reference)
        if not any(isinstance(node, ast.Assert | ast.Raise) for node in ast.walk(ast.parse(tests))):
            return "its tests assert nothing"
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"its code cannot be parsed: {error}"
    if not entry.isidentifier() or not name:
        raise _bad(f"{where}: the field 'entry_point' is not the name of a function: {entry[:40]!r}.")
    lines = sum(bool(line.strip()) for line in reference.removeprefix(statement).splitlines())
    return sealed(
        CodeProblem(
            id=name,
            family=source,
            difficulty=min(5, 1 + lines // _LINES_PER_LEVEL),
            statement=statement,
            entry=entry,
            reference=reference,
            wrong=[],
            visible=[],
            hidden=[],
            tests=tests,
            source=source,
        )
    )


def _text(row: Mapping[str, Any], name: str, where: str) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        raise _bad(f"{where}: the field {name!r} is not a text: {value!r:.60}.")
    return value


def _texts(row: Mapping[str, Any], name: str, where: str) -> list[str]:
    value = row.get(name, [])
    if not isinstance(value, list) or not all(isinstance(line, str) for line in value):
        raise _bad(f"{where}: the field {name!r} is not a list of texts.")
    return [line.strip() for line in value]


def _tree(source: str) -> ast.AST:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last one: nested too deeply
        return ast.Module([], [])


def _defined(source: str) -> set[str]:
    """The names of functions and classes at the top of a source."""
    tree = _tree(source)
    kinds = (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)
    return {node.name for node in getattr(tree, "body", []) if isinstance(node, kinds)}


def _names(source: str) -> set[str]:
    return {node.id for node in ast.walk(_tree(source)) if isinstance(node, ast.Name)}


def _called(source: str) -> list[str]:
    calls = [node for node in ast.walk(_tree(source)) if isinstance(node, ast.Call)]
    return [call.func.id for call in calls if isinstance(call.func, ast.Name)]


def _bad(what: str) -> errors.InvalidInput:
    return errors.InvalidInput(
        what, code="bad_problem", hint="Expected a JSONL file in the shape of HumanEval or MBPP, plain or gzip."
    )
