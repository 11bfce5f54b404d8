"""The logs of LiteLLM, Langfuse, GrowthBook, TensorZero and OpenAI, and any table: programs.toml has their fields."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from headway.files import read_regular
from headway.kits.audit.shape import LogShape, OutcomeShape

Row = Mapping[str, Any]


def _litellm(row: Row) -> bool:
    payload = "model_group" in row and ("startTime" in row or "response_cost" in row)
    return payload or ("request_id" in row and "spend" in row)


def _score(row: Row) -> bool:
    return "value" in row and "name" in row and any(key in row for key in ("trace_id", "traceId", "session_id"))


def _langfuse(row: Row) -> bool:
    trace = "metadata" in row and any(name in row for name in ("userId", "user_id", "sessionId", "session_id"))
    return _score(row) or "provided_model_name" in row or "providedModelName" in row or (trace and "timestamp" in row)


def _growthbook(row: Row) -> bool:
    return "variation_id" in row or "variationId" in row


def _openai(row: Row) -> bool:
    answer = isinstance(row.get("response"), Mapping) and ("request" in row or "custom_id" in row)
    return row.get("object") == "chat.completion" or answer or ("choices" in row and "model" in row)


_ROWS: Mapping[str, Callable[[Row], bool]] = {
    "tensorzero": lambda row: "variant_name" in row or "target_id" in row,
    "growthbook": _growthbook,
    "langfuse": _langfuse,
    "litellm": _litellm,
    "openai": _openai,
    "columns": lambda _row: True,
}
_OUTCOMES: Mapping[str, Callable[[Row], bool]] = {
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
