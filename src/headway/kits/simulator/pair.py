"""What runs inside a sandbox: a solution that answers calls, and the tests that ask. Standard library only.

`solution` and `tests` run in two processes (headway.kits.sandbox.pair_runners). Values travel in a typed plain
encoding: JSON, with {"t": type, "v": value} for what JSON lacks. No object of the solution ever reaches the tests, so
it cannot redefine equality, and the solution learns arguments only, never what is expected.

Of a returned value, only its plain content travels: None, booleans, numbers, texts, bytes, lists, tuples, sets, dicts
(also of subclasses), ranges and iterators. Arguments are copies: a test cannot see that a solution changed one.
"""

import ast
import bisect  # noqa: F401  (what solutions often import: it is ready in every fork)
import builtins
import cmath  # noqa: F401
import collections
import copy  # noqa: F401
import datetime  # noqa: F401
import functools  # noqa: F401
import heapq  # noqa: F401
import itertools
import json
import math
import operator  # noqa: F401
import os
import random
import re  # noqa: F401
import statistics  # noqa: F401
import string  # noqa: F401
import sys
import typing  # noqa: F401
from collections.abc import Callable, ItemsView, Iterator, KeysView, ValuesView
from typing import Any

DEEPEST = 100  # nesting of a value
LONGEST = 16 << 20  # bytes of one message
MOST_ITEMS = 1_000_000  # taken from an iterator
WHY = 500  # characters of a reason


class NotPlain(Exception):
    """A value that cannot travel."""


# -- values


def encode(value: Any, depth: int = 0) -> Any:
    """A value as JSON; NotPlain for anything that is not plain data."""
    if depth > DEEPEST:
        raise NotPlain(f"it is nested more than {DEEPEST} deep")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, _SCALARS):
        return _encoded_scalar(value)
    if isinstance(value, dict):
        items = [[encode(key, depth + 1), encode(item, depth + 1)] for key, item in value.items()]
        return {"t": "dict", "v": items}
    if isinstance(value, list | range | collections.deque | KeysView | ValuesView | ItemsView):
        return [encode(item, depth + 1) for item in value]
    if isinstance(value, tuple | set | frozenset):
        name = next(name for name, kind in _GROUPS.items() if isinstance(value, kind))
        return {"t": name, "v": [encode(item, depth + 1) for item in value]}
    if isinstance(value, Iterator):
        items = [encode(item, depth + 1) for item in itertools.islice(value, MOST_ITEMS)]
        return {"t": "iterator", "v": items}
    raise NotPlain(f"a value of the type {type(value).__name__} is not plain data")


_GROUPS = {"tuple": tuple, "set": set, "frozenset": frozenset}
_SCALARS = (int, float, str, complex, bytes, bytearray)


def _encoded_scalar(value: Any) -> Any:
    if isinstance(value, int):
        number = int(value)
        return number if -(1 << 53) < number < 1 << 53 else {"t": "int", "v": hex(number)}
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"t": "float", "v": repr(float(value))}
    if isinstance(value, str):
        return str(value)
    if isinstance(value, complex):
        return {"t": "complex", "v": [repr(value.real), repr(value.imag)]}
    return {"t": "bytes", "v": bytes(value).hex()}


_PLAIN: "dict[str, Callable[[Any], Any]]" = {
    "int": lambda text: int(text, 16),
    "float": float,
    "complex": lambda parts: complex(float(parts[0]), float(parts[1])),
    "bytes": bytes.fromhex,
}
_FILLED: "dict[str, Callable[[Any], Any]]" = {
    "tuple": tuple, "set": set, "frozenset": frozenset, "iterator": iter,
}  # fmt: skip


def decode(value: Any, depth: int = 0) -> Any:
    """The value again; NotPlain if it was not made by `encode`."""
    if depth > DEEPEST + 1:
        raise NotPlain(f"it is nested more than {DEEPEST} deep")
    if isinstance(value, list):
        return [decode(item, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    try:
        name, content = value["t"], value["v"]
        if name in _PLAIN:
            return _PLAIN[name](content)
        if name == "dict":
            return {decode(key, depth + 1): decode(item, depth + 1) for key, item in content}
        return _FILLED[name](decode(item, depth + 1) for item in content)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise NotPlain("it is not in the encoding of values") from error


# -- messages


def send(end: int, message: Any) -> None:
    body = json.dumps(message).encode()
    left = memoryview(len(body).to_bytes(4, "big") + body)
    while left:
        left = left[os.write(end, left) :]


def take(end: int, count: int) -> bytes:
    """This many bytes; fewer if the other side has ended."""
    content = bytearray()
    while len(content) < count and (chunk := os.read(end, min(count - len(content), 1 << 20))):
        content += chunk
    return bytes(content)


def receive(end: int) -> Any:
    """The next message; None if the other side has ended, NotPlain if it is not one of ours."""
    size = take(end, 4)
    if len(size) < 4:
        return None
    count = int.from_bytes(size, "big")
    if count > LONGEST:
        raise NotPlain(f"it has more than {LONGEST:,} bytes")
    body = take(end, count)
    if len(body) < count:
        return None
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise NotPlain("it is not in the encoding of values") from error


def document(end: int) -> Any:
    """The input of a program."""
    content = bytearray()
    while chunk := os.read(end, 1 << 20):
        content += chunk
    os.close(end)
    return json.loads(content)


def words(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"[:WHY]
    except BaseException:  # noqa: BLE001  (the text of an exception is the solution's code)
        return type(error).__name__[:WHY]


# -- the solution


def solution(given: int, questions: int, answers: int) -> None:
    """Answer calls of the function until nobody asks any more."""
    random.seed(0)
    sys.setrecursionlimit(3000)
    asked = document(given)
    space: dict[str, Any] = {"__name__": "solution"}
    broken = ""
    try:
        exec(compile(asked["source"], "solution.py", "exec"), space)
        function = space[asked["entry"]]
    except KeyError:
        broken = f"it does not define {asked['entry']!r}"
    except BaseException as error:  # noqa: BLE001  (SystemExit too)
        broken = words(error)
    while (question := receive(questions)) is not None:
        send(answers, {"broken": broken} if broken else answer(function, question))


def answer(function: Callable[..., Any], question: Any) -> Any:
    try:
        return {"value": encode(function(*decode(question["args"]), **decode(question["kwargs"])))}
    except BaseException as error:  # noqa: BLE001
        return {"raised": [type(error).__name__[:100], words(error)]}


# -- the tests


class SolutionEnded(BaseException):
    """The solution cannot answer any more; test code must not catch this."""


class RemoteFunction:
    """Calls the function of the solution in its own process."""

    def __init__(self, questions: int, answers: int) -> None:
        self._questions, self._answers = questions, answers
        self.calls, self.ended = 0, ""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        try:
            return self._asked(args, kwargs)
        except SolutionEnded as error:
            self.ended = str(error)
            raise

    def _asked(self, args: "tuple[Any, ...]", kwargs: "dict[str, Any]") -> Any:
        try:
            send(self._questions, {"args": encode(list(args)), "kwargs": encode(kwargs)})
            reply = receive(self._answers)
        except BrokenPipeError:
            reply = None
        if reply is None:
            raise SolutionEnded("it ended before it answered")
        if not isinstance(reply, dict):
            raise NotPlain("its answer is not in the encoding of values")
        if "broken" in reply:
            raise SolutionEnded(f"it cannot be loaded: {reply['broken']}"[:WHY])
        if "raised" in reply:
            raise exception(reply["raised"])
        try:
            return decode(reply.get("value"))
        except RecursionError as error:
            raise NotPlain("it is nested too deeply") from error


def exception(told: Any) -> Exception:
    """An exception of the solution, as a built-in one of the same name."""
    name, text = (told[0], told[1]) if isinstance(told, list) and len(told) == 2 else ("", "")
    kind = getattr(builtins, name, None) if isinstance(name, str) else None
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            return kind(str(text)[:WHY])
        except TypeError:  # one that needs more arguments
            pass
    return RuntimeError(str(text)[:WHY])


def tests(given: int, questions: int, answers: int, verdict: int) -> None:
    """Ask, compare, and write the verdict."""
    random.seed(0)
    asked = document(given)
    caller = RemoteFunction(questions, answers)
    found = checked(caller, asked) if asked["tests"] else compared(caller, asked)
    os.write(verdict, json.dumps(found).encode())


def compared(caller: RemoteFunction, asked: Any) -> "dict[str, Any]":
    """Tests that are data: every case counts."""
    passed, why, ended = 0, "", ""
    failed: list[int] = []
    for number, case in enumerate(asked["cases"]):
        said = ended
        if not ended:
            try:
                value = caller(*case["args"])
                said = "" if same(value, case["returns"]) else f"gave {shown(value)}, expected {shown(case['returns'])}"
            except SolutionEnded as error:
                said = ended = str(error)
            except Exception as error:  # noqa: BLE001
                said = words(error)
        passed += not said
        if said:
            failed.append(number)
        if said and not why:
            why = f"{asked['entry']}({', '.join(map(shown, case['args']))}): {said}"[:WHY]
    return {"passed": passed, "total": len(asked["cases"]), "why": why, "broken": "", "failed": failed[:1000]}


class Assertions(ast.NodeTransformer):
    """Assertions of a file, evaluated by us: the file cannot hide one that failed."""

    def __init__(self) -> None:
        self.failed = ""

    def visit_Assert(self, node: ast.Assert) -> ast.Expr:
        nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        message = ast.Lambda(args=nothing, body=node.msg or ast.Constant(value=""))
        expect = ast.Name(id="__headway_expect__", ctx=ast.Load())
        return ast.copy_location(ast.Expr(ast.Call(func=expect, args=[node.test, message], keywords=[])), node)

    def expect(self, value: Any, message: "Callable[[], Any]") -> None:
        if value:
            return
        self.failed = "a test failed"
        error = AssertionError(message())
        self.failed = words(error) if str(error) else self.failed
        raise error


def checked(caller: RemoteFunction, asked: Any) -> "dict[str, Any]":
    """Tests that are code: `check(candidate)` returns, no assertion failed, and it has asked the solution something."""
    sys.setrecursionlimit(3000)
    assertions = Assertions()
    space: dict[str, Any] = {"__name__": "tests", "__headway_expect__": assertions.expect}
    try:
        tree = ast.fix_missing_locations(assertions.visit(ast.parse(asked["tests"])))
        exec(compile(tree, "tests.py", "exec"), space)
        check = space["check"]
    except BaseException as error:  # noqa: BLE001
        why = f"the tests of this problem cannot be loaded: {words(error)}"
        return {"passed": 0, "total": 1, "why": why, "broken": why}
    why = ""
    try:
        check(caller)
    except SolutionEnded as error:
        why = str(error)
    except BaseException as error:  # noqa: BLE001
        why = "a test failed" if str(error) == "" else words(error)
    why = why or caller.ended or assertions.failed
    if not why and not caller.calls:
        why = "the tests of this problem never call the solution"
        return {"passed": 0, "total": 1, "why": why, "broken": why}
    return {"passed": int(not why), "total": 1, "why": why, "broken": ""}


def same(value: Any, expected: Any) -> bool:
    """Equality of plain data: numbers within 1e-9, tuples like lists, and True is not 1."""
    if isinstance(value, tuple):
        value = list(value)
    if isinstance(expected, bool) or isinstance(value, bool):
        return value is expected
    if isinstance(expected, int | float) and isinstance(value, int | float):
        return _same_number(value, expected)
    if isinstance(expected, list) and isinstance(value, list):
        return len(value) == len(expected) and all(map(same, value, expected))
    if isinstance(expected, dict) and isinstance(value, dict):
        return value.keys() == expected.keys() and all(same(value[key], expected[key]) for key in expected)
    return type(value) is type(expected) and bool(value == expected)


def _same_number(value: float, expected: float) -> bool:
    if isinstance(expected, int) and isinstance(value, int):
        return value == expected
    try:
        return math.isclose(value, expected, rel_tol=1e-9, abs_tol=1e-9)
    except OverflowError:
        return False


def shown(value: Any) -> str:
    """A value in few characters."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of very many digits
        return f"a very long {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."
