"""Every threat that can arrive in a request, on a fast route and on an ordinary one."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.serve.conftest import ASK, JSON, Running

HOT, COLD = "/v1/decisions", "/v1/tasks/route/learn"
BOTH = pytest.mark.parametrize("path", [HOT, COLD, "/select_action"])
HOSTILE = [
    {"host": "evil.example"},
    {"host": "evil.example:8765"},
    {"host": "127.0.0.1.evil.example"},
    {"host": "localhost.evil.example"},
    {"host": ""},
    {"origin": "http://evil.example"},
    {"origin": "null"},
    {"origin": "http://127.0.0.1:1"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
]


def code(answer: httpx.Response) -> str:
    body = answer.json()
    assert body.keys() == {"error"}
    assert body["error"].keys() == {"code", "message", "hint"}
    return str(body["error"]["code"])


@pytest.fixture(scope="module")
def counted(server: Running) -> Iterator[Running]:
    """The module's server; refused requests stored nothing."""
    server.decide(text="the one")
    yield server
    assert server.stored() == 1


@BOTH
@pytest.mark.parametrize("headers", HOSTILE, ids=lambda headers: "=".join(*headers.items()))
def test_a_hostile_page_gets_nothing(counted: Running, path: str, headers: dict[str, str]) -> None:
    answer = counted.client.post(path, content=json.dumps(ASK), headers={**JSON, **headers})
    assert answer.status_code == 403
    assert code(answer) in ("wrong_host", "wrong_origin")
    reading = counted.client.get("/v1/tasks", headers=headers)
    assert reading.status_code == 403
    assert "route" not in reading.text


@BOTH
@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonp",
        None,
        "text/plain; application/json",
        "application/json; charset=utf-16",
    ],
)
@pytest.mark.kits("*")
def test_a_body_that_is_not_declared_json_is_refused(counted: Running, path: str, kind: str | None) -> None:
    content = json.dumps(ASK).encode()
    answer = counted.client.post(path, content=content, headers={"content-type": kind} if kind else {})
    assert (answer.status_code, code(answer)) == (415, "not_json")


def test_our_own_page_may_call(counted: Running) -> None:
    own = {"origin": counted.url, "sec-fetch-site": "same-origin"}
    assert counted.client.get("/v1/tasks", headers=own).status_code == 200


@BOTH
@pytest.mark.kits("*")
def test_json_that_is_nested_too_deeply_is_refused(counted: Running, path: str) -> None:
    deep = b'{"task":"route","state":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}"
    answer = counted.client.post(path, content=deep, headers=JSON)
    assert answer.status_code == 422
    assert code(answer) in ("bad_json", "bad_body")


@BOTH
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b'{"task":1}',
        b'{"task":"route","nope":1}',
        b"\xff\xfe",
        b'{"task":"\xff"}',
        b'{"task":"route","task":"route"',
        b"{}{}",
    ],
)
@pytest.mark.kits("*")
def test_a_body_that_does_not_fit_the_route_is_refused(counted: Running, path: str, body: bytes) -> None:
    if path == COLD and body == b"":
        return  # its body is optional
    answer = counted.client.post(path, content=body, headers=JSON)
    assert answer.status_code == 422
    assert code(answer) in ("bad_json", "bad_body")


NUMBERS = ["NaN", "Infinity", "-Infinity", "1e999", "9007199254740993", "1" + "0" * 400, "-1" + "0" * 30]


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number[:12])
def test_a_number_that_is_not_finite_or_too_large_is_refused(counted: Running, number: str) -> None:
    ask = f'{{"task":"route","candidates":["a","b"],"state":{{"x":{number}}}}}'
    assert counted.client.post(HOT, content=ask, headers=JSON).status_code == 422
    batch = f'{{"decisions":[{ask}]}}'
    assert counted.client.post("/v1/decisions/batch", content=batch, headers=JSON).status_code == 422
    step = f'{{"task":"route","candidates":["a"],"episode":"e","step":{number}}}'
    assert counted.client.post(HOT, content=step, headers=JSON).status_code == 422


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", "1" + "0" * 400], ids=lambda number: number[:12])
@pytest.mark.kits("*")
def test_a_signal_that_is_not_a_finite_number_is_refused(counted: Running, number: str) -> None:
    server = counted
    with server.open() as project:
        mine = project.query.latest(None, 1)[0].id
    answer = server.client.post(f"/v1/decisions/{mine}/signals", content=f'{{"reward":{number}}}', headers=JSON)
    assert answer.status_code == 422
    answer = server.client.post("/select_action", content=f'{{"embedding":[{number}]}}', headers=JSON)
    assert answer.status_code == 422
    with server.open() as project:
        assert project.query.signals(mine) == []


NAMES = [
    "../../etc/passwd",
    "/etc/passwd",
    "route\n",
    "route\r",
    "a b",
    "",
    ".",
    "..",
    "Route",
    "ro\u0000ute",
    "é",
    "a" * 65,
]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
@pytest.mark.kits("*")
def test_a_path_like_or_broken_name_is_refused(counted: Running, name: str) -> None:
    for path, body in ((HOT, {**ASK, "task": name}), ("/v1/decisions/batch", {"decisions": [{**ASK, "task": name}]})):
        answer = counted.client.post(path, json=body)
        assert answer.status_code == 422, answer.text
    for path in ("/save", "/load"):
        assert counted.client.post(path, json={"path": name}, headers=counted.token).status_code == 422
    quoted = httpx.URL(counted.url).copy_with(
        raw_path=b"/v1/tasks/" + "".join(f"%{b:02x}" for b in name.encode()).encode()
    )
    assert counted.client.get(quoted).status_code in (404, 422)


@pytest.mark.parametrize("name", ["..%2f..%2fetc", "%00", "bandit@4f2a%0a", "%0a", "a" * 5000, "bandit@../../x"])
def test_a_path_like_policy_or_id_is_refused(counted: Running, name: str) -> None:
    for path in (f"/v1/policies/{name}", f"/v1/decisions/{name}", f"/v1/evidence/{name}", f"/v1/jobs/{name}"):
        answer = counted.client.get(path)
        assert answer.status_code in (404, 422), (path, answer.text)
        code(answer)


@pytest.mark.parametrize("field", ["text", "role", "episode"])
def test_a_nul_is_refused_at_any_position(counted: Running, field: str) -> None:
    answer = counted.client.post(HOT, json={**ASK, field: "a\0b"})
    assert answer.status_code == 422
    answer = counted.client.post(HOT, json={**ASK, "state": {"x\0": 1}})
    assert answer.status_code == 422
    answer = counted.client.post(HOT, json={**ASK, "candidates": ["a", "b\0"]})
    assert answer.status_code == 422


def test_an_escaped_backslash_before_u0000_is_text(served: Callable[..., Running]) -> None:
    running = served()
    assert running.decide(text="a literal \\u0000").status_code == 201


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Origin", "Authorization", "Cookie", "Sec-Fetch-Site"])
def test_an_unreadable_authentication_header_is_refused(counted: Running, header: str) -> None:
    head = f"POST {HOT} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
    answer = exchange(counted.raw(), head.encode(), header.encode() + b": caf\xe9\r\n\r\n{}")
    assert answer.startswith(b"HTTP/1.1 400"), answer[:200]
    assert b'"bad_header"' in answer


def test_another_header_may_have_any_value(counted: Running) -> None:
    answer = exchange(
        counted.raw(),
        b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: caf\xe9\r\n",
        b"Connection: close\r\n\r\n",
    )
    assert answer.startswith(b"HTTP/1.1 200"), answer[:200]


# -- size and time


def exchange(connection: socket.socket, *parts: bytes) -> bytes:
    """Sends the parts and returns the whole answer. A server may close before it has read everything."""
    try:
        for item in parts:
            connection.sendall(item)
    except OSError:
        pass
    data = b""
    try:
        while part := connection.recv(65536):
            data += part
            if b"}}" in data:
                break
    except OSError:
        pass
    connection.close()
    return data


@pytest.mark.parametrize(("path", "limit"), [(HOT, 1_000_000), ("/v1/decisions/batch", 16_000_000), (COLD, 1_000_000)])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_of_one_byte_too_many_is_refused(counted: Running, path: str, limit: int, chunked: bool) -> None:
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n".encode()
    if chunked:
        block = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
        head += b"Transfer-Encoding: chunked\r\n\r\n"
        answer = exchange(counted.raw(), head, *[block] * (limit // 0x10000 + 1))
    else:
        head += b"Content-Length: %d\r\n\r\n" % (limit + 1)
        answer = exchange(counted.raw(), head, b" " * (limit + 1))
    assert answer.startswith(b"HTTP/1.1 413"), answer[:200]
    assert b'"too_large"' in answer


def test_a_body_of_exactly_the_limit_is_read(counted: Running) -> None:
    body = b'{"task":"route","nope":1' + b" " * 999_975 + b"}"
    assert len(body) == 1_000_000
    answer = counted.client.post(HOT, content=body, headers=JSON)
    assert (answer.status_code, code(answer)) == (422, "bad_body")


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("impatient")
    (folder / "headway.toml").write_text("[server]\nread_timeout_s = 0.3\nrate_per_s = 20\n")
    running = Running(folder)
    yield running
    running.stop()


@pytest.mark.parametrize("path", [HOT, COLD])
def test_a_missing_body_times_out(impatient: Running, path: str) -> None:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
    answer = exchange(impatient.raw(), head.encode(), b'{"task"')
    assert answer.startswith(b"HTTP/1.1 408"), answer[:200]
    assert b'"too_slow"' in answer
    assert impatient.client.get("/health").status_code == 200


def test_incomplete_headers_time_out(impatient: Running) -> None:
    with impatient.raw() as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: loc")
        assert connection.recv(1000)[:12] in (b"", b"HTTP/1.1 408")


def test_too_many_requests_are_refused_with_the_time_to_wait(impatient: Running) -> None:
    answers = [impatient.client.get("/v1/policies") for _ in range(120)]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert refused
    assert code(refused[0]) == "rate_limited"
    assert int(refused[0].headers["retry-after"]) >= 1


# -- shape


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nope", 404),
        ("GET", "/v1/decisions/batch/x", 404),
        ("DELETE", "/v1/decisions", 405),
        ("PUT", "/health", 405),
        ("OPTIONS", "/v1/decisions", 405),
        ("TRACE", "/v1/tasks", 405),
        ("GET", "/v1/decisions/dec_" + "0" * 32, 404),
        ("GET", "/v1/tasks?nope=1", 422),
        ("GET", "/v1/decisions?limit=0", 422),
        ("GET", "/v1/decisions?limit=1&limit=2", 422),
        ("GET", "/v1/decisions?limit=%ff", 422),
        ("GET", "/v1/decisions?task=route%0a", 422),
    ],
)
def test_every_error_has_one_shape(counted: Running, method: str, path: str, status: int) -> None:
    answer = counted.client.request(method, path)
    assert answer.status_code == status
    code(answer)
    if status == 405:
        assert answer.headers["allow"]


def test_every_answer_has_the_security_headers(counted: Running) -> None:
    for path in ("/health", "/nope", "/v1/tasks", "/metrics", "/openapi.json"):
        headers = counted.client.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'self'; frame-ancestors 'none'")
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


def test_a_single_header_may_not_be_repeated(counted: Running) -> None:
    request = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n"
    answer = exchange(counted.raw(), request)
    assert answer.startswith(b"HTTP/1.1 4"), answer[:100]


def test_an_unexpected_error_reveals_no_internals(served: Callable[..., Running], tmp_path: Path) -> None:
    running = served()
    running.decide()
    (tmp_path / ".headway" / "policies").mkdir(exist_ok=True)
    answer = running.client.get("/v1/policies/bandit@4f2a")
    assert answer.status_code == 404
    assert str(tmp_path) not in answer.text
