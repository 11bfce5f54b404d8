"""otel — OpenTelemetry both ways: decisions as spans, where `[server] otel = true`; spans of others as decisions.

spans.py                    what we emit
door.py, ingest.py          /v1/traces and /v1/logs: what others emit, as decisions and signals
otlp.py, conventions.py     how it is written, and what it means; [traces]
exported.py                 files that a collector wrote, as the rows of a table

Takes: rows that became durable, calls of upstreams; OTLP requests of keys with the scope `ingest`.
Gives: spans and log events, to a collector or to the process's own provider; decisions, signals.
Never: emits a text, an answer or a key; invents a propensity; believes a key about the spans of another.
May import: serve, project, settings, observe, files, nouns.
"""

from typing import TYPE_CHECKING

from headway.nouns import Kit, door

if TYPE_CHECKING:
    from headway.kits.otel.exported import exported_rows as exported_rows, is_export as is_export
    from headway.kits.otel.spans import CallSpan as CallSpan, Spans as Spans
else:
    __all__, __getattr__ = door(__name__)

KIT = Kit(
    name="otel",
    summary="OpenTelemetry: decisions, calls and signals as spans; spans of others as decisions.",
    needs=("data",),
    routes=("headway.kits.otel.door",),
    tables={"traces": "headway.kits.otel.conventions:TraceSettings"},
    observers={"otel": "headway.kits.otel.spans:observe"},
)
