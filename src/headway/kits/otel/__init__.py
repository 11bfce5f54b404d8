"""otel — decisions, upstream calls and signals as OpenTelemetry spans, where `[server] otel = true`.

Takes: rows that became durable, calls of upstreams.   Gives: spans, to a collector or to the process's own provider.
Never: holds a text, an answer or a key; is imported by a server that does not ask for it.
May import: project, settings, nouns.
"""

from typing import TYPE_CHECKING

from headway.nouns import Kit, door

if TYPE_CHECKING:
    from headway.kits.otel.spans import CallSpan as CallSpan, Spans as Spans
else:
    __all__, __getattr__ = door(__name__)

KIT = Kit(
    name="otel",
    summary="Decisions, calls and signals as OpenTelemetry spans.",
    observers={"otel": "headway.kits.otel.spans:observe"},
)
