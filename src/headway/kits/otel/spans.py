"""Decisions, upstream calls and signals as OpenTelemetry spans, where `[server] otel = true`.

- `decide TASK`: one per decision, from any interface.
- `chat MODEL`: one per upstream call, under the client's `traceparent`, with the gen_ai attributes (semantic
  conventions 1.37) and Headway's own under `headway.*`.
- `gen_ai.evaluation.result`: one log event per signal, in the context of its decision's span.

opentelemetry-sdk >=1.45, <2. Its modules of logs have private names (tests/architecture/test_private_names.py).

They hold names and numbers, never a text, an answer or a key. If the process has providers (opentelemetry's own
launcher, or a test), they are used; otherwise some that export over OTLP/HTTP to the address in OTEL_* variables.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from headway.nouns import Decision, Signal, errors, ids
from headway.project import Project
from headway.settings import Upstream

if TYPE_CHECKING:
    from opentelemetry._logs import LoggerProvider
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanContext, TracerProvider


_REMEMBERED = 20_000
_MOST_CANDIDATES = 50


class CallSpan:
    """The span of one upstream call; ends once."""

    def __init__(self, span: Span, answers: Mapping[str, str]) -> None:
        self._span = span
        self._answers = answers

    def end(self, measured: Mapping[str, float], *, failed: str = "", **answered: str) -> None:
        """`measured` are the call's signals; `answered` are the model and usage that the upstream reported."""
        from opentelemetry.trace import Status, StatusCode

        for name, value in measured.items():
            self._span.set_attribute(_MEASURED.get(name, f"headway.{name}"), _number(name, value))
        for name, text in answered.items():
            if text:
                self._span.set_attribute(self._answers[name], text)
        if failed:
            self._span.set_attribute("error.type", failed)
            self._span.set_status(Status(StatusCode.ERROR, failed))
        self._span.end()


_MEASURED = {
    "prompt_tokens": "gen_ai.usage.input_tokens",
    "completion_tokens": "gen_ai.usage.output_tokens",
    "cached_tokens": "gen_ai.usage.cache_read.input_tokens",
    "http_status": "http.response.status_code",
}
_ANSWERS = {"upstream_id": "headway.upstream_id", "model": "gen_ai.response.model"}


def _number(name: str, value: float) -> float | int:
    return int(value) if name in _MEASURED else value


class Spans:
    """Makes the spans of a server."""

    def __init__(self, provider: TracerProvider, logs: LoggerProvider) -> None:
        self._tracer = provider.get_tracer("headway")
        self._logger = logs.get_logger("headway")
        self._decided: OrderedDict[str, SpanContext] = OrderedDict()  # decisions whose signals can be linked

    def call(self, provider: str, operation: str, upstream: Upstream, decision: Decision, parent: str) -> CallSpan:
        """Starts the span of a call, under the client's own: `parent` is its W3C trace context, or empty."""
        from opentelemetry.trace import SpanKind

        address = urlsplit(upstream.url)
        span = self._tracer.start_span(
            f"{operation} {upstream.model}",
            context=_context(parent),
            kind=SpanKind.CLIENT,
            attributes={
                "gen_ai.operation.name": operation,
                "gen_ai.provider.name": provider,
                "gen_ai.request.model": upstream.model,
                "gen_ai.response.id": _answered_as(decision),
                "server.address": address.hostname or "",
                "server.port": address.port or (443 if address.scheme == "https" else 80),
                "headway.upstream": upstream.name,
                **_about(decision),
            },
        )
        self._remember(_answered_as(decision), span)
        return CallSpan(span, _ANSWERS)

    def heard(self, decisions: Sequence[Decision], signals: Sequence[Signal]) -> None:
        """Called by the project with durable rows, in any thread."""
        from opentelemetry.trace import NonRecordingSpan, set_span_in_context

        for decision in decisions:
            at = int(decision.at * 1e9)
            span = self._tracer.start_span(f"decide {decision.task}", attributes=_drawn(decision), start_time=at)
            self._remember(_answered_as(decision), span)
            span.end(max(at, time.time_ns()))
        for one in signals:
            if one.value is None or one.rater == "proxy:":  # what the server measured is on the call's span
                continue
            known = self._decided.get(one.subject)
            attributes: dict[str, Any] = {
                "gen_ai.evaluation.name": one.name,
                "gen_ai.evaluation.score.value": one.value,
                "gen_ai.response.id": one.subject,
            }
            if one.label:
                attributes["gen_ai.evaluation.score.label"] = one.label
            self._logger.emit(
                event_name="gen_ai.evaluation.result",
                timestamp=int(one.at * 1e9),
                context=set_span_in_context(NonRecordingSpan(known)) if known else None,
                attributes=attributes,
            )

    def _remember(self, decision: str, span: Span) -> None:
        self._decided[decision] = span.get_span_context()
        if len(self._decided) > _REMEMBERED:
            self._decided.popitem(last=False)


def _answered_as(decision: Decision) -> str:
    """The id that the client knows: that of the request, which its first decision has."""
    return decision.unit if decision.position and not ids.is_episode(decision.unit) else decision.id


def _about(decision: Decision) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "headway.decision": _answered_as(decision),
        "headway.attempt": decision.position,
        "headway.task": decision.task,
        "headway.action": decision.action,
        "headway.policy": decision.policy,
        "headway.propensity": decision.propensity,
    }
    if decision.situation.episode is not None:
        attributes["gen_ai.conversation.id"] = decision.situation.episode
    return attributes


def _drawn(decision: Decision) -> dict[str, Any]:
    """The same with the draw, as far as it is short, so that another Headway can use it."""
    known = decision.propensity_known and len(decision.candidates) <= _MOST_CANDIDATES
    drawn = {
        "headway.candidates": [one.name for one in decision.candidates],
        "headway.probabilities": list(decision.probabilities),
    }
    return {**_about(decision), **(drawn if known else {})}


def _context(parent: str) -> Context | None:
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

    if not parent:
        return None
    _, trace, span, flags = parent.split("-")
    remote = SpanContext(int(trace, 16), int(span, 16), True, TraceFlags(int(flags, 16) & 1))
    return set_span_in_context(NonRecordingSpan(remote))


def _providers() -> tuple[TracerProvider, LoggerProvider]:
    package = "opentelemetry-sdk"
    try:
        from opentelemetry import trace
        from opentelemetry._logs import get_logger_provider
        from opentelemetry.sdk._logs import LoggerProvider as OwnLogs
        from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider as Own
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        provider = trace.get_tracer_provider()
        if isinstance(provider, Own):
            return provider, get_logger_provider()
        package = "opentelemetry-exporter-otlp-proto-http"
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        raise errors.MissingExtra("otel = true in [server]", package, "otel") from error
    resource = Resource.create({"service.name": "headway"})
    made, logs = Own(resource=resource), OwnLogs(resource=resource)
    made.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    logs.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
    return made, logs


def observe(project: Project) -> Spans:
    """Every row that becomes durable from now on is a span, or a log event."""
    spans = Spans(*_providers())
    project.listeners.append(spans.heard)
    return spans
