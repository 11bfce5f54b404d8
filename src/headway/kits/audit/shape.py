"""The shape of a program's log: which field of a row is the action, its propensity, the reward, the time.

A field is a dotted path, `metadata.propensity`. A part of the path may be JSON in a text, as metadata is in CSV.
A log may have two kinds of row: choices, and outcomes that refer to a choice by an id.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from headway.files import read_regular
from headway.kits.otel import is_export

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeShape:
    """Rows that say how a choice went."""

    looks: Callable[[Row], bool]
    key: tuple[str, ...]  # the id of the choice, or of its unit
    value: tuple[str, ...]
    name: tuple[str, ...] = ()  # of the metric or score
    at: tuple[str, ...] = ()
    several: Literal["last", "sum"] = "last"  # of one name for one choice


@dataclass(frozen=True, slots=True, kw_only=True)
class LogShape:
    """Where one program's log has what an audit needs. Of several paths the first that has a value counts."""

    name: str
    program: str
    looks: Callable[[Row], bool]
    action: tuple[str, ...]
    reward: tuple[str, ...]
    add_propensity: str  # how to get propensities into this log
    add_reward: str
    propensity: tuple[str, ...] = ()
    probabilities: tuple[str, ...] = ()  # an object: action → probability
    weights: tuple[str, ...] = ()  # a list, in the order of the variations
    at: tuple[str, ...] = ()
    id: tuple[str, ...] = ()
    unit: tuple[str, ...] = ()  # what was assigned once, for all its rows; empty: every row
    unit_name: str = "request"
    keys: tuple[str, ...] = ()  # what outcomes refer to
    group: tuple[str, ...] = ()  # whose draws might repeat one another
    one_of: tuple[str, ...] = ()  # a log of several is several audits: experiments, functions
    outcome: OutcomeShape | None = None
    scores: tuple[str, ...] = ()  # a list of outcomes inside the row
    arm_word: str = "always"  # before the name of an arm
    experiment: bool = False  # arms are compared with a control; else the logged chooser with each arm


def look(row: Row, path: str) -> Any:
    """The value at a dotted path; None if there is none."""
    if path in row:
        return _present(row[path])
    value: Any = row
    parts = path.split(".")
    for place, part in enumerate(parts):
        value = _opened(value)
        if not isinstance(value, dict):
            return None
        rest = ".".join(parts[place:])
        if rest in value:  # a name that contains a dot
            return _present(value[rest])
        value = value.get(part)
    return _present(value)


def first_of(row: Row, paths: Sequence[str]) -> tuple[str, Any]:
    """The first path that has a value, and the value; ("", None) if there is none."""
    for path in paths:
        value = look(row, path)
        if value is not None:
            return path, value
    return "", None


def _present(value: Any) -> Any:
    return None if value == "" else value


def _opened(value: Any) -> Any:
    """An object that was written as a text."""
    if isinstance(value, str) and value[:1] == "{":
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value


def _litellm(row: Row) -> bool:
    payload = "model_group" in row and ("startTime" in row or "response_cost" in row)
    return payload or ("request_id" in row and "spend" in row)


def _score(row: Row) -> bool:
    return "value" in row and "name" in row and any(key in row for key in ("trace_id", "traceId", "session_id"))


def _langfuse(row: Row) -> bool:
    trace = "metadata" in row and any(name in row for name in ("userId", "user_id", "sessionId", "session_id"))
    return _score(row) or "provided_model_name" in row or "providedModelName" in row or (trace and "timestamp" in row)


def _growthbook(row: Row) -> bool:
    result = row.get("result")
    return "variation_id" in row or "variationId" in row or (isinstance(result, Mapping) and "variationId" in result)


def _openai(row: Row) -> bool:
    answer = isinstance(row.get("response"), Mapping) and ("request" in row or "custom_id" in row)
    return row.get("object") == "chat.completion" or answer or ("choices" in row and "model" in row)


_ROWS: Mapping[str, Callable[[Row], bool]] = {
    "otlp": is_export,
    "tensorzero": lambda row: "variant_name" in row or "target_id" in row,
    "growthbook": _growthbook,
    "langfuse": _langfuse,
    "litellm": _litellm,
    "semantic-router": lambda row: "selected_model" in row and ("lifecycle_state" in row or "decision_tier" in row),
    "lynkr": lambda row: "propensity" in row and "candidates" in row and "provider" in row and "model" in row,
    "openai": _openai,
    "columns": lambda _row: True,
}
_OUTCOMES: Mapping[str, Callable[[Row], bool]] = {
    "otlp": lambda row: "value" in row and "action" not in row,
    "semantic-router": lambda row: "selected_model" not in row,
    "tensorzero": lambda row: "target_id" in row,
    "growthbook": lambda row: not _growthbook(row),
    "langfuse": _score,
    "litellm": lambda row: "model" not in row and "reward" in row,
    "openai": lambda row: not _openai(row) and "reward" in row,
}


def _tuples(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()}


def _shape(name: str, outcome: Mapping[str, Any] | None = None, **fields: Any) -> LogShape:
    how = None if outcome is None else OutcomeShape(looks=_OUTCOMES[name], **_tuples(outcome))
    return LogShape(name=name, looks=_ROWS[name], outcome=how, **_tuples(fields))


_FIELDS = tomllib.loads(read_regular(Path(__file__).with_name("programs.toml")).decode())
SHAPES = tuple(_shape(name, **fields) for name, fields in _FIELDS.items())


def shape_named(name: str) -> LogShape:
    return next(shape for shape in SHAPES if shape.name == name)
