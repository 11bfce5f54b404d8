"""/v1/traces and /v1/logs: OTLP over HTTP, for keys with the scope `ingest`.

What is wrong with single spans is in the answer's `partial_success`, and the rest is stored. Nothing that reads a body
is imported before the first one comes.
"""

from __future__ import annotations

import json

from headway.serve import Call, Reply, endpoint

JSON, PROTOBUF = "application/json", "application/x-protobuf"


@endpoint("POST", "/v1/traces", takes=bytes, gives=dict, accepts=(PROTOBUF, JSON), scope="ingest", batch=True)
async def traces(call: Call, body: bytes) -> Reply:
    """OTLP spans: calls of models become decisions, evaluations become signals."""
    return await call.in_thread(_answered, call, body, False)


@endpoint("POST", "/v1/logs", takes=bytes, gives=dict, accepts=(PROTOBUF, JSON), scope="ingest", batch=True)
async def logs(call: Call, body: bytes) -> Reply:
    """OTLP log records: the events gen_ai.evaluation.result become signals, others are left out."""
    return await call.in_thread(_answered, call, body, True)


def _answered(call: Call, body: bytes, logs: bool) -> Reply:
    from headway.kits.otel.ingest import ingest
    from headway.kits.otel.otlp import decoded, unpacked

    media = call.header("content-type").partition(";")[0].strip().lower()
    data = unpacked(body, call.header("content-encoding").lower(), call.server.settings.max_batch_bytes)
    rows = decoded(data, media, logs=logs)
    report = ingest(
        call.server.project,
        rows,
        key=call.key,
        rates="signal" in call.scopes,
        logs=logs,
        senders=lambda: [one.name for one in call.server.keys.list() if "ingest" in one.scopes],
    )
    for what, count in (("decisions", report.fates["new"]), ("signals", report.fates["signals"])):
        if count:
            call.server.metrics.count(what, "all", count)
    refused = report.refused.total()
    why = "; ".join(f"{count} refused: {reason}" for reason, count in report.refused.most_common(5))[:1000]
    if media == JSON:
        name = "rejectedLogRecords" if logs else "rejectedSpans"
        told = {"partialSuccess": {name: str(refused), "errorMessage": why}} if refused else {}
        return Reply(body=json.dumps(told).encode())
    inner = _varint(8) + _varint(refused) + _varint(18) + _varint(len(why.encode())) + why.encode()
    return Reply(body=_varint(10) + _varint(len(inner)) + inner if refused else b"", media=PROTOBUF)


def _varint(number: int) -> bytes:
    parts = bytearray()
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes((*parts, number))
