"""`headway connect`: the configuration that connects an agent, printed or written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from headway.cli import Output, Session, renders, verb
from headway.nouns import errors

if TYPE_CHECKING:
    from headway.kits.agents.connect import ConfigFile
    from headway.settings import Settings, TaskSettings

_AGENTS = ("claude", "codex", "cursor", "openai")


@verb("connect", "headway connect claude --write", "headway connect openai --task route")
@click.argument("agent", type=click.Choice(_AGENTS))
@click.option("--task", help="The task that the agent decides with; the first one of headway.toml by default.")
@click.option("--http", is_flag=True, help="claude: hooks that call the server instead of starting a process.")
@click.option("--write", "wanted", is_flag=True, help="Write the files instead of printing what belongs in them.")
@click.option(
    "--in", "place", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
    help="The agent's folder: where it works, or ~/.codex for codex; the current folder by default.",
)  # fmt: skip
def connect(session: Session, agent: str, task: str | None, http: bool, wanted: bool, place: Path | None) -> None:
    """Connect a coding agent or a program: MCP tools, hooks or a base URL, from start to first signal.

    claude: .mcp.json, .claude/settings.json. cursor: .cursor/mcp.json. codex: config.toml and hooks.json in ~/.codex.
    openai: the base URL and the model for any OpenAI-compatible client. Other entries of the files are kept.
    """
    from headway.settings import load as load_settings

    settings = load_settings(session.folder)
    name = _task(settings, task)
    if http and agent != "claude":
        raise errors.InvalidInput(f"The hooks of {agent} cannot call a URL.", code="usage", hint="Omit --http.")
    if agent == "openai":
        session.show(_base_url(session, settings, name))
    else:
        files = _files(session, settings, agent, name, place, http)
        _connect(session, files, wanted)
        session.show(_tools(session, settings, agent, name, files, wanted))
    session.next("headway status")


def _task(settings: Settings, task: str | None) -> str:
    if task is not None:
        return settings.task(task).name
    return next(iter(settings.tasks), "route")


def _files(
    session: Session, settings: Settings, agent: str, task: str, place: Path | None, http: bool
) -> list[ConfigFile]:
    from headway.kits.agents import connect as configuration

    project = str(session.folder.resolve())
    server = [str(session.script), "-C", project, "mcp"]
    command = f"{quote(str(session.script))} -C {quote(project)} hook --task {quote(task)} --latest"
    hook: dict[str, Any] = {"type": "command", "command": command}
    if agent == "codex":
        return configuration.codex(place or Path.home() / ".codex", server, hook)
    folder = place or Path()
    if agent == "cursor":
        return configuration.cursor(folder, server)
    if http:
        url, _ = _address(session, settings)
        hook = configuration.http_hook(url, task, key="" if settings.server.loopback else "HEADWAY_KEY")
    return configuration.claude(folder, server, hook)


def _connect(session: Session, files: Sequence[ConfigFile], wanted: bool) -> None:
    from headway.kits.agents.connect import write

    for file in files:
        if wanted:
            session.out.line(f"{file.path} {'written' if write(file) else 'is as it should be'}.")
        else:
            session.out.line(f"In {file.path}:")
            session.out.line(file.ours)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConnection:
    """What connects an agent with a task, and the steps to the first signal."""

    agent: str
    task: str
    files: Sequence[str]
    written: bool
    url: str | None
    steps: Sequence[str]


@renders(AgentConnection)
def _steps(out: Output, connection: AgentConnection) -> None:
    for line in connection.steps:
        out.line(line)


def _tools(
    session: Session, settings: Settings, agent: str, task: str, files: Sequence[ConfigFile], written: bool
) -> AgentConnection:
    from importlib.util import find_spec

    steps = []
    if find_spec("mcp") is None:
        steps.append("The tools need a package: pip install 'headway[mcp]'")
    if not written:
        steps.append(f"To write this: {session.command(f'headway connect {agent} --task {task} --write')}")
    reward = ", ".join(f"`{name}`" for name in _signals(settings.tasks.get(task)))
    steps.append(
        f"Restart {agent}, and tell it in its instructions: before you choose, call Headway's `decide` with task "
        f"`{task}`; afterwards report {reward} with `signal`."
    )
    if agent != "cursor":
        steps.append("The hooks report tests_passed and change_kept; give them a weight in the reward of the task.")
    return AgentConnection(
        agent=agent, task=task, files=[str(file.path) for file in files], written=written, url=None, steps=steps
    )


def _address(session: Session, settings: Settings) -> tuple[str, bool]:
    """Where the server is or will be, and whether it runs."""
    from headway.loop import running_url

    running = running_url(session.folder / ".headway")
    return running or f"http://{settings.server.host}:{settings.server.port}", running is not None


def _signals(task: TaskSettings | None) -> tuple[str, ...]:
    return ("reward",) if task is None or isinstance(task.reward, str) else tuple(task.reward)


def _base_url(session: Session, settings: Settings, task: str) -> AgentConnection:
    from headway.reward import is_cost

    declared = settings.tasks.get(task)
    actions = () if declared is None else declared.actions
    if not set(actions) & set(settings.upstreams):
        raise errors.InvalidInput(
            f"The task {task!r} has no action that is an upstream, so there is no model server to pass requests to.",
            code="no_upstream",
            hint="Declare a table [upstreams.NAME] with url and model in headway.toml for each of its actions.",
        )
    url, running = _address(session, settings)
    start = session.typed("headway up")
    example = next((name for name in _signals(declared) if not is_cost(name)), _signals(declared)[0])
    asked = {"model": f"headway/{task}", "messages": [{"role": "user", "content": "Hello"}]}
    steps = [
        *([] if running else [f"Start the server: {start}"]),
        "In any OpenAI-compatible client:",
        f"  base_url = {url}/v1      OPENAI_BASE_URL={url}/v1",
        f"  model    = headway/{task}      Headway chooses between {', '.join(actions)}",
        "  api_key  = anything on this machine; a key of `headway keys add` elsewhere",
        f"  {_curl(f'{url}/v1/chat/completions', asked)}",
        "The id of the answer is the id of the decision; cost_usd, tokens and latency_s are measured. Say how it went:",
        f"  {_curl(f'{url}/v1/decisions/DECISION_ID/signals', {example: 1})}",
    ]
    return AgentConnection(agent="openai", task=task, files=[], written=False, url=f"{url}/v1", steps=steps)


def _curl(url: str, body: dict[str, Any]) -> str:
    return f"curl -s {url} -H 'content-type: application/json' -d {quote(json.dumps(body))}"
