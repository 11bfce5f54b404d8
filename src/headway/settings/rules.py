"""Checking a rule's condition when the file is read: its form, its variables, and that both sides are of one kind.

    check("task_complexity_score > 0.8 or primary_failure_count >= 2", known)     # fine
    check("complexity > 0.8", known)                                             # ValueError: did you mean …?

A condition compares variables with numbers or texts (> >= < <= == != in) and joins such comparisons with and, or, not.
There are no calls, no attributes and no arithmetic, and nothing is ever evaluated by Python itself.
Not covered: deciding by a rule (decide).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from headway.nouns.errors import did_you_mean

__all__ = ["check"]

_LIMIT = 500
_ORDER = (ast.Gt, ast.GtE, ast.Lt, ast.LtE)
_EXAMPLE = 'such as "task_complexity_score > 0.8 or primary_failure_count >= 2"'


def check(condition: str, known: Iterable[str]) -> None:
    """Nothing, or a ValueError that says what was expected."""
    if len(condition) > _LIMIT:
        raise ValueError(f"a condition of at most {_LIMIT} characters")
    try:
        tree = ast.parse(condition.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"a condition {_EXAMPLE}") from None
    _condition(tree.body, tuple(known))


def _condition(node: ast.expr, known: tuple[str, ...]) -> None:
    if isinstance(node, ast.BoolOp):
        for each in node.values:
            _condition(each, known)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        _condition(node.operand, known)
    elif isinstance(node, ast.Compare):
        _comparison(node, known)
    elif isinstance(node, ast.Name):
        _name(node, known)  # a flag: true when it is neither 0, false nor empty
    else:
        raise ValueError(f"comparisons joined by and, or, not, {_EXAMPLE}")


def _comparison(node: ast.Compare, known: tuple[str, ...]) -> None:
    sides = [node.left, *node.comparators]
    if not any(isinstance(each, ast.Name) for each in sides):
        raise ValueError("a comparison with a variable in it")
    for operator, right in zip(node.ops, node.comparators, strict=True):
        if isinstance(operator, (ast.In, ast.NotIn)):
            if not isinstance(right, (ast.List, ast.Tuple)) or not right.elts:
                raise ValueError('a list after in, such as role in ["planner", "architect"]')
        elif isinstance(operator, _ORDER):
            if isinstance(right, ast.Constant) and isinstance(right.value, str):
                raise ValueError("a number after <, <=, > and >=; texts are compared with == and !=")
        elif not isinstance(operator, (ast.Eq, ast.NotEq)):
            raise ValueError("one of > >= < <= == != in")
    for each in sides:
        _side(each, known)


def _side(node: ast.expr, known: tuple[str, ...]) -> None:
    if isinstance(node, ast.Name):
        _name(node, known)
    elif isinstance(node, (ast.List, ast.Tuple)):
        for each in node.elts:
            _constant(each)
    else:
        _constant(node)


def _constant(node: ast.expr) -> None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    if not isinstance(node, ast.Constant) or not isinstance(node.value, (int, float, str)):
        raise ValueError("variables, numbers and texts in quotes only")


def _name(node: ast.Name, known: tuple[str, ...]) -> None:
    if node.id not in known:
        raise ValueError(
            f"known variables, and {node.id!r} is none. {did_you_mean(node.id, known)} "
            'Your own are declared with state = ["…"].'
        )
