"""Bad neighbours beside a good client.

    python -m tests.attacks.neighbours [--readers 1000] [--writers 1000] [--idle 2000] [--requests 1000]

Slow readers ask for the largest file and never read; slow writers send a body byte by byte; the idle send nothing. The
good client decides over one connection per request and over a kept one, with and without a key, and asks for /health.
Its times are compared with those of the same client alone.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass

import httpx

import headway
from tests.attacks.server import ASK, Target, target

__all__ = ["Neighbours", "attack"]

JSON = {"content-type": "application/json"}


@dataclass(frozen=True, kw_only=True)
class Neighbours:
    """What the good client saw."""

    readers: int
    writers: int
    idle: int
    alone_ms: float  # medians
    beside_ms: float
    ratio: float
    health_ms: float  # the longest
    answered: int
    refused: int
    lost: int  # answered decisions that are not in the store
    memory_mb: float


class Crowd:
    """The neighbours; a thread keeps the slow writers writing."""

    def __init__(self, server: Target, readers: int, writers: int, idle: int) -> None:
        get = f"GET {server.asset()} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
        head = b"POST /v1/decisions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        self._writers = [server.connect(head + b"Content-Length: 5000\r\n\r\n{") for _ in range(writers)]
        self._others = [server.connect() for _ in range(idle)]
        self._others += [server.connect(get, receive_bytes=1024) for _ in range(readers)]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        for connection in (*self._writers, *self._others):
            connection.close()

    def _write(self) -> None:
        while not self._ended.wait(1.0):
            for connection in self._writers:
                with suppress(OSError):
                    connection.send(b" ")


def attack(*, readers: int, writers: int, idle: int, requests: int) -> Neighbours:
    with target() as server, ExitStack() as stack:
        kept = stack.enter_context(httpx.Client(base_url=server.url, headers=JSON, timeout=60))
        _decide(server, kept, requests // 4)  # warm
        alone, ids, _ = _decide(server, kept, requests)
        with Crowd(server, readers, writers, idle):
            beside, more, refused = _decide(server, kept, requests)
            health = [httpx.get(f"{server.url}/health", timeout=60).elapsed.total_seconds() for _ in range(20)]
            memory = server.memory_mb()
        with headway.open(server.folder) as project:
            stored = {decision.id for decision in project.query.latest(None, 10**6)}
        return Neighbours(
            readers=readers,
            writers=writers,
            idle=idle,
            alone_ms=statistics.median(alone) * 1e3,
            beside_ms=statistics.median(beside) * 1e3,
            ratio=statistics.median(beside) / statistics.median(alone),
            health_ms=max(health) * 1e3,
            answered=len(ids) + len(more),
            refused=refused,
            lost=len({*ids, *more} - stored),
            memory_mb=round(memory, 1),
        )


def _decide(server: Target, kept: httpx.Client, requests: int) -> tuple[list[float], list[str], int]:
    """Times, ids and refusals: in turn over a new connection, and the kept one with and without a key."""
    times, ids, refused = [], [], 0
    for number in range(requests):
        began = time.perf_counter()
        if number % 3 == 0:
            answer = httpx.post(f"{server.url}/v1/decisions", content=ASK, headers=JSON, timeout=60)
        else:
            key = server.token if number % 3 == 1 else {}
            answer = kept.post("/v1/decisions", content=ASK, headers=key)
        times.append(time.perf_counter() - began)
        if answer.status_code == 201:
            ids.append(answer.json()["id"])
        else:
            refused += 1
    return times, ids, refused


def main() -> None:
    parser = argparse.ArgumentParser(description="Bad neighbours beside a good client.")
    for name, value in {"readers": 1000, "writers": 1000, "idle": 2000, "requests": 1000}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    sys.stdout.write(json.dumps(asdict(attack(**vars(parser.parse_args())))) + "\n")


if __name__ == "__main__":
    main()
