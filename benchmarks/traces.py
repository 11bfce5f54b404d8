"""The door for traces: CPU per span, beside a bare import of the same rows from a file.

    python benchmarks/traces.py --json            # 10,000 spans, some seconds each way
    python benchmarks/traces.py --quick --json    # 2,000

The peer is our own `import_file`: the same decisions and signals as JSON lines in Headway's format. The spans are what
OpenTelemetry's exporter sends, in batches of 512, as protobuf and as JSON. Both end in the same store, durable. CPU
time of one process, the median of rounds that take turns. `decode` is the part that reads the bytes; beside it, the
parse of the protobuf package, which checks no limit and makes no dictionary.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from _contract import arguments, finish, say
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

import headway
from headway.kits.data import ExportFilter, export
from headway.kits.otel.ingest import ingest
from headway.kits.otel.otlp import decoded

BATCH = 512
TOML = '[tasks.route]\nactions = ["small", "large"]\n[traces]\ntask = "route"\n'
PROTOBUF, JSON = "application/x-protobuf", "application/json"


def batches(count: int) -> list[bytes]:
    """Spans of calls as an instrumented program sends them: 13 attributes, a message of 90 characters."""
    made = []
    for first in range(0, count, BATCH):
        request = ExportTraceServiceRequest()
        spans = request.resource_spans.add().scope_spans.add().spans
        for number in range(first, min(first + BATCH, count)):
            said = [{"role": "user", "content": f"Which of these {number} invoices was paid twice, and by whom?"}]
            attributes: dict[str, str | int | float] = {
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": "openai",
                "gen_ai.request.model": ("small", "large")[number % 3 == 0],
                "gen_ai.response.model": "a-model-2024-08-06",
                "gen_ai.response.id": f"chatcmpl-{number}",
                "gen_ai.request.temperature": 0.7,
                "gen_ai.usage.input_tokens": number % 977,
                "gen_ai.usage.output_tokens": 77,
                "gen_ai.usage.cache_read.input_tokens": 5,
                "gen_ai.usage.cost": 0.001,
                "gen_ai.input.messages": json.dumps(said),
                "server.address": "api.example.com",
                "server.port": 443,
            }
            span = spans.add()
            span.trace_id, span.span_id = (number + 1).to_bytes(16, "big"), (number + 1).to_bytes(8, "big")
            span.name, span.start_time_unix_nano = "chat", (1_780_000_000 + number) * 10**9
            span.end_time_unix_nano = span.start_time_unix_nano + 10**9
            for key, value in attributes.items():
                kind = {str: "string_value", int: "int_value", float: "double_value"}[type(value)]
                span.attributes.append(KeyValue(key=key, value=AnyValue(**{kind: value})))
        made.append(request.SerializeToString())
    return made


def as_json(body: bytes) -> bytes:
    document = MessageToDict(ExportTraceServiceRequest.FromString(body))
    for span in document["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        number = (int(span["startTimeUnixNano"]) // 10**9) - 1_780_000_000 + 1
        span["traceId"], span["spanId"] = f"{number:032x}", f"{number:016x}"  # hex in OTLP, base64 in protobuf's JSON
    return json.dumps(document).encode()


def timed(work: Callable[[headway.Project], int], count: int) -> float:
    """Microseconds of CPU per row, in a new project."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "headway.toml").write_text(TOML)
        with headway.open(folder, environ={}) as project:
            began = time.process_time()
            stored = work(project)
            took = time.process_time() - began
    assert stored == count, (stored, count)
    return took / count * 1e6


def door(bodies: list[bytes], media: str) -> Callable[[headway.Project], int]:
    def work(project: headway.Project) -> int:
        return sum(
            ingest(project, decoded(body, media, logs=False), key="app", rates=False).fates["new"] for body in bodies
        )

    return work


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    count = 2_000 if options.quick else 10_000
    protobuf = batches(count)
    texts = [as_json(body) for body in protobuf]
    with tempfile.TemporaryDirectory() as folder:
        rows, source = Path(folder) / "rows.jsonl", Path(folder) / "source"
        source.mkdir()
        (source / "headway.toml").write_text(TOML)
        with headway.open(source, environ={}) as project:
            door(protobuf, PROTOBUF)(project)
            export(project.database, project.query, rows, ExportFilter(), now=project.clock())
        times: dict[str, list[float]] = {}
        for _ in range(3 if options.quick else 5):
            for name, work in {
                "import": lambda project: project.import_file(rows).stored,
                "protobuf": door(protobuf, PROTOBUF),
                "json": door(texts, JSON),
            }.items():
                times.setdefault(name, []).append(timed(work, count))
            for name, read in {
                "decode_protobuf": lambda body: decoded(body, PROTOBUF, logs=False),
                "parse_of_the_package": ExportTraceServiceRequest.FromString,
            }.items():
                began = time.process_time()
                for body in protobuf:
                    read(body)
                times.setdefault(name, []).append((time.process_time() - began) / count * 1e6)
    figures = {f"{name}_us_per_span": round(statistics.median(values), 1) for name, values in times.items()}
    for name, value in figures.items():
        say(f"{name}: {value:g}")
    finish(
        "traces",
        figures={**figures, "spans": count, "bytes_per_span": round(sum(map(len, protobuf)) / count)},
        ratios={
            "protobuf_vs_import": round(figures["import_us_per_span"] / figures["protobuf_us_per_span"], 3),
            "json_vs_import": round(figures["import_us_per_span"] / figures["json_us_per_span"], 3),
        },
        packages=("opentelemetry-proto", "protobuf"),
        as_json=options.json,
    )


if __name__ == "__main__":
    main()
