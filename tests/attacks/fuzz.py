"""Malformed and hostile requests, as bytes: no answer is a 500, and the server still answers afterwards.

    python -m tests.attacks.fuzz [--requests 20000] [--seed 1]

Every request goes to a route of the OpenAPI document, with and without the project token, with a body that is valid,
mutated, nested, repeated, cut off or no JSON at all, and headers that contradict one another.
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import httpx

from tests.attacks.server import Target, target

__all__ = ["attack"]

PLAIN: list[Any] = [
    None,
    True,
    -1,
    0,
    2**53,
    10**400,
    1e308,
    "",
    "a",
    "\0",
    "\ud800",
    "ż" * 300,
    "../..",
    [],
    {},
    ["a"],
]
BODY: dict[str, Any] = {
    "task": "route",
    "text": "t",
    "candidates": ["a", "b"],
    "state": {"x": 1},
    "episode": "e",
    "step": 0,
}
NAMES = [
    "task",
    "text",
    "candidates",
    "state",
    "id",
    "signals",
    "reward",
    "policy",
    "to",
    "why",
    "seed",
    "messages",
    "model",
]
HEADERS = [
    *(b"Content-Length: 7", b"Content-Length: -1", b"Content-Length: 99999999999999999999", b"Transfer-Encoding: gzip"),
    *(b"Origin: null", b"Cookie: headway_page=1.x.y", b"Expect: 100-continue", b"Upgrade: websocket", b"X: \xff\x00"),
    *(b"Authorization: Basic x", b"x-api-key: \xc3\xa9", b"Accept-Encoding: gzip", b"Range: bytes=0-", b"Host: evil"),
]
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"  # comes before the answer
PARAMETERS = ["route", "..%2f..", "%00", "dec_" + "0" * 32, "bandit@4f2a", "a" * 3000, "1" * 30, "%ff", "é"]


def attack(*, requests: int, seed: int) -> dict[str, Any]:
    rng = random.Random(seed)
    with target("[server]\nread_timeout_s = 0.5\n") as server, ThreadPoolExecutor(16) as threads:
        document = httpx.get(f"{server.url}/openapi.json").json()["paths"]
        routes = [(method.upper(), path) for path, methods in document.items() for method in methods]
        routes = [route for route in routes if route[1] != "/v1/events"]  # never ends
        token = server.token
        made = (_request(rng, routes, token) for _ in range(requests))
        statuses = Counter(threads.map(lambda request: _status(server, request), made))
        alive = httpx.get(f"{server.url}/health", timeout=60).status_code
        return {"requests": requests, "seed": seed, "alive": alive, "statuses": dict(sorted(statuses.items()))}


def _request(rng: random.Random, routes: list[tuple[str, str]], token: dict[str, str]) -> bytes:
    method, path = rng.choice(routes)
    while "{" in path:
        before, _, rest = path.partition("{")
        path = before + rng.choice(PARAMETERS) + rest.partition("}")[2]
    if rng.random() < 0.1:
        method = rng.choice(["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW", "get"])
    query = rng.choice(["", "", "", "?limit=1", "?limit=-1", "?task=route&task=x", "?%ff", "?a=%00", "?early=true"])
    body = _body(rng)
    lines = [f"{method} {path}{query} HTTP/1.1".encode(), b"Host: 127.0.0.1", b"Connection: close"]
    if rng.random() < 0.9:
        lines.append(b"Content-Type: application/json")
    if rng.random() < 0.7:
        lines.append(f"Authorization: {token['authorization']}".encode())
    if rng.random() < 0.15:
        lines.append(rng.choice(HEADERS))
    if rng.random() < 0.25:
        ending = rng.choice([b"0\r\n\r\n", b"0\r\n\r\n", b"", b"zz\r\n", b"5\r\nab", b"0\r\nX: y\r\n\r\n"])
        return b"\r\n".join([*lines, b"Transfer-Encoding: chunked", b"", b"%x\r\n%s\r\n" % (len(body), body)]) + ending
    return b"\r\n".join([*lines, b"Content-Length: %d" % len(body), b"", body])


def _body(rng: random.Random) -> bytes:
    kind = rng.random()
    if kind < 0.1:
        return rng.choice([b"", b"{", b"null", b"[]", b"\xff\xfe", b"NaN", b'{"a":1,"a":2}', b"[" * 5000, b'"\\ud800"'])
    if kind < 0.15:
        return b'{"task":"route","state":{"a":' + b'{"a":' * 600 + b"1" + b"}" * 600 + b"}}"
    body = {**BODY} if rng.random() < 0.7 else {}
    for _ in range(rng.randrange(4)):
        body[rng.choice(NAMES)] = rng.choice([*PLAIN, {"a": rng.choice(PLAIN)}, [rng.choice(PLAIN)] * 3])
    text = json.dumps(body).encode()
    if rng.random() < 0.2:
        place = rng.randrange(len(text))
        text = text[:place] + rng.randbytes(2) + text[place + rng.randrange(3) :]
    return text


def _status(server: Target, request: bytes) -> str:
    """The status of the answer; "closed" without one."""
    with server.connect() as connection:
        with suppress(OSError):
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR) if request.endswith((b"ab", b"zz\r\n")) else None
        answer = b""
        with suppress(OSError):
            while len(answer := answer.removeprefix(CONTINUE)) < len(CONTINUE) and (part := connection.recv(4096)):
                answer += part
    return answer[9:12].decode("latin-1") or "closed"


def main() -> None:
    parser = argparse.ArgumentParser(description="Malformed and hostile requests.")
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    sys.stdout.write(json.dumps(attack(**vars(parser.parse_args()))) + "\n")


if __name__ == "__main__":
    main()
