"""The door for traces: OTLP from OpenTelemetry's own exporters, and bodies that want to do harm."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import httpx
import pytest
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import Compression, OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, Status, StatusCode, TraceFlags, set_span_in_context

from headway.kits.otel.otlp import MOST_ATTRIBUTES, MOST_ROWS
from headway.nouns import Decision
from headway.observe import Keys
from tests.serve.conftest import Running

TOML = """
[tasks.route]
actions = ["small", "large"]
reward = { solved = 1.0 }
required = ["solved"]

[upstreams.small]
url = "http://127.0.0.1:1/v1"
model = "small-model"
price_in = 2.0
price_out = 4.0
price_cached = 0.5

[upstreams.large]
url = "http://127.0.0.1:1/v1"
model = "large-model"

[traces]
task = "route"
state = ["app.difficulty"]
evaluations = { "Was it solved?" = "solved" }
signals = { stars_given = "app.stars" }
"""
SPAN: dict[str, Any] = {
    "traceId": "a" * 32,
    "spanId": "b" * 16,
    "name": "chat small-model",
    "startTimeUnixNano": "1780000000000000000",
    "endTimeUnixNano": "1780000002500000000",
    "attributes": [
        {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
        {"key": "gen_ai.request.model", "value": {"stringValue": "small-model"}},
    ],
}


class Door:
    """A server, and keys for traces that only one test has."""

    def __init__(self, running: Running, test: int) -> None:
        self.running = running
        self.test = f"-{test}"
        with running.open() as project:
            keys, now = Keys(project.database), project.clock()
            self.keys = {
                name: keys.add(f"{name}{self.test}", scopes, now=now)
                for name, scopes in {
                    "app": ("ingest",), "other": ("ingest",), "judge": ("ingest", "signal"), "plain": ("signal",)
                }.items()
            }  # fmt: skip
        until = time.monotonic() + 20
        while self.post({}, key="plain").status_code == 401:
            assert time.monotonic() < until, "the server does not accept the new keys"

    def headers(self, key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {self.keys[key]}"}

    def post(
        self, body: Any, *, key: str = "app", path: str = "/v1/traces", media: str = "application/json", **more: str
    ) -> httpx.Response:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"content-type": media, **self.headers(key), **more}
        return self.running.client.post(path, content=data, headers=headers)

    def spans(self, *spans: Any, key: str = "app") -> httpx.Response:
        return self.post({"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}, key=key)

    def logs(self, *records: Any, key: str = "judge") -> httpx.Response:
        return self.post({"resourceLogs": [{"scopeLogs": [{"logRecords": list(records)}]}]}, key=key, path="/v1/logs")

    def decisions(self, most: int = 10_000) -> list[Decision]:
        with self.running.open() as project:
            return [one for one in project.query.latest("route", most) if one.key.endswith(self.test)]

    def signals(self, decision: str) -> dict[str, tuple[float | None, str]]:
        with self.running.open() as project:
            signals = project.query.signals(decision)
            return {one.name: (one.value, one.rater.removesuffix(self.test)) for one in signals}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("door")
    (folder / "headway.toml").write_text(TOML)
    running = Running(folder)
    yield running
    assert "Traceback" not in running.stop()


_tests = count()


@pytest.fixture
def door(running: Running) -> Door:
    return Door(running, next(_tests))


@pytest.fixture
def tracing(door: Door) -> Iterator[Callable[..., TracerProvider]]:
    """Providers of the OpenTelemetry SDK that export to the door."""
    made: list[TracerProvider] = []

    def start(key: str = "app", compression: Compression = Compression.NoCompression) -> TracerProvider:
        url = f"{door.running.url}/v1/traces"
        exporter = OTLPSpanExporter(url, headers=door.headers(key), compression=compression)
        made.append(TracerProvider())
        made[-1].add_span_processor(BatchSpanProcessor(exporter))
        return made[-1]

    yield start
    for provider in made:
        provider.shutdown()


def call(provider: TracerProvider, **more: Any) -> Span:
    messages = [{"role": "user", "parts": [{"type": "text", "content": "Prove it"}]}]
    span = provider.get_tracer("app").start_span(
        "chat",
        attributes={
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "small-model",
            "gen_ai.usage.input_tokens": 1000,
            "gen_ai.usage.output_tokens": 100,
            "gen_ai.usage.cache_read.input_tokens": 600,
            "gen_ai.input.messages": json.dumps(messages),
            "app.difficulty": 0.7,
            "app.stars": 4,
            **more,
        },
    )
    span.end()
    return span


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
def test_a_call_of_a_model_is_a_decision_with_its_tokens_and_price(
    door: Door, tracing: Callable[..., TracerProvider], compression: Compression
) -> None:
    provider = tracing(compression=compression)
    call(provider)
    provider.get_tracer("app").start_span("tool", attributes={"gen_ai.operation.name": "execute_tool"}).end()
    assert provider.force_flush()
    (decision,) = door.decisions()
    assert (decision.action, decision.situation.text) == ("small", "Prove it")
    assert dict(decision.situation.state) == {"app.difficulty": 0.7}
    assert [candidate.name for candidate in decision.candidates] == ["small", "large"]
    assert (decision.source, decision.key, decision.propensity_known) == ("imported", f"app{door.test}", False)
    signals = door.signals(decision.id)
    assert signals["cached_tokens"] == (600.0, "app")
    assert signals["cost_usd"][0] == pytest.approx((400 * 2.0 + 600 * 0.5 + 100 * 4.0) / 1e6)
    assert signals["stars_given"] == (4.0, "app")
    assert "failed" not in signals


def test_a_failed_call_has_failed(door: Door, tracing: Callable[..., TracerProvider]) -> None:
    provider = tracing()
    span = provider.get_tracer("app").start_span("chat", attributes={"gen_ai.request.model": "large-model"})
    span.set_status(Status(StatusCode.ERROR, "overloaded"))
    span.end()
    assert provider.force_flush()
    (decision,) = door.decisions()
    assert decision.action == "large"
    assert door.signals(decision.id)["failed"][0] == 1.0


def test_a_span_that_carries_a_draw_keeps_its_probabilities(door: Door, tracing: Callable[..., TracerProvider]) -> None:
    provider = tracing()
    identifier = f"dec_{7:032x}"
    drawn = {"headway.candidates": ["small", "large"], "headway.probabilities": [0.8, 0.2]}
    call(provider, **{"headway.decision": identifier, "headway.action": "small", **drawn})
    call(provider, **{"headway.action": "small", **drawn, "headway.probabilities": [0.0, 1.0]})
    provider.force_flush()
    (decision,) = door.decisions()
    assert (decision.id, decision.propensity, decision.probabilities) == (identifier, 0.8, (0.8, 0.2))
    assert decision.claimed
    assert door.signals(decision.id)["cost_usd"][0] == pytest.approx((400 * 2.0 + 600 * 0.5 + 100 * 4.0) / 1e6)


def test_a_batch_that_is_sent_again_adds_nothing(door: Door) -> None:
    batch = [{**SPAN, "spanId": f"{number:016x}"} for number in range(1, 301)]
    for _ in range(3):
        answer = door.spans(*batch)
        assert (answer.status_code, answer.json()) == (200, {})
    assert len(door.decisions()) == 300


def test_evaluations_are_signals_in_any_order(door: Door) -> None:
    def result(**more: Any) -> dict[str, Any]:
        found = {"gen_ai.evaluation.name": {"stringValue": "Was it solved?"}, **more}
        attributes = [{"key": name, "value": value} for name, value in found.items()]
        named = {"eventName": "gen_ai.evaluation.result", "timeUnixNano": "1780000003000000000"}
        return {"traceId": "a" * 32, "spanId": "b" * 16, **named, "attributes": attributes}

    passed = result(**{"gen_ai.evaluation.score.label": {"stringValue": "pass"}})
    assert door.logs(passed).json() == {}  # before its span
    assert door.spans(SPAN, key="judge").json() == {}
    assert door.logs(passed).json() == {}
    (decision,) = door.decisions()
    assert door.signals(decision.id)["solved"] == (1.0, "judge")
    refused = door.logs(passed, key="app").json()["partialSuccess"]
    assert refused["rejectedLogRecords"] == "1"
    assert "scope signal" in refused["errorMessage"]
    assert door.logs(result()).json()["partialSuccess"]["rejectedLogRecords"] == "1"


def test_a_judge_rates_the_spans_of_another_key(door: Door) -> None:
    provider = LoggerProvider()
    url = f"{door.running.url}/v1/logs"
    provider.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter(url, headers=door.headers("judge"))))
    door.spans(SPAN)
    door.spans(SPAN, key="other")  # which would like to have the rating for itself
    event = {"name": "gen_ai.evaluation.result", "timeUnixNano": "1780000003000000000"}
    value = [
        {"key": "gen_ai.evaluation.name", "value": {"stringValue": "relevance"}},
        {"key": "gen_ai.evaluation.score.value", "value": {"doubleValue": 0.25}},
    ]
    rated = {**SPAN, "spanId": "c" * 16, "events": [{**event, "attributes": value}]}
    assert "scope signal" in door.spans(rated).json()["partialSuccess"]["errorMessage"]
    span = SpanContext(int("a" * 32, 16), int("b" * 16, 16), True, TraceFlags(1))
    provider.get_logger("judge").emit(
        event_name="gen_ai.evaluation.result",
        context=set_span_in_context(NonRecordingSpan(span)),
        attributes={"gen_ai.evaluation.name": "Was it solved?", "gen_ai.evaluation.score.value": 0.0},
    )
    assert provider.force_flush()
    provider.shutdown()
    told = [(one.key[:3], door.signals(one.id).get("solved")) for one in door.decisions()]
    assert sorted(told, key=str) == [("app", (0.0, "judge")), ("app", None), ("oth", (0.0, "judge"))]


def test_the_door_is_shut_without_the_scope(door: Door) -> None:
    nothing = {"content-type": "application/json"}
    assert door.running.client.post("/v1/traces", content=b"{}", headers=nothing).status_code == 401
    assert door.post({}, key="plain").status_code == 403
    assert door.post({}, media="text/plain").status_code == 415
    assert door.post({}).status_code == 200
    assert door.post(b"", media="application/x-protobuf").content == b""


def test_another_key_cannot_change_or_occupy_a_span(door: Door) -> None:
    stolen = {**SPAN, "attributes": [{"key": "gen_ai.request.model", "value": {"stringValue": "large-model"}}]}
    assert door.spans(stolen, key="other").json() == {}  # first
    assert door.spans(SPAN).json() == {}
    assert door.spans(stolen).json()["partialSuccess"]["rejectedSpans"] == "1"
    assert sorted((one.key[:3], one.action) for one in door.decisions()) == [("app", "small"), ("oth", "large")]


def test_wrong_ids_and_spans_are_refused_one_by_one(door: Door) -> None:
    odd = [{"traceId": "0" * 32}, {"spanId": "bb"}, {"traceId": ""}, {"startTimeUnixNano": "0"}]
    many = [{"key": f"k{number}", "value": {"intValue": "1"}} for number in range(MOST_ATTRIBUTES + 1)]
    bad = [
        *odd,
        {"attributes": many},
        {"attributes": [*SPAN["attributes"], {"key": "headway.task", "value": {"stringValue": "x"}}]},
    ]
    answer = door.spans(*({**SPAN, **more} for more in bad), SPAN)
    assert answer.json()["partialSuccess"]["rejectedSpans"] == str(len(bad)), answer.text
    assert len(door.decisions()) == 1


def _field(number: int, data: bytes) -> bytes:
    size, parts = len(data), bytearray([number << 3 | 2])
    while size > 127:
        parts.append(size & 127 | 128)
        size >>= 7
    return bytes([*parts, size]) + data


def test_hostile_bodies_are_refused_before_they_take_memory(door: Door) -> None:
    protobuf = "application/x-protobuf"
    bomb = gzip.compress(bytes(100_000_000), 1)
    assert door.post(bomb, media=protobuf, **{"content-encoding": "gzip"}).status_code == 422
    spans = _field(1, _field(2, _field(2, b"") * (MOST_ROWS + 1)))
    assert door.post(spans, media=protobuf).json()["error"]["code"] == "too_many_spans"
    million = _field(9, _field(1, b"k")) * 1_000_000
    own = _field(1, bytes(range(1, 17))) + _field(2, bytes(range(1, 9)))
    answer = door.post(_field(1, _field(2, _field(2, own + million))), media=protobuf)
    told = ExportTraceServiceResponse.FromString(answer.content)
    assert told.partial_success.rejected_spans == 1
    deep = b""
    for _ in range(3000):
        deep = _field(5, _field(1, deep))
    nested = _field(1, _field(2, _field(2, own + _field(9, _field(1, b"k") + _field(2, deep)))))
    assert door.post(nested, media=protobuf).status_code == 422
    for body in (b"[" * 900_000, b'{"resourceSpans":' + b"[{}," * 300_000, b'{"resourceSpans": 7}', b"\xff" * 40):
        for media in (protobuf, "application/json"):
            assert door.post(body, media=media).status_code == 422, (body[:20], media)
    assert door.post(b"x" * 17_000_000, media=protobuf).status_code == 413
    assert door.spans(SPAN).json() == {}
