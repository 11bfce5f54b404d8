"""Traces and logs that an OpenTelemetry collector wrote into a file, as the rows of a table.

    for row in exported_rows(json.loads(line)):     # one request of the collector's file exporter

A call of a model gives one row: its action, probabilities if it carries them, measurements and `span`. A result of an
evaluation gives one with `name`, `value`, and the `span` or `decision` that it is about; so do the measurements of a
decision that another span has drawn. A text says why a span cannot be used. Ids are hex (OTLP) or base64 (protobuf).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from headway.kits.data import Wrong
from headway.kits.otel.conventions import (
    EVALUATION,
    TraceSettings,
    action_of,
    decision_named,
    drawn_on,
    evaluation_of,
    is_decision,
    measured_of,
)
from headway.kits.otel.otlp import Span, SpanEvent, decoded

_IDS = {"traceId": 24, "spanId": 12}  # characters in base64
_WANTED = TraceSettings()


def is_export(row: Mapping[str, Any]) -> bool:
    """Whether a line is a request of traces or of logs."""
    return any(name in row for name in ("resourceSpans", "resource_spans", "resourceLogs", "resource_logs"))


def exported_rows(document: Mapping[str, Any]) -> Iterator[dict[str, Any] | str]:
    """Every call and every evaluation of a request."""
    document = _plain(document)
    for logs in (False, True):
        if ("resourceLogs" if logs else "resourceSpans") in document:
            for span in decoded(msgspec.json.encode(document), "application/json", logs=logs):
                yield from _rows(span, logs)


def _rows(span: Span | str, logs: bool) -> Iterator[dict[str, Any] | str]:
    if isinstance(span, str):
        yield span
        return
    named = decision_named(span.attributes)
    if not logs and named and "headway.candidates" not in span.attributes:
        for signal, value in measured_of(span, _WANTED, None).items():
            yield {"name": signal, "value": value, "at": span.ended or span.at, "decision": named}
    elif not logs and is_decision(span, _WANTED):
        try:
            yield _choice(span)
        except Wrong as wrong:
            yield wrong.message
    own = SpanEvent(span.name or str(span.attributes.get("event.name", "")), span.at, span.attributes)
    for called, at, has in [own] if logs else span.events:
        if called == EVALUATION:
            found = evaluation_of(span, called, has, at, _WANTED)
            if isinstance(found, str):
                yield found
            else:
                about = {"decision": found.decision} if found.decision else {"span": f"{found.trace}:{found.span}"}
                yield {"name": found.name, "value": found.value, "at": found.at, **about}


def _choice(span: Span) -> dict[str, Any]:
    action = action_of(span, _WANTED)
    candidates, probabilities = drawn_on(span.attributes, action)
    drawn = dict(zip((one.name for one in candidates), probabilities or (), strict=bool(probabilities)))
    return {
        **measured_of(span, _WANTED, None),
        "action": action,
        "span": f"{span.trace}:{span.id}",
        "decision": decision_named(span.attributes) or None,
        "at": span.at,
        "attributes": span.attributes,
        **({"probabilities": drawn} if drawn else {}),
    }


def _plain(value: Any) -> Any:
    """Names as OTLP writes them, and ids in hex."""
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if not isinstance(value, Mapping):
        return value
    made = {re.sub(r"_([a-z])", lambda found: found[1].upper(), str(name)): _plain(one) for name, one in value.items()}
    for name, length in _IDS.items():
        if isinstance(made.get(name), str) and len(made[name]) == length:
            made[name] = base64.b64decode(made[name]).hex()
    return made
