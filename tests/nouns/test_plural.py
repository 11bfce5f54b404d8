"""Counted nouns: one helper, which everything that counts for a reader uses."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.nouns import plural

SOURCE = Path(__file__).resolve().parents[2] / "src" / "headway"
NOUNS = "checks|decisions|episodes|outcomes|policies|problems|ratings|replies|requests|rows|signals|votes"
COUNTED = re.compile(rf" (?:(?!of\b)[a-z-]+ )?({NOUNS})\b")
# What is never one, or names a limit that is a constant.
NEVER_ONE = {
    "project/decide/elsewhere.py",
    "project/prove/episodes.py",
    "promote/registry.py",
    "promote/reliance.py",
    "prove/origin.py",
    "prove/shares.py",
}


@pytest.mark.parametrize(
    ("count", "one", "many", "text"),
    [
        (1, "decision", "", "1 decision"),
        (0, "decision", "", "0 decisions"),
        (1200, "policy", "policies", "1,200 policies"),
        (1, "policy", "policies", "1 policy"),
    ],
)
def test_a_count_and_its_noun_agree(count: int, one: str, many: str, text: str) -> None:
    assert plural(count, one, many) == text


def counts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Numbers that stand right before a plural noun in a sentence, without the helper."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.JoinedStr):
            continue
        for value, text in zip(node.values, node.values[1:], strict=False):
            if not isinstance(value, ast.FormattedValue) or not isinstance(text, ast.Constant):
                continue
            shown = "" if value.format_spec is None else ast.unparse(value.format_spec)
            source = ast.unparse(value.value)
            counted = shown == "f','" or source.startswith("len(")
            if counted and not source.lstrip("_").isupper() and COUNTED.match(str(text.value)):
                yield value.lineno, f"{source}{text.value}"


def test_every_sentence_of_the_core_that_counts_uses_the_helper() -> None:
    wrong = [
        f"{path.relative_to(SOURCE)}:{line}: {what}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path.relative_to(SOURCE).parts[0] != "kits"
        if str(path.relative_to(SOURCE)) not in NEVER_ONE
        if re.search(rf"}} (?:[a-z-]+ )?(?:{NOUNS})\b", source := path.read_text("utf-8"))
        for line, what in counts(ast.parse(source))
    ]
    assert not wrong, "write plural(count, 'decision')"
