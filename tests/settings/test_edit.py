"""One weight is changed in the text of headway.toml, and nothing else."""

from __future__ import annotations

import pytest

from headway.nouns.errors import InvalidSettings
from headway.settings import with_weight

INLINE = '[tasks.route]\nactions = ["a"]\nreward = { solved = 1.0, cost_usd = -20.0 }  # why\n\n[tasks.other]\n'


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        (INLINE, 3, INLINE.replace("-20.0", "-7.5")),
        ("[tasks.route]\nreward = {}\n", 2, "[tasks.route]\nreward = { cost_usd = -7.5 }\n"),
        ("[tasks.route]\nreward = { solved = 1.0 }", 2, "[tasks.route]\nreward = { solved = 1.0, cost_usd = -7.5 }"),
        (
            "[tasks.route]\nreward = { cost_usd = { weight = -2, low = 0.0 }, x = 1 }\n",
            2,
            "[tasks.route]\nreward = { cost_usd = { weight = -7.5, low = 0.0 }, x = 1 }\n",
        ),
        ('[tasks."route"]\nreward = {"cost_usd"=-2e1}\n', 2, '[tasks."route"]\nreward = {"cost_usd"=-7.5}\n'),
        (
            "[tasks.route.reward]\r\nx = 1\r\ncost_usd = -20\r\n",
            3,
            "[tasks.route.reward]\r\nx = 1\r\ncost_usd = -7.5\r\n",
        ),
        (
            "[tasks.a.reward]\ncost_usd = -1\n[tasks.route.reward.cost_usd]\nweight = -3.0\n",
            4,
            "[tasks.a.reward]\ncost_usd = -1\n[tasks.route.reward.cost_usd]\nweight = -7.5\n",
        ),
    ],
)
def test_the_weight_changes_and_nothing_else(text: str, line: int, expected: str) -> None:
    assert with_weight(text, "route", "cost_usd", -7.5) == (expected, line)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[tasks.other]\nreward = { cost_usd = -1.0 }\n",
        "tasks = { route = { reward = { cost_usd = -1.0 } } }\n",
        '[tasks.route]\nreward = "mine:reward"\n',
        '[tasks.route]\nnote = """\nreward = { cost_usd = -1.0 }\n"""\nreward.cost_usd = -1.0\n',
    ],
)
def test_a_text_that_is_written_otherwise_is_left_alone(text: str) -> None:
    with pytest.raises(InvalidSettings, match="could not be changed") as refused:
        with_weight(text, "route", "cost_usd", -7.5)
    assert "cost_usd = -7.5" in (refused.value.hint or "")
