"""The pages about the server match the code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_threat_names_tests_that_exist() -> None:
    text = (ROOT / "docs" / "explanation" / "threats.md").read_text("utf-8")
    written = "\n".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    named = set(re.findall(r"`(test_\w+)`", text))
    assert len(named) > 15
    assert not [name for name in named if f"def {name}(" not in written]


def test_every_threat_is_held_by_a_test() -> None:
    text = (ROOT / "docs" / "explanation" / "threats.md").read_text("utf-8")
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 25
    assert not [threat for threat, _, tests in rows if not re.fullmatch(r"`test_\w+`(, `test_\w+`)* \|", tests)]


def test_every_attack_is_a_short_row_with_a_file_of_tests() -> None:
    text = (ROOT / "docs" / "explanation" / "attacks.md").read_text("utf-8").partition("\n## Cost")[0]
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| attack |")]
    assert len(rows) > 40
    for row in rows:
        *told, script = (cell.strip() for cell in row.strip("|").split(" | "))
        assert len(row) < 260, row
        assert len([cell for cell in told if cell]) == 3, row
        assert re.fullmatch(r"`tests/[\w/]+\.py`", script), row
        assert "\ndef test_" in (ROOT / script.strip("`")).read_text("utf-8"), row


def refused() -> set[str]:
    """Codes of the server's own answers: Refused(status, code, …) and ErrorDetail(code, …)."""
    names: set[str] = set()
    for path in (ROOT / "src" / "headway" / "serve").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                place = {"Refused": 1, "ErrorDetail": 0}.get(node.func.id)
                if place is not None and isinstance(node.args[place], ast.Constant):
                    names.add(str(node.args[place].value))
    return names


def test_every_code_of_the_server_is_on_the_page() -> None:
    text = (ROOT / "docs" / "reference" / "http.md").read_text("utf-8")
    assert len(refused()) > 8
    assert not [code for code in refused() if f"| `{code}` |" not in text]
