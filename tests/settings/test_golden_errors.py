"""Every message about a wrong setting, word for word.

python -m tests.settings.test_golden_errors    rewrites tests/golden/settings_errors.jsonl; review the difference

One case per line: `toml` is the file, `environ` the variables, `ask` a method of the settings and its argument; `code`,
`message` and `hint` are the error. To add a case, add a line with `toml` alone and rewrite the file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headway import settings
from headway.nouns.errors import HeadwayError
from headway.settings.read import KEYS

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "settings_errors.jsonl"
CASES: list[dict[str, Any]] = [json.loads(line) for line in GOLDEN.read_text("utf-8").splitlines()]
INPUT = ("toml", "environ", "ask")


def refusal(case: dict[str, Any]) -> dict[str, str]:
    """The error of a case; empty if the settings are valid."""
    try:
        read = settings.parse(case["toml"], directory=Path(), environ=case.get("environ", {}))
        if "ask" in case:
            method, argument = case["ask"]
            getattr(read, method)(argument)
    except HeadwayError as error:
        return {"code": error.code, "message": error.message, "hint": error.hint}
    return {}


@pytest.mark.parametrize("number", range(len(CASES)))
@pytest.mark.kits("*")
def test_a_wrong_setting_is_refused_with_the_same_words(number: int) -> None:
    case = CASES[number]
    assert refusal(case) == {key: case[key] for key in ("code", "message", "hint")}


def test_every_key_of_every_table_has_a_golden_error() -> None:
    messages = "\n".join(case["message"] for case in CASES)
    examples = {"tasks": "tasks.route", "upstreams": "upstreams.a"}
    for table, keys in KEYS.items():
        for key in keys:
            assert f"{examples.get(table, table)}.{key} " in messages, (table, key)


if __name__ == "__main__":
    lines = [{**{key: case[key] for key in INPUT if key in case}, **refusal(case)} for case in CASES]
    lines = [line for line in lines if "code" in line]
    GOLDEN.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), "utf-8")
