"""OTLP requests, protobuf or JSON, as spans and log records; bounded before anything is built.

    decoded(body, "application/x-protobuf", logs=False)     # Span per span; a text for one that cannot be used

Protobuf becomes the dictionaries of OTLP's JSON by the 60 lines below, not by the protobuf package: that one builds
every message before a limit can be checked (16 MB of empty spans become 8 million objects), and the door would need a
package that a project without OpenTelemetry does not have. Fields that are not used are skipped without being read.

Not covered: metrics, profiles, groups (of protobuf 2).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from headway.nouns import errors

MOST_ATTRIBUTES = 1024  # of one span, log record or list
MOST_ROWS = 20_000  # of one request
MOST_VALUES = 600_000  # of one request, in all attributes
_MOST_DEPTH = 16  # of messages in one another
_DOUBLE, _FIXED = struct.Struct("<d"), struct.Struct("<Q")
_SMALLER = "Send smaller batches: OTEL_BSP_MAX_EXPORT_BATCH_SIZE=512."
_REFUSED = f"more than {MOST_ATTRIBUTES:,} attributes or values in one list"


class SpanEvent(NamedTuple):
    name: str
    at: float
    attributes: Mapping[str, Any]


class Span(NamedTuple):
    """A span, or a log record, which has no end and no events and may belong to no span."""

    trace: str  # hex
    id: str
    name: str
    at: float  # seconds since the epoch
    ended: float
    attributes: Mapping[str, Any]
    events: tuple[SpanEvent, ...] = ()
    failed: bool = False


def unpacked(body: bytes, encoding: str, most: int) -> bytes:
    """The body without its compression; at most so many bytes, however small it came."""
    if encoding in ("", "identity"):
        return body
    if encoding not in ("gzip", "deflate"):
        raise _bad(f"The encoding {encoding[:40]!r} is not read.", "Send gzip, or no Content-Encoding.")
    unpacking = zlib.decompressobj(47)  # gzip or zlib, by its header
    try:
        data = unpacking.decompress(body, most + 1)
    except zlib.error as error:
        raise _bad(f"The body is not {encoding}: {error}.") from None
    if len(data) > most:
        raise _too_many(f"{most:,} bytes when it is unpacked")
    if not unpacking.eof:
        raise _bad(f"The {encoding} body ends too early.")
    return data


def _bad(message: str, hint: str = "The body is an OTLP request, in protobuf or JSON.") -> errors.InvalidInput:
    return errors.InvalidInput(message, code="bad_otlp", hint=hint)


def _too_many(what: str) -> errors.InvalidInput:
    return errors.InvalidInput(f"The body has more than {what}.", code="too_many_spans", hint=_SMALLER)


class _LongListError(Exception):
    """One span has too much; the others can be read."""


def decoded(body: bytes, media: str, *, logs: bool) -> list[Span | str]:
    """Every span or log record of a request; a text says why one cannot be used."""
    try:
        if media == "application/json":
            if body.count(b"{") + body.count(b"[") > 3 * MOST_VALUES:
                raise _too_many(f"{MOST_VALUES:,} values")
            document = msgspec.json.decode(body)
        else:
            document = _Protobuf(body).message("logs" if logs else "traces", 0, len(body))
        return list(_rows(document, logs))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, struct.error, IndexError) as error:
        raise _bad(f"The body cannot be read: {error}.") from None
    except (ValueError, AttributeError, TypeError, OverflowError, _LongListError) as error:
        raise _bad(f"A field of the body has the wrong type: {error}.") from None


# -- protobuf: number → name in JSON, and type; "Type" is a message, ["Type"] a list of them

_WIRE: Mapping[str, Mapping[int, tuple[str, Any]]] = {
    "traces": {1: ("resourceSpans", ["spans of a resource"])},
    "spans of a resource": {1: ("resource", "resource"), 2: ("scopeSpans", ["spans"])},
    "spans": {2: ("spans", ["Span"])},
    "logs": {1: ("resourceLogs", ["logs of a resource"])},
    "logs of a resource": {1: ("resource", "resource"), 2: ("scopeLogs", ["records"])},
    "records": {2: ("logRecords", ["LogRecord"])},
    "resource": {1: ("attributes", ["KeyValue"])},
    "Span": {
        1: ("traceId", bytes), 2: ("spanId", bytes), 5: ("name", str), 7: ("startTimeUnixNano", _FIXED),
        8: ("endTimeUnixNano", _FIXED), 9: ("attributes", ["KeyValue"]), 11: ("events", ["Event"]),
        15: ("status", "Status"),
    },
    "Event": {1: ("timeUnixNano", _FIXED), 2: ("name", str), 3: ("attributes", ["KeyValue"])},
    "Status": {3: ("code", int)},
    "LogRecord": {
        1: ("timeUnixNano", _FIXED), 6: ("attributes", ["KeyValue"]), 9: ("traceId", bytes), 10: ("spanId", bytes),
        11: ("observedTimeUnixNano", _FIXED), 12: ("eventName", str),
    },
    "KeyValue": {1: ("key", str), 2: ("value", "AnyValue")},
    "AnyValue": {
        1: ("stringValue", str), 2: ("boolValue", int), 3: ("intValue", int), 4: ("doubleValue", _DOUBLE),
        5: ("arrayValue", "values"), 6: ("kvlistValue", "pairs"),
    },
    "values": {1: ("values", ["AnyValue"])},
    "pairs": {1: ("values", ["KeyValue"])},
}  # fmt: skip


class _Protobuf:
    def __init__(self, body: bytes) -> None:
        self._body = body
        self._left = MOST_VALUES + 20 * MOST_ROWS  # messages

    def message(self, kind: str, place: int, end: int, depth: int = 0) -> dict[str, Any]:
        """The message between two places as the dictionary that JSON has for it."""
        self._left -= 1
        if self._left < 0:
            raise _too_many(f"{MOST_VALUES:,} values")
        if depth > _MOST_DEPTH:
            raise IndexError(f"messages are nested more than {_MOST_DEPTH} levels deep")
        body, fields, made = self._body, _WIRE[kind], dict[str, Any]()
        while place < end:
            tag, place = self._varint(place)
            wire, first = tag & 7, place
            if wire == 0:
                first, place = self._varint(place)
            elif wire == 2:
                size, first = self._varint(place)
                place = first + size
            elif wire == 1 or wire == 5:
                place += 8 if wire == 1 else 4
            else:
                raise IndexError(f"a field has the wire type {wire}")
            if place > end:
                raise IndexError("a field is longer than its message")
            name, what = fields.get(tag >> 3, ("", None))
            if what is None:
                continue
            if wire != (2 if isinstance(what, (str, list)) or what in (str, bytes) else 0 if what is int else 1):
                raise IndexError(f"{name} has the wire type {wire}")
            if what is str:
                made[name] = body[first:place].decode()
            elif isinstance(what, str):
                made[name] = self.message(what, first, place, depth + 1)
            elif isinstance(what, list):
                rows = made.setdefault(name, [])
                if len(rows) >= (MOST_ROWS if depth < 3 else MOST_ATTRIBUTES):
                    raise _too_many(f"{MOST_ROWS:,} spans") if depth < 3 else _LongListError
                try:
                    rows.append(self.message(what[0], first, place, depth + 1))
                except _LongListError:
                    if what[0] not in ("Span", "LogRecord"):
                        raise
                    rows.append(None)
            elif what is bytes:
                made[name] = body[first:place].hex()
            elif what is int:
                made[name] = first - (1 << 64) if first >> 63 else first
            else:
                (made[name],) = what.unpack_from(body, first)
        return made

    def _varint(self, place: int) -> tuple[int, int]:
        byte = self._body[place]
        if byte < 128:
            return byte, place + 1
        value = shift = 0
        while byte > 127 and shift < 63:
            value |= (byte & 127) << shift
            place, shift = place + 1, shift + 7
            byte = self._body[place]
        if byte > 127:
            raise IndexError("a number has more than 10 bytes")
        return (value | byte << shift) & (1 << 64) - 1, place + 1


# -- the dictionaries


def _rows(document: Mapping[str, Any], logs: bool) -> Iterator[Span | str]:
    """Of a request, whichever form it came in."""
    names = ("resourceLogs", "scopeLogs", "logRecords") if logs else ("resourceSpans", "scopeSpans", "spans")
    count = 0
    for group in document.get(names[0]) or ():
        resource = _attributes((group.get("resource") or {}).get("attributes"))
        for scope in group.get(names[1]) or ():
            rows = scope.get(names[2]) or ()
            count += len(rows)
            if count > MOST_ROWS:
                raise _too_many(f"{MOST_ROWS:,} spans")
            for row in rows:
                try:
                    yield _REFUSED if row is None else _span(row, resource, logs)
                except _LongListError:
                    yield _REFUSED


def _span(row: Mapping[str, Any], resource: Mapping[str, Any], logs: bool) -> Span | str:
    trace, span = str(row.get("traceId") or "").lower(), str(row.get("spanId") or "").lower()
    if not (logs and not trace and not span) and (
        len(bytes.fromhex(trace)) != 16 or len(bytes.fromhex(span)) != 8 or not int(trace, 16) or not int(span, 16)
    ):
        return f"trace id {trace[:40]!r} and span id {span[:40]!r}, expected 16 and 8 bytes, not all zero"
    listed = row.get("events") or ()
    if len(listed) > MOST_ATTRIBUTES:
        raise _LongListError
    return Span(
        trace,
        span,
        str(row.get("eventName" if logs else "name") or "")[:200],
        (_time(row, "timeUnixNano") or _time(row, "observedTimeUnixNano")) if logs else _time(row, "startTimeUnixNano"),
        _time(row, "endTimeUnixNano"),
        {**resource, **_attributes(row.get("attributes"))},
        tuple(
            SpanEvent(str(event.get("name")), _time(event, "timeUnixNano"), _attributes(event.get("attributes")))
            for event in listed
        ),
        (row.get("status") or {}).get("code") in (2, "STATUS_CODE_ERROR"),
    )


def _attributes(listed: Any, depth: int = 0) -> dict[str, Any]:
    listed = listed or ()
    if len(listed) > MOST_ATTRIBUTES:
        raise _LongListError
    return {str(one.get("key")): _value(one.get("value") or {}, depth) for one in listed}


def _value(value: Mapping[str, Any], depth: int) -> Any:
    if depth > _MOST_DEPTH:
        raise ValueError(f"values are nested more than {_MOST_DEPTH} levels deep")
    for kind, inner in value.items():
        if kind == "stringValue":
            return str(inner)
        if kind == "intValue":
            return int(inner)
        if kind == "doubleValue":
            return float(inner)
        if kind == "boolValue":
            return bool(inner)
        if kind == "arrayValue":
            listed = inner.get("values") or ()
            if len(listed) > MOST_ATTRIBUTES:
                raise _LongListError
            return [_value(one, depth + 1) for one in listed]
        if kind == "kvlistValue":
            return _attributes(inner.get("values"), depth + 1)
    return None


def _time(row: Mapping[str, Any], name: str) -> float:
    nanoseconds = int(row.get(name) or 0)
    if not 0 <= nanoseconds < 1 << 64:
        raise ValueError(f"{name} is {nanoseconds}, expected a 64-bit number")
    return nanoseconds / 1e9
