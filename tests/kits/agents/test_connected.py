"""What `headway connect` writes is what the agents read, and their events become signals through it.

The schemas have the parts that we write: of Claude Code's settings (SchemaStore, claude-code-settings.json) and of
Codex's hooks.json (openai/codex, codex-rs/config/src/hook_config.rs). The events are those of Claude Code's page of
hooks, and of codex-rs/hooks/schema/generated/post-tool-use.command.input.schema.json.
"""

from __future__ import annotations

import json
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import headway
from tests.cli.terminal import headway as command
from tests.loop.running import until
from tests.serve.conftest import Running, served

__all__ = ["served"]

TOML = """
[tasks.route]
actions = ["small", "large"]
reward = { tests_passed = 1.0 }
"""
_COMMAND = {
    "type": "object",
    "additionalProperties": False,
    "required": ["type", "command"],
    "properties": {"type": {"const": "command"}, "command": {"type": "string", "minLength": 1}},
}
_HTTP = {
    "type": "object",
    "additionalProperties": False,
    "required": ["type", "url"],
    "properties": {
        "type": {"const": "http"},
        "url": {"type": "string", "minLength": 1},
        "headers": {"type": "object", "additionalProperties": {"type": "string"}},
        "allowedEnvVars": {"type": "array", "items": {"type": "string", "minLength": 1}},
        "timeout": {"type": "number", "exclusiveMinimum": 0},
    },
}


def schema(events: list[str], *hooks: dict[str, Any]) -> dict[str, Any]:
    group = {
        "type": "object",
        "additionalProperties": False,
        "required": ["hooks"],
        "properties": {"matcher": {"type": "string"}, "hooks": {"type": "array", "items": {"anyOf": list(hooks)}}},
    }
    groups = {"type": "array", "items": group}
    named = {"type": "object", "additionalProperties": False, "properties": dict.fromkeys(events, groups)}
    return {"type": "object", "required": ["hooks"], "properties": {"hooks": named}}


CLAUDE = schema(["PreToolUse", "PostToolUse", "PostToolUseFailure", "Stop"], _COMMAND, _HTTP)
CODEX = schema(["PreToolUse", "PostToolUse", "SessionStart", "UserPromptSubmit", "Stop"], _COMMAND)


def of_claude(shell: str, event: str = "PostToolUse") -> dict[str, Any]:
    response = {"stdout": "…", "stderr": "", "interrupted": False, "isImage": False}
    told = {"tool_response": response} if event == "PostToolUse" else {"error": "Exit code 1", "is_interrupt": False}
    return {
        "session_id": "abc", "transcript_path": "/t.jsonl", "cwd": "/work", "permission_mode": "default",
        "hook_event_name": event, "tool_name": "Bash", "tool_input": {"command": shell}, "tool_use_id": shell, **told,
    }  # fmt: skip


def of_codex(shell: str, output: str) -> dict[str, Any]:
    return {
        "session_id": "abc", "turn_id": "t", "transcript_path": None, "cwd": "/work", "hook_event_name": "PostToolUse",
        "model": "m", "permission_mode": "default", "tool_name": "Bash", "tool_input": {"command": shell},
        "tool_response": output, "tool_use_id": shell,
    }  # fmt: skip


def test_http_hooks_of_claude_code_reach_the_server(served: Callable[..., Running], tmp_path: Path) -> None:
    running = served(TOML)
    work = tmp_path / "work"
    work.mkdir()
    mine = {"matcher": "Write", "hooks": [{"type": "command", "command": "lint"}]}
    (work / ".claude").mkdir()
    (work / ".claude" / "settings.json").write_text(json.dumps({"hooks": {"PostToolUse": [mine]}}))
    for words in ((), ("--http",), ("--http",)):  # the second replaces the first
        done = command("-C", running.folder, "connect", "claude", "--in", work, "--write", *words)
        assert done.code == 0, done.err
    written = json.loads((work / ".claude" / "settings.json").read_text())
    jsonschema.validate(written, CLAUDE)
    kept, ours = written["hooks"]["PostToolUse"]
    assert kept == mine
    (hook,) = ours["hooks"]
    assert hook["url"] == f"{running.url}/v1/hooks/route"

    decision = running.client.post("/v1/decisions", json={"task": "route", "text": "Fix it"}).json()["id"]
    for event in (
        of_claude("ls"),
        of_claude("pytest -q"),
        of_claude("pytest -q"),  # again, with the same tool_use_id
        of_claude("git commit -m x"),
    ):
        answer = running.client.post(hook["url"], json=event)
        assert (answer.status_code, answer.json()) == (200, {})
    assert running.client.post(hook["url"], json=of_claude("pytest x", "PostToolUseFailure")).status_code == 200
    assert running.client.post(f"{running.url}/v1/hooks/rout", json=of_claude("pytest")).status_code == 404
    assert running.client.post(hook["url"], json={"tests": 1, "change": "lost"}).status_code == 422
    for body in (b"[]", b"{", b"\xff"):
        answer = running.client.post(hook["url"], content=body, headers={"content-type": "application/json"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "bad_hook")
    running.stop()
    with headway.open(running.folder, environ={}) as project:
        signals = sorted(project.query.signals(decision), key=lambda one: one.seq)
    assert [(one.name, one.value) for one in signals] == [
        ("tests_passed", 1.0),
        ("change_kept", 1.0),
        ("tests_passed", 0.0),
    ]


def test_a_hook_with_a_key_speaks_of_the_newest_decision_of_that_key(served: Callable[..., Running]) -> None:
    running = served(TOML)
    ann, bob = (
        {"Authorization": f"Bearer {json.loads(done.out)['key']}"}
        for done in (
            command("-C", running.folder, *["keys", "add", "--scope", "decide", "--scope", "signal", "--json"], name)
            for name in ("ann", "bob")
        )
    )
    ask = {"task": "route", "text": "Fix it"}
    until(lambda: running.client.post("/v1/decisions", json=ask, headers=ann).status_code == 201, "the new key")
    until(lambda: running.client.post("/v1/decisions", json=ask, headers=bob).status_code == 201, "the new key")
    own = running.client.post("/v1/decisions", json=ask, headers=bob).json()["id"]
    other = running.client.post("/v1/decisions", json=ask, headers=ann).json()["id"]
    assert running.client.post("/v1/hooks/route", json=of_claude("pytest -q"), headers=bob).status_code == 200
    running.stop()
    with headway.open(running.folder, environ={}) as project:
        assert [one.name for one in project.query.signals(own)] == ["tests_passed"]
        assert not project.query.signals(other)


def test_a_server_for_other_machines_gets_a_key_from_the_environment(tmp_path: Path) -> None:
    (tmp_path / "headway.toml").write_text(f'{TOML}\n[server]\nhost = "10.0.0.1"\nport = 8000\n')
    printed = command("-C", tmp_path, "connect", "claude", "--http").out
    at = printed.index('{\n  "hooks"')
    document, _ = json.JSONDecoder().raw_decode(printed[at:])
    jsonschema.validate(document, CLAUDE)
    (hook,) = document["hooks"]["PostToolUseFailure"][0]["hooks"]
    assert hook["url"] == "http://10.0.0.1:8000/v1/hooks/route"
    assert (hook["headers"], hook["allowedEnvVars"]) == ({"Authorization": "Bearer $HEADWAY_KEY"}, ["HEADWAY_KEY"])


def test_the_hook_of_codex_runs_our_command(tmp_path: Path) -> None:
    (tmp_path / "headway.toml").write_text(TOML)
    home = tmp_path / "codex"
    for _ in range(2):
        assert command("-C", tmp_path, "connect", "codex", "--in", home, "--write").code == 0
    written = json.loads((home / "hooks.json").read_text())
    jsonschema.validate(written, CODEX)
    ((hook,),) = [group["hooks"] for group in written["hooks"]["PostToolUse"]]
    assert "headway" in tomllib.loads((home / "config.toml").read_text())["mcp_servers"]
    with headway.open(tmp_path, environ={}) as project:
        decision = project.decide("route", "Fix it").id
    outputs = {
        "pytest -q": "F.\n=== 1 failed, 1 passed in 0.1s ===",
        "cargo test": "test result: ok. 3 passed; 0 failed; 0 ignored",
        "git commit -m x": "[main 1] x",  # it may have failed
        "npm test": "Tests:       2 passed, 2 total\nTime: 1 s",
        "go test ./...": "--- FAIL: TestX\nFAIL\tx 0.1s\nFAIL",
        "pytest tests": "Killed",
    }
    for shell, output in outputs.items():
        event = json.dumps(of_codex(shell, output))
        done = subprocess.run(hook["command"], shell=True, input=event, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
    with headway.open(tmp_path, environ={}) as project:
        signals = sorted(project.query.signals(decision), key=lambda one: one.seq)
    assert [(one.name, one.value) for one in signals] == [("tests_passed", value) for value in (0.0, 1.0, 1.0, 0.0)]


@pytest.mark.parametrize("agent", ["codex", "cursor"])
def test_hooks_that_call_a_url_are_refused_where_the_agent_has_none(tmp_path: Path, agent: str) -> None:
    done = command("-C", tmp_path, "connect", agent, "--http", "--json")
    assert done.error["code"] == "usage"
