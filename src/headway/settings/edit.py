"""Change one weight in the text of headway.toml; every other character stays as the user wrote it."""

from __future__ import annotations

import copy
import re
import tomllib
from typing import Any

from headway.nouns import errors

_HEADING = re.compile(r"\s*\[([^\[\]]+)\]\s*(?:#.*)?\Z")
_NUMBER = r"[-+]?[0-9][0-9_.eE+-]*"


def with_weight(text: str, task: str, signal: str, weight: float) -> tuple[str, int]:
    """(the text with the signal's weight in the task's reward, the line that changed); see `_line`.

    InvalidSettings `settings_not_editable` if the text is written in a way that this does not understand: the result is
    parsed, and compared with what it should mean.
    """
    lines = text.split("\n")
    table: tuple[str, ...] = ()
    for place, line in enumerate(lines):
        heading = _HEADING.match(line)
        if heading:
            table = tuple(part.strip().strip("\"'") for part in heading[1].split("."))
            continue
        changed = _line(line, table, task, signal, weight)
        if changed is not None:
            result = "\n".join([*lines[:place], changed, *lines[place + 1 :]])
            if _means(text, result, task, signal, weight):
                return result, place + 1
    raise errors.InvalidSettings(
        f"The weight of {signal!r} in the reward of {task!r} could not be changed in headway.toml.",
        code="settings_not_editable",
        hint=f"Write it yourself, in [tasks.{task}]: reward = {{ …, {signal} = {weight!r} }}",
    )


def _line(line: str, table: tuple[str, ...], task: str, signal: str, weight: float) -> str | None:
    """The line with the new weight; None if the weight is not written in it.

    [tasks.route] reward = { solved = 1.0, cost_usd = -20.0 }     or { …, cost_usd = { weight = -20.0 } }, or added
    [tasks.route.reward] cost_usd = -20.0                         or { weight = -20.0 }
    [tasks.route.reward.cost_usd] weight = -20.0
    """
    name = rf"\"?{re.escape(signal)}\"?"
    number = rf"(?P<before>{{}}\s*=\s*(?:\{{{{[^}}}}]*?\bweight\s*=\s*)?){_NUMBER}"
    pattern = {
        ("tasks", task, "reward", signal): rf"(?P<before>^\s*weight\s*=\s*){_NUMBER}",
        ("tasks", task, "reward"): number.format(rf"^\s*{name}"),
        ("tasks", task): number.format(rf"^\s*reward\s*=\s*(?=\{{).*?[{{,]\s*{name}"),
    }.get(table)
    if pattern is None:
        return None
    match = re.search(pattern, line)
    if match:
        return f"{line[: match.start()]}{match['before']}{weight!r}{line[match.end() :]}"
    if table == ("tasks", task) and re.match(r"\s*reward\s*=\s*\{.*\}\s*(?:#.*)?\Z", line):
        end = line.rindex("}")
        comma = "" if line[:end].rstrip().endswith("{") else ","
        return f"{line[:end].rstrip()}{comma} {signal} = {weight!r} {line[end:]}"
    return None


def _means(before: str, after: str, task: str, signal: str, weight: float) -> bool:
    """Whether the new text says the same as the old one, except for this weight."""
    try:
        expected: dict[str, Any] = copy.deepcopy(tomllib.loads(before))
        reward = expected["tasks"][task]["reward"]
        if isinstance(reward.get(signal), dict):
            reward[signal]["weight"] = weight
        else:
            reward[signal] = weight
        return tomllib.loads(after) == expected
    except (tomllib.TOMLDecodeError, KeyError, TypeError, AttributeError):
        return False
