"""A small real model server for tests: OpenAI's and Anthropic's wire formats, streamed and not, and ways to fail.

The first part of the path sets its behaviour: http://127.0.0.1:PORT/ok/v1/chat/completions answers, /status-503/v1/…
fails, /forever/v1/… never ends. Everything it received is in `received`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

WORDS = ["Good", " morning", ", world", "."]
USAGE = (11, 4)  # tokens read and written
# Written by hand: its numbers and escapes must arrive unchanged.
ODD = '"odd":{"a":1.50,"b":1E2,"c":12345678901234567890123,"d":"caf\\u00e9","e":[ 1 , 2 ]}'


@dataclass
class Received:
    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.raw)


class Upstream:
    """Runs in a separate thread on a free port."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.gone = threading.Event()  # a client disconnected in the middle of an answer
        self.sent = 0  # bytes of the answers that never end
        self._loop = asyncio.new_event_loop()
        self._go: asyncio.Event | None = None
        ready: threading.Event = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        self._thread.start()
        ready.wait()

    def _run(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)

        async def start() -> None:
            self._go = asyncio.Event()
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
            self.port: int = self._server.sockets[0].getsockname()[1]
            ready.set()

        self._loop.run_until_complete(start())
        self._loop.run_forever()
        self._loop.close()

    def url(self, how: str = "ok") -> str:
        return f"http://127.0.0.1:{self.port}/{how}/v1"

    def release(self) -> None:
        """Releases an answer that waits (`gated`)."""
        assert self._go is not None
        self._loop.call_soon_threadsafe(self._go.set)

    def forget(self) -> None:
        self.received.clear()
        self.gone.clear()
        self.sent = 0
        assert self._go is not None
        self._loop.call_soon_threadsafe(self._go.clear)

    def stop(self) -> None:
        async def stop() -> None:
            self._server.close()
            for all_task in asyncio.all_tasks():
                if all_task is not asyncio.current_task():
                    all_task.cancel()
            await asyncio.sleep(0)
            self._loop.stop()

        asyncio.run_coroutine_threadsafe(stop(), self._loop)
        self._thread.join()

    # -- one connection

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while request := await _read(reader):
                self.received.append(request)
                if not await self._answer(request, reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            self.gone.set()
        except asyncio.CancelledError:
            pass
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _answer(self, request: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Returns True if the connection can be reused."""
        how, _, endpoint = request.path.partition("?")[0].strip("/").partition("/v1/")
        how, body = how.split("/")[-1], request.json
        model = body.get("model", "")
        speaker = {"chat/completions": _chat, "responses": _response, "messages": _message}[endpoint]
        key = request.headers.get("authorization", request.headers.get("x-api-key", "")).encode()
        if how == "repeats-key":
            head = b"x-request-id: " + key.replace(b"Bearer ", b"") + b"\r\n"
            return await _whole(writer, 400, b'{"error":{"message":"bad key: %s"}}' % key, head)
        if how.startswith("status-"):
            return await _whole(writer, int(how[7:]), b'{"error":{"message":"secret words of the upstream"}}')
        simple: dict[str, Callable[[], Any]] = {
            "redirect": lambda: _whole(
                writer, 302, b"", f"location: {self.url()}/{endpoint}\r\nset-cookie: a=b\r\n".encode()
            ),
            "refuse": lambda: _whole(writer, 400, b'{"error":{"message":"no such tool",  "code":"bad_tool"}}'),
            "refuse-html": lambda: _whole(writer, 400, b"<b>no</b>"),
            "small-window": lambda: _whole(writer, 400, b'{"error":{"code":"context_length_exceeded"}}'),
            "malformed": lambda: _whole(writer, 200, b'{"id":"x", choices'),
            "not-an-answer": lambda: _whole(writer, 200, b'{"hello":"world"}'),
            "deep": lambda: _whole(writer, 200, b'{"id":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
            "gzip": lambda: _whole(writer, 200, b"\x1f\x8b", b"content-encoding: gzip\r\n"),
            "huge": lambda: _whole(writer, 200, b'{"id":"' + b"x" * 300_000 + b'"}'),
            "lying-length": lambda: _head(writer, 200, b"content-length: 1000000000\r\n"),
            "silent": lambda: self._until_gone(reader),
        }
        if how in simple:
            return bool(await simple[how]())
        if not body.get("stream"):
            if how == "gated":
                assert self._go is not None
                await self._go.wait()
            extra = b"x-request-id: req_17\r\nset-cookie: session=1\r\nx-evil: yes\r\n" if how == "ok" else b""
            if how == "odd-headers":
                extra = b"x-request-id: caf\xc3\xa9\x01\r\n"
            return await _whole(writer, 200, speaker(body, model, how).encode(), extra)
        await _head(writer, 200, b"content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n")
        events = speaker(body, model, how, stream=True)
        if how == "streams-key":  # in two pieces
            text = events[1].replace(WORDS[0], key.decode())
            half = text.index(key.decode()) + len(key) // 2
            await _chunk(writer, (events[0] + text[:half]).encode())
            events = [text[half:], *events[2:]]
        return await self._stream(how, events, reader, writer)

    async def _until_gone(self, reader: asyncio.StreamReader) -> None:
        await reader.read()
        self.gone.set()

    async def _stream(
        self, how: str, events: list[str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        first, last = events[0].encode(), events[-1].encode()
        if how == "gated":
            for event in events[:2]:
                await _chunk(writer, event.encode())
            assert self._go is not None
            await self._go.wait()
            events = events[2:]
        elif how in ("forever", "forever-quiet", "comments"):
            piece = {"forever": events[1].encode(), "forever-quiet": b"", "comments": b": still here\n\n"}[how]
            if how != "comments":
                await _chunk(writer, first)
            leaving = asyncio.ensure_future(reader.read())
            while not leaving.done():
                if piece:
                    await _chunk(writer, piece)
                    self.sent += len(piece)
                await asyncio.wait({leaving}, timeout=0 if how == "forever" else 0.01)
            self.gone.set()
            return False
        elif how == "never-closes":
            for event in events:
                await _chunk(writer, event.encode())
            await reader.read()
            self.gone.set()
            return False
        elif how == "bad-sse":
            events = [events[0], "data: {not json}\n\n", events[-1]]
        elif how == "bad-sse-first":
            events = ["data: {not json}\n\n"]
        elif how == "not-utf8":
            await _chunk(writer, first)
            await _chunk(writer, b'data: {"id":"\xff"}\n\n')
            events = []
        elif how == "huge-event":
            await _chunk(writer, first)
            with contextlib.suppress(ConnectionError):
                for _ in range(100):
                    await _chunk(writer, b"data: " + b"x" * 10_000)
            return False
        elif how == "error-first":
            events = ['event: error\ndata: {"type":"error","error":{"message":"overloaded"}}\n\n']
        elif how == "error-later":
            events = [*events[:2], 'event: error\ndata: {"type":"error","error":{"message":"overloaded"}}\n\n']
        elif how == "cut":
            await _chunk(writer, first + last[:5])
            writer.write(b"5\r\nab")
            await writer.drain()
            return False
        elif how == "unfinished":
            events = events[:2]
        elif how == "no-done":
            events = events[:-1]
        elif how == "empty":
            events = []
        elif how == "in-pieces":
            for byte in "".join(events).replace("\n", "\r\n").encode():
                await _chunk(writer, bytes([byte]))
            events = []
        for event in events:
            await _chunk(writer, event.encode())
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


async def _read(reader: asyncio.StreamReader) -> Received | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    return Received(head[0].split(" ")[1], headers, await reader.readexactly(int(headers.get("content-length", "0"))))


async def _head(writer: asyncio.StreamWriter, status: int, extra: bytes) -> None:
    writer.write(b"HTTP/1.1 %d Whatever\r\n%s\r\n" % (status, extra))
    await writer.drain()


async def _whole(writer: asyncio.StreamWriter, status: int, body: bytes, extra: bytes = b"") -> bool:
    length = b"content-type: application/json\r\ncontent-length: %d\r\n" % len(body)
    await _head(writer, status, length + extra)
    writer.write(body)
    await writer.drain()
    return True


async def _chunk(writer: asyncio.StreamWriter, body: bytes) -> None:
    writer.write(b"%x\r\n%s\r\n" % (len(body), body))
    await writer.drain()


# -- the three formats


def _words(body: dict[str, Any], how: str) -> list[str]:
    """What it says: always the same, or (`echo`) the request's last text, in pieces of seven characters."""
    if how != "echo":
        return WORDS
    asked = body.get("input") or body["messages"][-1]["content"]
    return [asked[start : start + 7] for start in range(0, len(asked), 7)]


def _chat(body: dict[str, Any], model: str, how: str, *, stream: bool = False) -> Any:
    words = _words(body, how)
    tools = body.get("tools")
    usage = {"prompt_tokens": USAGE[0], "completion_tokens": USAGE[1], "total_tokens": sum(USAGE)}
    head = f'"id":"chatcmpl-7","created":1700000000,"model":"{model}-2024"'
    tool = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"at":"sky"}'}}
    if not stream:
        message: dict[str, Any] = {"role": "assistant", "content": "".join(words)}
        if tools:
            message = {"role": "assistant", "content": None, "tool_calls": [tool]}
        if body.get("response_format"):
            message["content"] = '{"answer": 42}'
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if tools else "stop"}
        counted = f',"usage":{json.dumps(usage)}' if how != "no-usage" else ""
        return f'{{{head},"object":"chat.completion","choices":[{json.dumps(choice)}]{counted},{ODD}}}'
    chunks = []

    def chunk(delta: dict[str, Any], finish: str | None = None) -> None:
        choice = json.dumps({"index": 0, "delta": delta, "finish_reason": finish})
        chunks.append(f'data: {{{head},"object":"chat.completion.chunk","choices":[{choice}],{ODD}}}\n\n')

    chunk({"role": "assistant", "content": ""})
    if tools:
        chunk({"tool_calls": [{"index": 0, **tool}]})
    else:
        for word in words:
            chunk({"content": word})
    chunk({}, "tool_calls" if tools else "stop")
    if (body.get("stream_options") or {}).get("include_usage") and how != "no-usage":
        chunks.append(f'data: {{{head},"object":"chat.completion.chunk","choices":[],"usage":{json.dumps(usage)}}}\n\n')
    chunks.append("data: [DONE]\n\n")
    return chunks


def _response(body: dict[str, Any], model: str, how: str, *, stream: bool = False) -> Any:
    words = _words(body, how)

    def response(status: str) -> dict[str, Any]:
        item = {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "".join(words), "annotations": []}],
        }
        counted = {"input_tokens": USAGE[0], "output_tokens": USAGE[1], "total_tokens": sum(USAGE)}
        details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        done = status == "completed"
        return {
            "id": f"resp_{len(str(body))}",
            "object": "response",
            "created_at": 1700000000,
            "status": status,
            "model": model,
            "output": [item] if done else [],
            "usage": {**counted, **details} if done else None,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "previous_response_id": body.get("previous_response_id"),
        }

    if not stream:
        return json.dumps(response("failed" if how == "says-failed" else "completed"))[:-1] + f",{ODD}}}"
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    last = "failed" if how == "says-failed-later" else "completed"
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "in_progress", "content": []}
    part = {"type": "output_text", "text": "", "annotations": []}
    rows: list[dict[str, Any]] = [
        {"type": "response.created", "response": response("in_progress")},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.content_part.added", "part": part, **place},
        *({"type": "response.output_text.delta", "delta": word, "logprobs": [], **place} for word in words),
        {"type": f"response.{last}", "response": response(last)},
    ]
    return [
        f"event: {row['type']}\ndata: {json.dumps({**row, 'sequence_number': number})}\n\n"
        for number, row in enumerate(rows)
    ]


def _message(body: dict[str, Any], model: str, how: str, *, stream: bool = False) -> Any:
    words = _words(body, how)
    message = {
        "id": "msg_9",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [{"type": "text", "text": "".join(words)}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": USAGE[0] - 3, "cache_read_input_tokens": 3, "output_tokens": USAGE[1]},
    }
    if not stream:
        return json.dumps(message)[:-1] + f",{ODD}}}"
    counted = {"input_tokens": USAGE[0] - 3, "cache_read_input_tokens": 3, "output_tokens": 1}
    start = {**message, "content": [], "stop_reason": None, "usage": counted}
    rows: list[dict[str, Any]] = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}} for word in words),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": USAGE[1]},
        },
        {"type": "message_stop"},
    ]
    return [f"event: {row['type']}\ndata: {json.dumps(row)}\n\n" for row in rows]
