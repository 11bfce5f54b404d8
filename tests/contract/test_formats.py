"""Every format of the built-in kits satisfies the format contract, which detects violations."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as replace_fields

from headway.kits.data import Format, Options, Problem, format_contract
from headway.nouns.kit import catalogue
from tests.kits.formats.rows import CHAT, REVIEW, ROUND, event, routed, routing, step

STEP = {"reward": 0.1, "done": False, "log_prob": math.log(0.4), "value": 0.2}
ROWS: dict[str, list[dict[str, Any]]] = {
    "headway": [
        {
            "id": "dec_0199aaaabbbb7ccc8ddd0123456789ab", "task": "route", "at": "2026-03-10T02:56:16Z", "text": "Why?",
            "candidates": ["small", "large"], "probabilities": [0.25, 0.75], "action": "large", "propensity": 0.75,
            "signals": [{"name": "solved", "value": 1.0, "at": "2026-03-10T02:56:20Z"}],
        }
    ],
    "jfl-buffer": [ROUND, REVIEW],
    "jfl-journal": [
        {"v": 1, "ts": "2026-03-10T02:56:16Z", "session": "s", "type": "fix", "title": "Mend it", "status": "complete"}
    ],
    "jfl-events": [event("eval:scored", 1, baseline="0.85", composite="0.92", delta="0.07", improved="true")],
    "sage-routing": [routing()],
    "sage-journal": [routed("t", "f"), step("t", "f", 0.5)],
    "interactions": [
        {"timestamp": "2026-05-22T10:32:01Z", "prompt": "Why?", "response": "Because.", "reward": 0.5},
    ],
    "openai-chat": [CHAT],
    "wide": [
        {"prompt": "Why?", "small_correct": 1, "small_cost": 0.001, "large_correct": True, "large_cost": 0.01},
        {"prompt": "How?", "small_correct": 0, "small_cost": 0.001, "large_correct": "true", "large_cost": None},
    ],
    "columns": [{"action": "a", "reward": 0.5, "propensity": 1.0}],
    "mutations": [
        {"state": [0.0, 1.0], "action": 3, "next_state": [1.0, 0.0], **STEP},
        {"state": [1.0, 0.0], "action": 0, "next_state": [0.5, 0.5], **STEP, "done": True},
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", catalogue().all("formats"))
def test_a_format_satisfies_the_contract(name: str) -> None:
    format_contract(catalogue().format(name), ROWS[name], among=catalogue().all_formats())


@pytest.mark.kits("formats")
def test_a_format_that_breaks_the_contract_is_detected() -> None:
    own = catalogue().format("jfl-buffer")

    def silent(rows: Any, options: Options) -> Any:
        return (item for item in own.read(rows, options) if not isinstance(item, Problem))

    def twice(rows: Any, options: Options) -> Any:
        return (replace_fields(item, candidates=item.candidates * 2) for item in own.read(rows, options))

    broken: dict[str, Format] = {
        "does not recognise": replace(own, looks=lambda _: False),
        "does not pass on": replace(own, read=silent),
        "appears twice": replace(own, read=twice),
        "no decision": replace(own, read=lambda _rows, _options: iter(())),
    }
    for message, wrong in broken.items():
        with pytest.raises(AssertionError, match=message):
            format_contract(wrong, ROWS["jfl-buffer"])
    taking = replace(own, name="greedy", priority=1, looks=lambda _: True)
    with pytest.raises(AssertionError, match="recognises a row"):
        format_contract(own, ROWS["jfl-buffer"], among=[taking])
