"""Server-sent events are parsed from any chunks, with a size limit."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from headway.kits.proxy.events import EventReader, event_bytes
from headway.kits.proxy.upstreams import UpstreamFailed

EVENTS = b'event: a\ndata: {"x":1}\n\n: comment\n\ndata: one\ndata: two\n\nid: 7\ndata:[DONE]\n\n'


@given(st.sampled_from([b"\n", b"\r\n"]), st.lists(st.integers(1, 9), min_size=1))
def test_the_chunks_of_the_bytes_make_no_difference(line: bytes, sizes: list[int]) -> None:
    raw = EVENTS.replace(b"\n", line)
    reader, events, start = EventReader("small", 1000), [], 0
    while start < len(raw):
        size = sizes[start % len(sizes)]
        events += reader.feed(raw[start : start + size])
        start += size
    reader.close()
    assert b"".join(event.raw for event in events) == raw
    assert [(event.name, event.data) for event in events] == [
        (b"a", b'{"x":1}'),
        (b"", None),
        (b"", b"one\ntwo"),
        (b"", b"[DONE]"),
    ]


@given(st.lists(st.binary(max_size=40)))
def test_any_bytes_can_be_parsed(pieces: list[bytes]) -> None:
    reader = EventReader("small", 10_000)
    events = [event for piece in pieces for event in reader.feed(piece)]
    assert b"".join(event.raw for event in events) == b"".join(pieces)[: sum(len(event.raw) for event in events)]


def test_an_event_has_a_largest_size() -> None:
    reader = EventReader("small", 100)
    reader.feed(b"data: " + b"x" * 90)
    with pytest.raises(UpstreamFailed, match="more than 100 bytes"):
        reader.feed(b"x" * 10)


def test_a_partial_event_at_the_end_is_reported() -> None:
    reader = EventReader("small", 100)
    reader.feed(b"data: x\n")
    with pytest.raises(UpstreamFailed, match="broke off"):
        reader.close()


def test_data_can_never_start_another_event() -> None:
    assert event_bytes(b"a", b'{"x":\r\n 1}') == b'event: a\ndata: {"x":  1}\n\n'
