"""Kept replies: stored with the decision in every format, without secrets, and deleted and exported with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import headway
from headway.kits.proxy.events import StreamEvent
from headway.kits.proxy.replies import MOST, StreamedReply, reply_details, whole_reply
from headway.kits.reply.kept import kept_reply
from tests.cli.terminal import headway as run
from tests.kits.proxy.conftest import Proxy, settings
from tests.kits.proxy.upstream import WORDS, Upstream

SECRET = "ghp_" + "a1B2c3D4e5F6" * 3
ASKED = f"Please repeat {SECRET} for me"
TALKS = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": ASKED}]},
    "/v1/responses": {"input": ASKED},
    "/v1/messages": {"messages": [{"role": "user", "content": ASKED}], "max_tokens": 99},
}


@pytest.fixture(scope="module")
def keeping(tmp_path_factory: pytest.TempPathFactory, running_upstream: Upstream) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("keeping")
    more = '[tasks.quiet]\nactions = ["small"]\n[tasks.many]\nactions = ["large"]\nkeep_replies = true\n'
    toml = settings(running_upstream, {"small": "echo", "large": "ok"}, more=more)
    (folder / "headway.toml").write_text(
        toml.replace('actions = ["small", "large"]', 'actions = ["small"]\nkeep_replies = true')
    )
    running = Proxy(folder, {})
    yield running
    assert "Traceback" not in running.stop()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", TALKS)
def test_every_format_keeps_the_reply_without_secrets_and_the_client_gets_all_of_it(
    keeping: Proxy, path: str, stream: bool
) -> None:
    answer = keeping.client.post(path, json={"model": "headway/route", "stream": stream, **TALKS[path]})
    assert answer.status_code == 200
    pieces = [ASKED[start : start + 7] for start in range(0, len(ASKED), 7)]
    assert all(piece in answer.text for piece in pieces)
    decision = answer.headers["x-headway-decision"]
    document = keeping.client.get(f"/v1/decisions/{decision}").json()
    assert document["reply"] == {"text": "Please repeat [redacted:api-key] for me", "model": "small", "foreign": True}
    with keeping.open() as project:
        reply = kept_reply(project, decision)
    assert (reply.foreign, reply.redacted, reply.exact) == (True, True, False)


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_of_a_tool_is_kept_as_a_line(keeping: Proxy, stream: bool) -> None:
    answer = keeping.chat(model="headway/many", tools=[{}], stream=stream)
    document = keeping.client.get(f"/v1/decisions/{answer.headers['x-headway-decision']}").json()
    assert document["reply"] == {"text": '→ look({"at":"sky"})', "model": "large", "foreign": True}
    told = run("-C", keeping.folder, "explain", document["id"])
    assert "answered" in told.out
    assert '→ look({"at":"sky"})' in told.out


def test_nothing_is_kept_without_the_setting(keeping: Proxy) -> None:
    answer = keeping.chat(model="headway/quiet")
    assert "reply" not in keeping.client.get(f"/v1/decisions/{answer.headers['x-headway-decision']}").json()


def test_a_kept_reply_is_exported_imported_and_deleted_with_its_decision(keeping: Proxy, tmp_path: Path) -> None:
    decision = keeping.chat(model="headway/many").headers["x-headway-decision"]
    told = "".join(WORDS)
    talks, rows = tmp_path / "talks.jsonl", tmp_path / "rows.jsonl"
    for out, more in ((talks, ["--format", "interactions"]), (rows, [])):
        done = run("-C", keeping.folder, "data", "export", "--task", "many", "--out", out, *more)
        assert done.code == 0, done.err
    exported = [json.loads(line) for line in talks.read_text("utf-8").splitlines()]
    assert [row["prompt"] for row in exported if row["response"] == told] == ["Good morning"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "headway.toml").write_text('[tasks.many]\nactions = ["large"]\n')
    done = run("-C", tmp_path / "other", "data", "import", rows)
    assert done.code == 0, done.err
    with headway.open(tmp_path / "other", environ={}) as project:
        assert kept_reply(project, decision).text == told
    done = run("-C", tmp_path / "other", "data", "delete", "--decision", decision, "--yes")
    assert done.code == 0, done.err
    store = b"".join(path.read_bytes() for path in (tmp_path / "other" / ".headway").rglob("*") if path.is_file())
    assert len(store) > 10_000
    assert told.encode() not in store


def test_a_long_reply_is_cut_after_redaction_and_memory_is_bounded() -> None:
    text = "x" * (MOST - 10) + f" {SECRET} " + "y" * MOST
    kept = json.loads(
        reply_details(text, lambda whole: whole.replace(SECRET, "[secret]"), upstream="small", role="", latency_s=1.0)[
            0
        ].data
    )
    assert SECRET[:8] not in kept["text"]
    assert len(kept["text"]) == MOST + 1
    reply = StreamedReply()
    for _ in range(50):
        delta = json.dumps({"choices": [{"index": 0, "delta": {"content": "z" * 10_000}}]}).encode()
        reply.read(StreamEvent(b"", delta, b""))
    assert MOST < len(reply.text) < MOST + 20_000


def test_tools_of_a_streamed_message_and_odd_answers_are_read_leniently() -> None:
    reply = StreamedReply()
    for row in (
        {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "name": "look", "input": {}}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"at":'}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '"sky"}'}},
        {"type": "content_block_delta", "index": 0, "delta": "odd"},
        {"type": "content_block_start", "index": {}, "content_block": {"type": "tool_use", "name": ["odd"]}},
        {
            "choices": [
                {"index": 0, "delta": {"tool_calls": [{"index": [1], "function": {"name": {}, "arguments": []}}]}}
            ]
        },
        {"type": "content_block_delta", "index": [], "delta": {"type": "input_json_delta", "partial_json": {}}},
        ["odd"],
    ):
        reply.read(StreamEvent(b"", json.dumps(row).encode(), b""))
    reply.read(StreamEvent(b"", b"[DONE]", b""))
    reply.read(StreamEvent(b"", None, b": comment\n\n"))
    assert reply.text == '→ look({"at":"sky"})'
    message = {
        "type": "message",
        "content": [{"type": "text", "text": "So:"}, {"type": "tool_use", "name": "f", "input": {"a": 1}}],
    }
    assert whole_reply(json.dumps(message).encode()) == 'So:\n→ f({"a":1})'
    item = {"output": [{"type": "function_call", "name": "f", "arguments": "{}"}, {"type": "reasoning", "summary": []}]}
    assert whole_reply(json.dumps(item).encode()) == "→ f({})"
    for odd in (b"no json", b"[]", b'{"choices":[{"message":3}]}', b'{"content":{"a":1}}'):
        assert whole_reply(odd) == ""
