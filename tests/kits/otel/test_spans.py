"""Decisions, calls and signals as OpenTelemetry spans; the server runs in this process, to collect them."""

from __future__ import annotations

import asyncio
import http.server
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry import trace
from opentelemetry._logs import get_logger_provider, set_logger_provider
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import headway
from headway.kits.otel.ingest import ingest
from headway.kits.otel.otlp import decoded
from headway.kits.proxy.upstreams import upstreams_of
from headway.serve.app import application
from tests.kits.proxy.conftest import ASK, Proxy, running_upstream, settings, upstream
from tests.kits.proxy.inside import Inside
from tests.kits.proxy.upstream import USAGE, Upstream

__all__ = ["running_upstream", "upstream"]

PARENT = f"00-{'a' * 32}-{'b' * 16}-01"
BAD = 'explore = "none"\nfloor = 0.0\nrules = [{ when = "text_length >= 0", use = "small" }]\n'


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    """The process's tracer provider, which can be set once: each test adds an exporter and removes it."""
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider()
        trace.set_tracer_provider(provider)
    memory = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    yield memory
    memory.shutdown()


@pytest.fixture
def events() -> Iterator[InMemoryLogRecordExporter]:
    """The same for the provider of log records."""
    provider = get_logger_provider()
    if not isinstance(provider, LoggerProvider):
        provider = LoggerProvider()
        set_logger_provider(provider)
    memory = InMemoryLogRecordExporter()
    provider.add_log_record_processor(SimpleLogRecordProcessor(memory))
    yield memory
    memory.shutdown()


def run(folder: Path, toml: str, work: Any) -> Any:
    """Runs `work(client)` against the application without a server."""
    (folder / "headway.toml").write_text(toml)

    async def inside() -> Any:
        with headway.open(folder, environ={}) as project:
            guard = application(project, project.settings.server, log_requests=False)
            async with httpx.AsyncClient(transport=Inside(guard), base_url="http://127.0.0.1") as client:
                try:
                    return await work(client)
                finally:
                    await upstreams_of(guard).aclose()

    return asyncio.run(inside())


def named(exporter: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [get_finished_span for get_finished_span in exporter.get_finished_spans() if get_finished_span.name == name]


def test_a_call_is_a_gen_ai_span_under_the_clients_trace(
    tmp_path: Path, upstream: Upstream, exporter: InMemorySpanExporter, events: InMemoryLogRecordExporter
) -> None:
    async def work(client: httpx.AsyncClient) -> dict[str, Any]:
        answer = await client.post("/v1/chat/completions", json=ASK, headers={"traceparent": PARENT})
        reply: dict[str, Any] = answer.json()
        await client.post(f"/v1/decisions/{reply['id']}/signals", json={"solved": 1.0})
        return reply

    toml = settings(upstream, {"small": "status-500", "large": "ok"}, task=BAD, more="[server]\notel = true")
    body = run(tmp_path, toml, work)
    (failed,) = named(exporter, "chat small-model")
    (span,) = named(exporter, "chat large-model")
    for entry in (failed, span):
        assert entry.parent is not None
        assert f"{entry.parent.trace_id:032x}" == "a" * 32
        assert f"{entry.parent.span_id:016x}" == "b" * 16
        assert entry.kind is trace.SpanKind.CLIENT
    assert failed.attributes is not None
    assert failed.attributes["error.type"] == "upstream_status"
    assert failed.attributes["http.response.status_code"] == 500
    assert not failed.status.is_ok
    assert (failed.attributes["headway.decision"], failed.attributes["headway.attempt"]) == (body["id"], 0)
    assert span.attributes is not None
    assert span.attributes["gen_ai.response.id"] == span.attributes["headway.decision"] == body["id"]
    assert span.attributes["headway.attempt"] == 1
    assert span.attributes["gen_ai.operation.name"] == "chat"
    assert span.attributes["gen_ai.provider.name"] == "openai"
    assert span.attributes["gen_ai.request.model"] == "large-model"
    assert span.attributes["gen_ai.response.model"] == "large-model-2024"
    assert span.attributes["gen_ai.usage.input_tokens"] == USAGE[0]
    assert span.attributes["gen_ai.usage.output_tokens"] == USAGE[1]
    assert span.attributes["server.port"] == upstream.port
    assert span.attributes["headway.propensity"] == 1.0
    assert len(named(exporter, "decide route")) == 2
    (event,) = [row.log_record for row in events.get_finished_logs()]
    assert event.event_name == "gen_ai.evaluation.result"
    assert event.attributes is not None
    assert event.attributes["gen_ai.evaluation.name"] == "solved"
    assert event.attributes["gen_ai.evaluation.score.value"] == 1.0
    assert span.context is not None
    assert (event.trace_id, event.span_id) == (span.context.trace_id, span.context.span_id)
    assert "Good morning" not in str(
        [get_finished_span.to_json() for get_finished_span in exporter.get_finished_spans()]
    )


def test_a_streamed_call_ends_its_span_with_the_stream(
    tmp_path: Path, upstream: Upstream, exporter: InMemorySpanExporter
) -> None:
    async def work(client: httpx.AsyncClient) -> str:
        return (await client.post("/v1/chat/completions", json={**ASK, "stream": True})).text

    run(tmp_path, settings(upstream, {"small": "ok"}, more="[server]\notel = true"), work)
    (span,) = named(exporter, "chat small-model")
    assert span.attributes is not None
    assert span.attributes["gen_ai.usage.output_tokens"] == USAGE[1]
    assert span.parent is None
    assert isinstance(span.attributes["headway.first_token_s"], float)


def test_decisions_of_every_interface_are_spans(
    tmp_path: Path, upstream: Upstream, exporter: InMemorySpanExporter
) -> None:
    async def work(client: httpx.AsyncClient) -> str:
        return str((await client.post("/v1/decisions", json={"task": "route", "text": "hi"})).json()["id"])

    identifier = run(tmp_path, settings(upstream, {"small": "ok", "large": "ok"}, more="[server]\notel = true"), work)
    (span,) = named(exporter, "decide route")
    assert span.attributes is not None
    assert span.attributes["headway.decision"] == identifier
    assert span.attributes["headway.propensity"] == 0.5


def test_spans_are_recorded_only_if_settings_enable_them(
    tmp_path: Path, upstream: Upstream, exporter: InMemorySpanExporter
) -> None:
    async def work(client: httpx.AsyncClient) -> str:
        answer = await client.post("/v1/chat/completions", json=ASK, headers={"traceparent": PARENT})
        return str(answer.json()["id"])

    identifier = run(tmp_path, settings(upstream, {"small": "ok"}), work)
    assert exporter.get_finished_spans() == ()
    with headway.open(tmp_path, environ={}) as project:
        (kept,) = [signal for signal in project.query.signals(identifier) if signal.name == "traceparent"]
        decision = project.query.decision(identifier)
    assert (kept.label, kept.value) == (PARENT, 1.0)  # the trace id is stored anyway
    assert "traceparent" not in decision.situation.state


def test_a_server_exports_over_otlp_to_the_address_in_the_environment(tmp_path: Path) -> None:
    came: queue.Queue[tuple[str, bytes]] = queue.Queue()

    class Collector(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            came.put((self.path, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    (tmp_path / "headway.toml").write_text("[server]\notel = true\n")
    with http.server.HTTPServer(("127.0.0.1", 0), Collector) as collector:
        listening = threading.Thread(target=collector.serve_forever)
        listening.start()
        address = f"http://127.0.0.1:{collector.server_address[1]}"
        server = Proxy(
            tmp_path,
            {
                "OTEL_EXPORTER_OTLP_ENDPOINT": address,
                "OTEL_EXPORTER_OTLP_COMPRESSION": "none",
                "OTEL_BSP_SCHEDULE_DELAY": "50",
            },
        )
        try:
            ask = {"task": "route", "text": "hi", "candidates": ["a", "b"]}
            identifier = server.client.post("/v1/decisions", json=ask).json()["id"]
            path, body = came.get(timeout=30)
        finally:
            server.stop()
            collector.shutdown()
            listening.join()
    assert path == "/v1/traces"
    (resource,) = ExportTraceServiceRequest.FromString(body).resource_spans
    (span,) = resource.scope_spans[0].spans
    assert span.name == "decide route"
    assert identifier in str(span.attributes)
    with headway.open(tmp_path / "another", environ={}) as project:
        report = ingest(project, decoded(body, "application/x-protobuf", logs=False), key="fleet", rates=False)
        assert report.fates["new"] == 1
        decision = project.query.decision(identifier)
    assert (decision.task, decision.probabilities, decision.key) == ("route", (0.5, 0.5), "fleet")


def test_a_server_without_opentelemetry_loads_none_of_it(tmp_path: Path) -> None:
    code = (
        "import sys, headway; from headway.serve.app import application\n"
        "with headway.open(sys.argv[1]) as project: application(project, project.settings.server)\n"
        "sys.exit(any(name.startswith(('opentelemetry', 'headway.kits.otel.spans')) for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code, tmp_path], check=False).returncode == 0
