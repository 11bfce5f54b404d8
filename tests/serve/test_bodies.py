"""Only whole, unambiguous bodies count."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from headway.nouns.errors import InvalidInput
from headway.serve.endpoints import refuse_duplicate_keys
from tests.serve.conftest import ASK, JSON, Running

WHOLE = b"0\r\n\r\n"
ENDINGS = {
    "no last chunk": b"",
    "a cut chunk": b"8\r\n   ",
    "a cut size": b"1",
    "a broken size": b"zz\r\n\r\n",
    "trailers": b"0\r\nX-Sum: 1\r\n\r\n",
}


def chunked(running: Running, path: str, body: bytes, ending: bytes, *headers: str) -> bytes:
    """Sends one chunk with the whole body, then the ending; if that is not the last chunk, it closes this direction."""
    head = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Transfer-Encoding: chunked", "Connection: close", *headers]
    chunk = b"%x\r\n%s\r\n" % (len(body), body) if body else b""
    with running.raw() as connection:
        connection.sendall("\r\n".join([*head, "", ""]).encode() + chunk + ending)
        if ending != WHOLE:
            connection.shutdown(socket.SHUT_WR)
        answer = b""
        while part := connection.recv(65536):
            answer += part
    return answer


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_incomplete_body_is_refused_and_changes_nothing(server: Running, ending: str) -> None:
    episode = ending.replace(" ", "-")
    server.client.post("/v1/decisions", json={**ASK, "episode": episode}).raise_for_status()
    token, json_type = f"Authorization: {server.token['authorization']}", "Content-Type: application/json"
    ledger, stored = server.client.get("/v1/ledger").json(), server.stored()
    for path, body in {
        "/v1/decisions": json.dumps(ASK).encode(),
        "/v1/decisions/batch": json.dumps({"decisions": [ASK]}).encode(),
        f"/v1/tasks/route/episodes/{episode}/end": b"",
        "/v1/tasks/route/rollback": b"",
    }.items():
        headers = (token, json_type) if body else (token,)
        answer = chunked(server, path, body, ENDINGS[ending], *headers)
        assert answer.startswith(b"HTTP/1.1 400") or not answer, (path, answer[:300])
    assert (server.client.get("/v1/ledger").json(), server.stored()) == (ledger, stored)
    assert server.decide(episode=episode, step=1).status_code == 201  # the episode is still open


def test_an_incomplete_body_gets_an_answer_that_says_so(server: Running) -> None:
    answer = chunked(server, "/v1/decisions", json.dumps(ASK).encode(), b"", "Content-Type: application/json")
    assert answer.startswith(b"HTTP/1.1 400")
    assert b'"incomplete_body"' in answer


def test_a_complete_chunked_body_counts(server: Running) -> None:
    parts = (json.dumps(ASK).encode()[place : place + 7] for place in range(0, len(json.dumps(ASK)), 7))
    assert server.client.post("/v1/decisions", content=parts, headers=JSON).status_code == 201
    whole = chunked(server, "/v1/decisions", json.dumps(ASK).encode(), WHOLE, "Content-Type: application/json")
    assert whole.startswith(b"HTTP/1.1 201")


TWICE = [
    ("/v1/decisions", '{"task":"route","candidates":["a"],"task":"other"}'),
    ("/v1/decisions", '{"task":"route","candidates":["a"],"task" :"route"}'),
    ("/v1/decisions", '{"task":"route","candidates":["a"],"t\\u0061sk":"other"}'),
    ("/v1/decisions", '{"task":"route","candidates":["a"],"state":{"x":1,"x":2}}'),
    ("/v1/decisions", '{"task":"route","text":"a: b","text":"c: d","candidates":["a"]}'),
    ("/v1/decisions/batch", '{"decisions":[{"task":"route","candidates":["a"],"role":"r","role":"s"}]}'),
    ("/v1/tasks/route/learn", '{"seed":1,"seed":2}'),
    ("/v1/chat/completions", '{"model":"a","messages":[{"role":"user","content":"x","content":"y"}],"n":1}'),
]


@pytest.mark.parametrize(("path", "body"), TWICE)
@pytest.mark.kits("proxy")
def test_a_repeated_key_is_refused_and_nothing_is_stored(server: Running, path: str, body: str) -> None:
    before = server.stored()
    answer = server.client.post(path, content=body, headers=JSON)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "duplicate_key"), answer.text
    assert server.stored() == before


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        {"a": {"a": [{"a": 1}, {"a": ":"}]}},
        {":": '":', '"': ':"', "\\": "\\:"},
        {"text": 'see "x": y', "candidates": [":", '":'], "é": "::"},
        [{"k": ":k"}, {"k": 10**400}, {"x,": ",", ":k": '",":k":1'}],
    ],
)
def test_keys_that_differ_are_accepted(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, indent=1), json.dumps(value, separators=(" ,", " : "))):
        refuse_duplicate_keys(text.encode())


def test_a_repeated_key_is_recognised_whatever_surrounds_it() -> None:
    for text in ('{"a":1,"a":1}', '[[{"k":":","b":{},"k":1}]]', '{":k":1,"x":"y",":k":2}', '{"é":1,"\\u00e9":2}'):
        with pytest.raises(InvalidInput, match="twice"):
            refuse_duplicate_keys(text.encode())
