"""otel — decisions, upstream calls and signals as OpenTelemetry spans, where `[server] otel = true`.

Takes: rows that became durable, calls of upstreams.   Gives: spans, to a collector or to the process's own provider.
Never: holds a text, an answer or a key; is imported by a server that does not ask for it.
May import: project, settings, nouns.
"""

from headway.nouns.kit import Kit

KIT = Kit(
    name="otel",
    summary="Decisions, calls and signals as OpenTelemetry spans.",
    observers={"otel": "headway.kits.otel.spans:observe"},
)
