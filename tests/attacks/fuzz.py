"""Malformed and hostile requests, as bytes: no answer is a 500, and the server still answers afterwards.

    python -m tests.attacks.fuzz [--requests 20000] [--seed 1]

Every request goes to a route of the OpenAPI document, those of kits included, with and without the project token, with
a body that is valid for the route, mutated, nested, repeated, cut off or no JSON at all, and headers that contradict
one another. The project has a task of each kind, an upstream that refuses connections, a worker, and a training run.
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
from copy import deepcopy
from typing import Any

import httpx

from tests.attacks.language_worker import recording_worker
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
DECISION: dict[str, Any] = {
    "task": "route",
    "text": "t",
    "candidates": ["a", "b"],
    "state": {"x": 1},
}
KNOWN = "KNOWN"  # becomes an id or a name that there is
ASKED: dict[str, Any] = {"task": "asked", "text": "t", "candidates": ["a", "b"], "unit": KNOWN, "position": 1}
VECTOR = [0.5] * 8
CHAT: dict[str, Any] = {
    "model": "headway/route",
    "messages": [{"role": "user", "content": [{"type": "text", "text": "t"}]}],
    "max_tokens": 5,
    "stream": True,
    "stream_options": {"include_usage": True},
    "headway": {"episode": "e"},
}
BODIES: dict[str, list[dict[str, Any]]] = {  # by the end of the path
    "/decisions": [
        DECISION,
        {"task": "plan", "text": "t", "masks": {"op": ["ANSWER"]}, "episode": "p"},
        {**DECISION, "episode": "e", "step": 0},
        ASKED,
        {**ASKED, "idempotency_key": "r"},
        {"task": "steps", "text": "t", "candidates": ["a", "b"], "episode": "e"},
    ],
    "/batch": [
        {"decisions": [DECISION, {"task": "route", "candidates": ["a"]}]},
        {"decisions": [ASKED, {**ASKED, "position": 2}, {"task": "asked", "text": "t", "idempotency_key": "r"}]},
    ],
    "/signals": [
        {"solved": 1},
        {"signals": [{"subject": "dec_" + "0" * 32, "signals": {"solved": 0.5}}], "early": True},
        {"signals": [{"subject": KNOWN, "signals": {"solved": None}, "label": "l", "key": "k"}]},
    ],
    "/completions": [
        CHAT,
        {**CHAT, "model": "headway/reply"},
        {**CHAT, "model": "headway/reply", "stream": False, "temperature": 0.5, "stop": ["x"], "seed": 1},
    ],
    "/responses": [{"model": "headway/route", "input": [{"role": "user", "content": "t"}], "stream": False}],
    "/messages": [{**CHAT, "system": "s"}],
    "/generate": [{"prompt": "t", "task": "reply"}, {"messages": [{"role": "user", "content": "t"}], "task": "reply"}],
    "/duels": [{"policy": "language@4f2a", "against": "base@0"}],
    "/vote": [{"preferred": "left"}],
    "/rating": [{"mark": "5"}, {"mark": "+"}],
    "/comments": [{"kind": "edit", "text": "t"}],
    "/weight": [{"signal": "solved", "weight": 2}, {"signal": 'so"lved\n[x]', "weight": 1e308}],
    "/rank": [{"candidates": [{"name": "a", "features": {"d": "d", "x": 1}}], "text": "t", "state": {"y": 1}}],
    "/learn": [{"family": "bandit", "seed": 1}],
    "/experiment": [{"policy": "bandit@4f2a", "share": 0.1}],
    "/promote": [{"task": "route", "trust_keys": ["k"], "why": "w"}],
    "/rollback": [{"to": "uniform@0", "why": "w"}],
    "/select_action": [{"embedding": VECTOR, "deterministic": True}],
    "/get_distribution": [{"embedding": VECTOR}],
    "/store_experience": [
        {"state": VECTOR, "action": 1, "reward": 1, "next_state": VECTOR, "done": True, "log_prob": -1.0, "value": 0.0}
    ],
    "/save": [{"path": "p"}],
    "/load": [{"path": "p"}],
    "/stop": [{}],
}
NAMES = ["task", "text", "candidates", "state", "id", "signals", "reward", "policy", "to", "why", "seed", "messages"]
NAMES += [
    "unit",
    "position",
    "idempotency_key",
    "episode",
    "step",
    "label",
    "key",
    "early",
    "model",
    "stream_options",
    "metadata",
    "masks",
    "role",
    "content",
    "temperature",
    "stop",
    "n",
    "tools",
]
SETTINGS = """
[server]
read_timeout_s = 0.5
otel = true
[alerts]
webhook = "http://127.0.0.1:1/"
command = ["true"]
[upstreams.small]
url = "http://127.0.0.1:1/v1"
model = "m"
timeout_s = 1
[tasks.route]
actions = ["small", "a", "b"]
reward = { solved = 1.0 }
[tasks.plan]
kind = "factored"
heads = { op = ["ANSWER", "STOP"], model = ["small", "large"] }
needs = { STOP = [] }
[tasks.reply]
kind = "reply"
base = "./nothing"
[tasks.asked]
unit = "request"
reward = { solved = 1.0 }
[tasks.steps]
unit = "episode"
reward = { solved = 1.0 }
[tasks.next]
kind = "ranking"
reward = { delta = 1.0 }
"""
HEADERS = [
    *(b"Content-Length: 7", b"Content-Length: -1", b"Content-Length: 99999999999999999999", b"Transfer-Encoding: gzip"),
    *(b"Origin: null", b"Cookie: headway_page=1.x.y", b"Expect: 100-continue", b"Upgrade: websocket", b"X: \xff\x00"),
    *(b"Authorization: Basic x", b"x-api-key: \xc3\xa9", b"Accept-Encoding: gzip", b"Range: bytes=0-", b"Host: evil"),
    *(b"Idempotency-Key: k", b"Idempotency-Key: \xff", b"traceparent: 00-" + b"f" * 32 + b"-" + b"f" * 16 + b"-01"),
]
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"  # comes before the answer
PARAMETERS = ["route", "route", "plan", "reply", "next", "asked", "steps", "e", "run-7"]
PARAMETERS += ["..%2f..", "%00", "dec_" + "0" * 32, "bandit@4f2a", "a" * 3000, "1" * 30, "%ff", "é"]


def attack(*, requests: int, seed: int) -> dict[str, Any]:
    rng = random.Random(seed)
    with target(SETTINGS) as server, recording_worker(server.folder), ThreadPoolExecutor(16) as threads:
        document = httpx.get(f"{server.url}/openapi.json").json()["paths"]
        routes = [(method.upper(), path) for path, methods in document.items() for method in methods]
        routes = [route for route in routes if route[1] != "/v1/events"]  # never ends
        token = server.token
        known = [*PARAMETERS, *_prepared(server)]
        made = (_request(rng, routes, known, token) for _ in range(requests))
        statuses = Counter(threads.map(lambda request: _status(server, request), made))
        alive = httpx.get(f"{server.url}/health", timeout=60).status_code
        return {"requests": requests, "seed": seed, "alive": alive, "statuses": dict(sorted(statuses.items()))}


def _prepared(server: Target) -> list[str]:
    """Ids of decisions that there are, more than once, so that they are drawn often; and a training run."""
    run = server.folder / ".headway" / "work" / "run-7"
    run.mkdir(parents=True)
    (run / "metrics.jsonl").write_text('{"steps": 1, "loss": 0.5}\n')
    ids = []
    for body in (DECISION, *BODIES["/decisions"][1:], {"task": "next", "text": "t", "candidates": ["a", "b"]}):
        sent = {name: value for name, value in body.items() if name not in ("unit", "position")}
        answer = httpx.post(f"{server.url}/v1/decisions", json={**sent, "candidates": body.get("candidates")})
        if answer.status_code == 201:
            ids += [answer.json()["id"]] * 2
    assert len(ids) > 8, "decisions to ask for"
    return ids


def _request(rng: random.Random, routes: list[tuple[str, str]], known: list[str], token: dict[str, str]) -> bytes:
    method, path = rng.choice(routes)
    template = path
    while "{" in path:
        before, _, rest = path.partition("{")
        path = before + rng.choice(known) + rest.partition("}")[2]
    if rng.random() < 0.1:
        method = rng.choice(["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW", "get"])
    query = rng.choice([*[""] * 18, "?limit=1", "?limit=-1", "?task=route&task=x", "?%ff", "?a=%00", "?early=true"])
    body = _body(rng, template).replace(b'"KNOWN"', json.dumps(rng.choice(known)).encode())
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


def _body(rng: random.Random, path: str) -> bytes:
    kind = rng.random()
    if kind < 0.1:
        return rng.choice([b"", b"{", b"null", b"[]", b"\xff\xfe", b"NaN", b'{"a":1,"a":2}', b"[" * 5000, b'"\\ud800"'])
    if kind < 0.15:
        return b'{"task":"route","state":{"a":' + b'{"a":' * 600 + b"1" + b"}" * 600 + b"}}"
    samples = BODIES.get(path[path.rfind("/") :], [DECISION])
    body: Any = deepcopy(rng.choice(samples)) if rng.random() < 0.95 else {}
    for _ in range(rng.choice([0, 0, 0, 1, 1, 2, 3])):
        place: Any = body
        while (inner := _inside(place)) and rng.random() < 0.4:
            place = rng.choice(inner)
        value = deepcopy(rng.choice([*PLAIN, {"a": rng.choice(PLAIN)}, [rng.choice(PLAIN)] * 3]))
        if isinstance(place, list):
            place[rng.randrange(len(place))] = value
        else:
            place[rng.choice([*place, *NAMES])] = value
    text = json.dumps(body).encode()
    if rng.random() < 0.1:
        spot = rng.randrange(len(text))
        text = text[:spot] + rng.randbytes(2) + text[spot + rng.randrange(3) :]
    return text


def _inside(value: Any) -> list[Any]:
    parts = value.values() if isinstance(value, dict) else value
    return [part for part in parts if isinstance(part, dict | list) and part]


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
