"""`headway mcp` with the official SDK's own client, over a real subprocess."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

import headway

TOOLS = {"decide", "signal", "score", "rank", "explain", "status"}


def talk(folder: Path, work: Callable[[Client], Awaitable[None]], *more: str) -> None:
    """Run a conversation with `headway mcp` in a folder."""

    async def conversation() -> None:
        parameters = StdioServerParameters(
            command=sys.executable,
            args=["-m", "headway", "-C", str(folder), "mcp", *more],
            env={name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "TMPDIR", "PYTHONPATH")},
        )
        async with Client(stdio_client(parameters)) as client:
            await work(client)

    asyncio.run(conversation())


async def call(client: Client, tool: str, **values: Any) -> Any:
    answer = await client.call_tool(tool, values)
    assert not answer.is_error, answer.content
    return answer.structured_content


async def refused(client: Client, tool: str, **values: Any) -> str:
    answer = await client.call_tool(tool, values)
    assert answer.is_error
    (part,) = answer.content
    return str(getattr(part, "text", ""))


def test_an_agent_decides_signals_and_explains(tmp_path: Path) -> None:
    async def work(client: Client) -> None:
        listed = (await client.list_tools()).tools
        assert {entry.name for entry in listed} == TOOLS
        read_only = {entry.name for entry in listed if entry.annotations and entry.annotations.read_only_hint}
        assert read_only == TOOLS - {"decide", "signal"}
        made = await call(client, "decide", task="route", text="Fix the build", candidates=["small", "large"])
        assert made["action"] in ("small", "large")
        assert made["signals"] == ["reward"]
        assert await call(client, "signal", id=made["id"], signals={"reward": 1.0}) == {"new": 1}
        report = await call(client, "explain", id=made["id"])
        assert (report["text"], report["outcome"]["reward"]) == ("Fix the build", 1.0)
        (task,) = (await call(client, "status"))["tasks"]
        assert (task["task"], task["decisions"]) == ("route", 1)
        assert "bad_id" in await refused(client, "explain", id="nonsense")
        assert "signals" in await refused(client, "signal", id="dec_" + "0" * 32)

    talk(tmp_path, work)
    with headway.open(tmp_path, environ={}) as project:
        (stored,) = project.query.latest("route", 10)
        assert {(signal.name, signal.rater) for signal in project.query.signals(stored.id)} == {("reward", "mcp")}


def test_an_agent_ranks_and_scores_with_the_learned_policy(tmp_path: Path) -> None:
    with headway.open(tmp_path, environ={}, seed=3) as project:
        for n in range(120):
            pick = project.decide("route", f"ask {n}", ["good", "bad"])
            project.signal(pick.id, reward=float(pick.action == "good"))
        policy = project.learn("route", seed=3)
        project.rollback("route", to=policy, why="the test's choice")

    async def work(client: Client) -> None:
        rows = (await call(client, "rank", task="route", candidates=["bad", "good"], text="ask"))["ranking"]
        assert [row["name"] for row in rows] == ["good", "bad"]
        one = await call(client, "score", task="route", candidate="good", text="ask")
        assert one["predicted"] == pytest.approx(rows[0]["predicted"])

    talk(tmp_path, work)


def test_errors_reach_the_agent_and_the_signal_tool_can_be_omitted(tmp_path: Path) -> None:
    (tmp_path / "headway.toml").write_text('[tasks.route]\nactions = ["small", "large"]\n')

    async def work(client: Client) -> None:
        message = await refused(client, "decide", task="rout")
        assert "unknown_task" in message
        assert "Did you mean 'route'?" in message
        assert "no_prediction" in await refused(client, "rank", task="route")
        assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS - {"signal"}
        assert "signal" in await refused(client, "signal", id="dec_" + "0" * 32, signals={"reward": 1.0})

    talk(tmp_path, work, "--no-signal")


def test_without_the_package_the_extra_is_named(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['mcp'] = None\n"  # as if the package were not installed
        "from headway.cli.main import run; sys.exit(run(['mcp']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert done.returncode == 1
    assert "pip install 'headway[mcp]'" in done.stderr
    assert done.stdout == ""
    assert not (tmp_path / ".headway").exists()


def test_an_agent_decides_an_action_of_several_heads(tmp_path: Path) -> None:
    (tmp_path / "headway.toml").write_text(
        '[tasks.plan]\nkind = "factored"\nheads = { op = ["ANSWER", "STOP"], model = ["small", "large"] }\n'
    )

    async def work(client: Client) -> None:
        masks = {"op": ["ANSWER"], "model": ["large"]}
        answer = await call(client, "decide", task="plan", masks=masks)
        assert answer["heads"] == {"op": "ANSWER", "model": "large"}
        assert answer["propensity"] == 1.0
        assert "GO" in await refused(client, "decide", task="plan", masks={"op": ["GO"]})

    talk(tmp_path, work)
