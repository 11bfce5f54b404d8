"""The condition language of rules: `task_complexity_score > 0.8 or primary_failure_count >= 2`.

    condition = parse("text_length > 400 and role in ['coder', 'debugger']", known=["task_complexity_score"])
    condition.holds(situation)          # True, False, or None if a value that decides it is missing

`and`, `or`, `not`, comparisons (chained too), `in`, names, numbers, strings, true/false and lists of them; nothing
else: no calls, no attributes, no arithmetic. Names are the state's own plus `text`, `text_length`, `role` and `step`.
An unknown name is an error when the rule is read, not a silent non-match later. A value that is missing
from one situation, or of a type that cannot be compared, makes its comparison unknown (None); `and`, `or` and `not`
treat that as Kleene's logic does, and a rule whose condition is unknown does not match.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from headway.nouns import Situation, errors

BUILT_IN = ("role", "step", "text", "text_length")
_LONGEST = 2000
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda left, right: operator.contains(right, left),
    ast.NotIn: lambda left, right: not operator.contains(right, left),
}
_Value = Callable[[Situation], object]  # _MISSING if the situation has no such value
_Truth = Callable[[Situation], bool | None]
_MISSING = object()


@dataclass(frozen=True, slots=True)
class Condition:
    """A parsed condition: its text, the names that it reads, and whether it holds."""

    text: str
    names: frozenset[str]
    holds: Callable[[Situation], bool | None]


def parse(text: str, known: Iterable[str] | None = None) -> Condition:
    """Reads a condition. `known` are the task's state names; None accepts any name."""
    if len(text) > _LONGEST:
        raise _refuse(text, f"is longer than {_LONGEST} characters", "Split it into several rules.")
    try:
        tree = ast.parse(text.strip(), mode="eval")
        reader = _Reader(text, None if known is None else frozenset((*known, *BUILT_IN)))
        holds = reader.truth(tree.body)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = getattr(error, "msg", None) or type(error).__name__
        raise _refuse(
            text, f"cannot be read ({reason})", "Write, for example, task_complexity_score > 0.8 or failures >= 2."
        ) from error
    return Condition(text, frozenset(reader.names), holds)


def _refuse(text: str, what: str, hint: str) -> errors.InvalidSettings:
    return errors.InvalidSettings(f"The condition {text!r:.200} {what}.", code="bad_rule", hint=hint)


class _Reader:
    """Turns the syntax tree into closures; unknown syntax is refused."""

    def __init__(self, text: str, known: frozenset[str] | None) -> None:
        self.text, self.known = text, known
        self.names: set[str] = set()

    def truth(self, node: ast.expr) -> _Truth:
        match node:
            case ast.BoolOp(op=ast.And(), values=values):
                return _all([self.truth(each) for each in values])
            case ast.BoolOp(op=ast.Or(), values=values):
                return _any([self.truth(each) for each in values])
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return _not(self.truth(operand))
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                sides = [self.value(left), *(self.value(each) for each in comparators)]
                return _all([_compared(type(op), sides[i], sides[i + 1]) for i, op in enumerate(ops)])
            case ast.Name() | ast.Constant(value=True | False):
                return _truthy(self.value(node))
        raise self._not_allowed(node)

    def value(self, node: ast.expr) -> _Value:
        match node:
            case ast.Name(id="true" | "false" as word):
                return _constant(word == "true")
            case ast.Name(id=name):
                if self.known is not None and name not in self.known:
                    raise errors.InvalidSettings(
                        f"The condition {self.text!r:.200} reads {name!r}, which no situation of this task has.",
                        code="unknown_variable",
                        hint=errors.did_you_mean(name, self.known),
                    )
                self.names.add(name)
                return _read(name)
            case ast.Constant(value=bool() | int() | float() | str() as value):
                return _constant(value)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
                return _constant(-value)
            case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
                return _list([self.value(each) for each in elements])
        raise self._not_allowed(node)

    def _not_allowed(self, node: ast.expr) -> errors.InvalidSettings:
        part = ast.get_source_segment(self.text.strip(), node) or type(node).__name__
        return _refuse(
            self.text,
            f"contains {part!r:.80}, which rules do not support",
            "Use and, or, not, comparisons, in, names, numbers and strings only.",
        )


def _constant(value: object) -> _Value:
    return lambda _: value


def _list(parts: list[_Value]) -> _Value:
    def value(situation: Situation) -> object:
        found = tuple(part(situation) for part in parts)
        return _MISSING if any(each is _MISSING for each in found) else found

    return value


def _read(name: str) -> _Value:
    match name:
        case "text":
            return lambda situation: situation.text
        case "text_length":
            return lambda situation: len(situation.text)
        case "role":
            return lambda situation: situation.role
        case "step":
            return lambda situation: _MISSING if situation.step is None else situation.step
    return lambda situation: situation.state.get(name, _MISSING)


def _truthy(value: _Value) -> _Truth:
    def truth(situation: Situation) -> bool | None:
        found = value(situation)
        return None if found is _MISSING else bool(found)

    return truth


def _compared(kind: type[ast.cmpop], left: _Value, right: _Value) -> _Truth:
    compare = _COMPARE.get(kind)
    if compare is None:
        raise ValueError("`is` is not a comparison here")

    def truth(situation: Situation) -> bool | None:
        one, other = left(situation), right(situation)
        if one is _MISSING or other is _MISSING:
            return None
        try:
            return bool(compare(one, other))
        except TypeError:  # a string against a number
            return None

    return truth


def _all(parts: list[_Truth]) -> _Truth:
    def truth(situation: Situation) -> bool | None:
        found = [part(situation) for part in parts]
        return False if False in found else None if None in found else True

    return truth


def _any(parts: list[_Truth]) -> _Truth:
    def truth(situation: Situation) -> bool | None:
        found = [part(situation) for part in parts]
        return True if True in found else None if None in found else False

    return truth


def _not(part: _Truth) -> _Truth:
    def truth(situation: Situation) -> bool | None:
        found = part(situation)
        return None if found is None else not found

    return truth
