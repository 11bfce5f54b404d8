"""A client that sends requests as fast as it can over many connections, and keeps the answers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

__all__ = ["hammer"]


async def _one(port: int, bodies: list[bytes], answers: list[tuple[int, dict[str, Any]]], stop: asyncio.Event) -> None:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return
    turn = 0
    try:
        while not stop.is_set():
            body = bodies[turn % len(bodies)]
            turn += 1
            writer.write(
                b"POST /v1/decisions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
            )
            head = await reader.readuntil(b"\r\n\r\n")
            status = int(head[9:12])
            length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
            answers.append((status, json.loads(await reader.readexactly(length))))
    except (OSError, asyncio.IncompleteReadError):
        pass  # the server was killed
    finally:
        writer.close()


async def _all(port: int, connections: int, bodies: list[bytes], enough: int) -> list[tuple[int, dict[str, Any]]]:
    answers: list[tuple[int, dict[str, Any]]] = []
    stop = asyncio.Event()
    tasks = [asyncio.ensure_future(_one(port, bodies, answers, stop)) for _ in range(connections)]
    while len(answers) < enough and not all(task.done() for task in tasks):
        await asyncio.wait(tasks, timeout=0.01)
    stop.set()
    await asyncio.wait(tasks)
    return answers


def hammer(port: int, connections: int, asks: list[dict[str, Any]], enough: int) -> list[tuple[int, dict[str, Any]]]:
    """(status, body) of every complete answer, until there are enough or the server has ended."""
    return asyncio.run(_all(port, connections, [json.dumps(ask).encode() for ask in asks], enough))
