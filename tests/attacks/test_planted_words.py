"""A word planted in every field of every door, then deleted: it is in no file and in no table afterwards.

The fields are read from the OpenAPI document, so a new one fails this test until it is planted or named as ours.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

import headway
from headway.kits.next_action.improve.journal import one_at_a_time
from tests.cli.terminal import headway as run
from tests.kits.next_action.improve.conftest import Ground, ground, scored  # noqa: F401 — a fixture
from tests.kits.proxy.conftest import Proxy
from tests.kits.proxy.upstream import Upstream
from tests.project.deletions import everything

DOCUMENT = json.loads((Path(__file__).parents[1] / "golden" / "openapi.json").read_text())
NUMBER = iter(range(1, 10_000))
TOML = """
[tasks.route]
actions = ["small"]
keep_replies = true
[tasks.answer]
kind = "reply"
base = "small"
[tasks.free]
[tasks.asked]
unit = "request"
[tasks.rank]
kind = "ranking"
[upstreams.small]
url = "{url}"
model = "small-model"
"""

# Fields whose values are names of ours or of policies, tasks and settings, and reasons that a person gives; masks name
# actions of factored tasks, which headway.toml declares.
OURS = {
    "task", "policy", "against", "to", "why", "family", "signal", "trust_keys[]", "path", "preferred", "kind", "mark",
    "ending",
}  # fmt: skip
NOT_STORED = {
    "/v1/tasks/{task}/rank": "a ranking is computed and forgotten",
    "/v1/links": "an empty body", "/v1/runs/{run}/stop": "an empty body",
}  # fmt: skip


def word(name: str = "") -> str:
    return f"planted{next(NUMBER):04d}{re.sub(r'[^a-z]', '', name.lower())}"


def leaves(schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """The text fields of a body; `?`: it takes anything."""
    if "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    for inner in (*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())):
        yield from leaves(inner, path)
    kind = schema.get("type")
    if kind == "string" and "enum" not in schema:
        yield path.lstrip(".")
    for name, inner in schema.get("properties", {}).items():
        yield from leaves(inner, f"{path}.{name}")
    if isinstance(schema.get("additionalProperties"), dict):
        yield f"{path}.keys".lstrip(".")
        yield from leaves(schema["additionalProperties"], f"{path}.*")
    if kind == "array":
        yield from leaves(schema.get("items", {}), f"{path}[]")


def fields() -> set[tuple[str, str]]:
    found = set()
    for path, methods in DOCUMENT["paths"].items():
        for operation in methods.values():
            for content in operation.get("requestBody", {}).get("content", {}).values():
                found |= {(path, leaf) for leaf in leaves(content["schema"])}
    return found


class Planting:
    """Sends bodies with a new word in every field, and remembers which fields those were."""

    def __init__(self, server: Proxy) -> None:
        self.server = server
        self.sent: set[tuple[str, str]] = set()

    def send(self, method: str, path: str, body: dict[str, Any], *planted: str, **parts: str) -> Any:
        answer = self.server.client.request(method, path.format(**parts), json=body)
        assert answer.status_code < 300, (path, answer.text)
        self.sent |= {(path, leaf) for leaf in planted}
        return answer


def planted_over_http(server: Proxy) -> Planting:
    planting = Planting(server)
    send = planting.send

    def decision(**more: Any) -> dict[str, Any]:
        return {
            "task": "free", "text": f"{word('text')} and {word('text')}", "role": word("role"),
            "episode": word("episode"),
            "candidates": [word("arm"), {"name": word("arm"), "features": {word("feature"): word("value")}}],
            "state": {word("key"): word("value"), word("number"): 1.0}, **more,
        }  # fmt: skip

    own = ("text", "role", "episode", "candidates[]", "candidates[].name", "candidates[].features.keys",
           "candidates[].features.*", "state.keys", "state.*", "id")  # fmt: skip
    made = send("POST", "/v1/decisions", decision(id=str(uuid.uuid4())), *own).json()
    batch = {"decisions": [decision() for _ in range(3)]}
    made_many = send("POST", "/v1/decisions/batch", batch, *(f"decisions[].{name}" for name in own)).json()["decisions"]
    identifier = made["id"]
    again = {"task": "asked", "text": word("text"), "candidates": [word("arm"), word("arm")]}
    first = send("POST", "/v1/decisions", {**again, "idempotency_key": word("name")}, "idempotency_key").json()["id"]
    send("POST", "/v1/decisions", {**again, "unit": first}, "unit")
    attempts = {"decisions": [{**again, "unit": first, "position": 2}, {**again, "idempotency_key": word("name")}]}
    send("POST", "/v1/decisions/batch", attempts, "decisions[].unit", "decisions[].idempotency_key")
    send("POST", "/v1/decisions/{decision}/signals", {word("signal"): 1.0}, "keys", decision=identifier)
    labelled = {
        "subject": made_many[0]["id"], "signals": {word("signal"): 1.0}, "label": word("label"), "key": word("key"),
    }  # fmt: skip
    send("POST", "/v1/signals", {"signals": [labelled]}, "signals[].signals.keys", "signals[].label", "signals[].key",
         "signals[].subject")  # fmt: skip
    episode = word("episode")
    send("POST", "/v1/decisions", decision(episode=episode))
    names = {"task": "free", "episode": episode}
    send("POST", "/v1/tasks/{task}/episodes/{episode}/signals", {word("signal"): 1.0}, "keys", **names)
    send("POST", "/v1/tasks/{task}/episodes/{episode}/end", {}, **names)
    talk = [{"role": "user", "content": word("prompt")}, {"role": "assistant", "content": word("turn")},
            {"role": "user", "content": word("prompt")}]  # fmt: skip
    extra = {"headway": {"role": word("role"), "state": {word("key"): word("value")}}}
    model = "headway/route"
    send("POST", "/v1/chat/completions", {"model": model, "messages": talk, "stop": [word("stop")], **extra})
    send("POST", "/v1/responses", {"model": model, "input": word("input"), **extra})
    send(
        "POST",
        "/v1/messages",
        {"model": model, "max_tokens": 9, "messages": talk, "stop_sequences": [word("stop")], **extra},
    )
    send("POST", "/e/{episode}/v1/chat/completions", {"model": model, "messages": talk}, episode=word("episode"))
    replied = send(
        "POST", "/generate", {"task": "answer", "messages": talk, "stop": [word("stop")], "role": word("role"),
                              "episode": word("episode")}, "messages[].content", "stop[]", "role", "episode",
    ).json()  # fmt: skip
    send("POST", "/generate", {"task": "answer", "prompt": word("prompt")}, "prompt")
    reply = replied["id"] if "id" in replied else replied["decision"]
    comment = "/v1/decisions/{decision}/comments"
    send("POST", comment, {"kind": "edit", "text": word("edit")}, "text", decision=reply)
    send("POST", comment, {"kind": "critique", "text": word("critique")}, "text", decision=reply)
    send("PUT", "/v1/decisions/{decision}/rating", {"mark": "5"}, decision=reply)
    return planting


def planted_by_agents(folder: Path) -> None:
    """Through MCP and by an import."""
    rows = [
        {"timestamp": "2026-05-22T10:32:01Z", "prompt": word("prompt"), "response": word("response"), "reward": 0.5,
         "metadata": {word("key"): word("value")}},
    ]  # fmt: skip
    file = folder / "log.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    run("-C", folder, "data", "import", file, "--task", "free")
    named = {"idempotency_key": word("name"), "text": word("text"), "action": "a", "candidates": ["a", word("arm")]}
    file.write_text(f"{json.dumps(named)}\n")
    with headway.open(folder, environ=dict(os.environ)) as project:
        project.import_file(file, task="asked", columns={"propensity": "unknown"})
    file.unlink()

    async def conversation() -> None:
        command = ["-m", "headway", "-C", str(folder), "mcp"]
        environ = {
            name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "TMPDIR", "HEADWAY_STORE_URL")
        }
        async with Client(
            stdio_client(StdioServerParameters(command=sys.executable, args=command, env=environ))
        ) as client:
            made = await client.call_tool(
                "decide", {"task": "free", "text": word("text"), "candidates": [word("arm"), word("arm")],
                           "state": {word("key"): word("value")}, "episode": word("episode"), "role": word("role")},
            )  # fmt: skip
            assert not made.is_error, made.content
            signalled = await client.call_tool(
                "signal", {"id": made.structured_content["id"], "signals": {word("signal"): 1.0}}
            )
            assert not signalled.is_error, signalled.content

    asyncio.run(conversation())


def test_a_word_in_every_field_of_every_door_is_gone_after_the_deletion(
    tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    upstream = Upstream()
    (tmp_path / "headway.toml").write_text(TOML.format(url=upstream.url("echo")))
    server = Proxy(tmp_path, environ)
    try:
        planting = planted_over_http(server)
    finally:
        errors = server.stop()
        upstream.stop()
    assert "Traceback" not in errors
    assert "planted" not in errors, "words are in the server's log"
    planted_by_agents(tmp_path)
    missing = {
        (path, leaf) for path, leaf in fields() - planting.sent
        if not {leaf, leaf.rpartition(".")[2]} & OURS and path not in NOT_STORED and "masks" not in leaf
    }  # fmt: skip
    assert not missing, "plant a word there, or say why it holds none"
    with headway.open(tmp_path, environ=environ) as project:
        assert everything(project).count("planted") > 60
    told = subprocess.run(
        [*f"{sys.executable} -m headway -C {tmp_path} data delete --before 2100-01-01 --yes --json".split()],
        capture_output=True, text=True, check=True, env={**os.environ, **environ},
    )  # fmt: skip
    assert "planted" not in told.stdout
    left = [
        str(path.relative_to(tmp_path))
        for path in tmp_path.rglob("*")
        if path.is_file() and b"planted" in path.read_bytes()
    ]
    assert not left
    with headway.open(tmp_path, environ=environ) as project:
        assert not [line for line in everything(project).splitlines() if "planted" in line]


def test_journals_of_improve_are_reached_by_the_deletion(ground: Ground) -> None:  # noqa: F811
    ground.offer(
        {**scored(2, word("description")), "name": word("name"), "type": word("type"), "scope": word("scope")},
        {**scored(9, word("description")), "edits": [{"path": "eval.sh", "content": word("content")}]},
    )
    ground.commit()
    ground.play()
    ground.write("proposals.jsonl", "")
    for place in ("worktree", "scratch"):  # as a killed run leaves them
        ground.write(f".headway/improve/up/001/{place}/score.txt", word())
    delete = f"{sys.executable} -m headway -C {ground.folder} data delete --before 2100-01-01 --yes --json".split()
    with headway.open(ground.folder, environ={}) as project, one_at_a_time(project.home / "improve" / "up", "up"):
        refused = subprocess.run(delete, capture_output=True, text=True)
        assert (refused.returncode, "running already" in refused.stdout + refused.stderr) == (1, True)
        assert project.query.counts("next-action").decisions == 2
    assert json.loads(subprocess.run(delete, capture_output=True, text=True, check=True).stdout)["copies"] == 1
    left = [
        path for path in (ground.folder / ".headway").rglob("*") if path.is_file() if b"planted" in path.read_bytes()
    ]
    assert not left
    ground.offer(scored(3))
    ground.commit()
    (result,) = ground.play()
    assert (ground.last.folder.name, result.verdict) == ("002", "kept")
    assert "improve/up-001" in ground.git("branch", "--list", "improve/*")
