"""A project as tools of the Model Context Protocol, over standard input and output: `headway mcp`.

Tools: decide, signal, score, rank, explain, status. An agent that is being optimised should not judge itself: omit the
tool `signal` (`signals=False`) and let tests, people or a hook report the outcome. An agent's signals have the rater
"mcp", so that reports can separate them. Not covered: learning and promotion, which no agent should trigger.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Annotated, Any

from headway.kits.next_action import Ranked, asked_about, rank as ranked
from headway.nouns import document, errors
from headway.project import Project

try:
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.types import ToolAnnotations
    from pydantic import Field
except ModuleNotFoundError as error:
    raise errors.MissingExtra("`headway mcp`", "mcp", "mcp") from error

RATER = "mcp"
_INSTRUCTIONS = (
    "Headway makes recurring decisions and learns which choice works. Call `decide` before such a choice, follow the "
    "answer, and report the outcome with `signal` and the decision's id. `rank` and `score` predict without deciding; "
    "`explain` and `status` show what Headway knows."
)
Task = Annotated[str, Field(description="The name of the recurring decision, for example route.")]
Text = Annotated[str, Field(description="The text that the decision is about.")]
State = Annotated[
    dict[str, bool | int | float | str | list[float]] | None,
    Field(description="What is known about the situation, as named values."),
]
Offers = Annotated[
    list[str | dict[str, Any]] | None,
    Field(description="Names, or objects with a name and features; by default the task's declared actions."),
]
Identifier = Annotated[str, Field(description="The id that `decide` returned.")]


def _with_errors(tool: Callable[..., Any]) -> Callable[..., Any]:
    """Report errors to the agent with their code and hint."""

    @functools.wraps(tool)
    def call(*values: Any, **named: Any) -> Any:
        try:
            return tool(*values, **named)
        except errors.HeadwayError as error:
            raise ToolError(f"{error.code}: {error}") from error

    return call


class Tools:
    """The verbs of a project, as an agent calls them."""

    def __init__(self, project: Project) -> None:
        self._project = project

    @_with_errors
    def decide(
        self,
        task: Task,
        text: Text = "",
        candidates: Offers = None,
        state: State = None,
        episode: Annotated[
            str | None, Field(description="The session or conversation that the decision belongs to.")
        ] = None,
        role: Annotated[str, Field(description="The role of the caller, for example coder.")] = "",
        id: Annotated[
            str | None, Field(description="A UUID that you choose: the same id returns the same decision.")
        ] = None,
        masks: Annotated[
            dict[str, list[str]] | None,
            Field(description="In a task of several heads: the choices that are allowed now, by head."),
        ] = None,
    ) -> dict[str, Any]:
        """Choose one of the candidates. Follow the answer, then report the outcome with `signal`.

        In a task of several heads the answer has the choice of each under `heads`.
        """
        decision = self._project.decide(
            task, text, candidates, state=state, episode=episode, role=role, id=id, masks=masks
        )
        rewards = self._project.rewards(task)
        told: dict[str, Any] = {
            "id": decision.id,
            "action": decision.action,
            "propensity": decision.propensity,
            "policy": decision.policy,
            "signals": list(rewards.required or sorted(rewards.signals) or ("reward",)),
        }
        heads = self._project.beside(decision).get("heads", {})
        return {**told, "heads": {name: head.choice for name, head in heads.items()}} if heads else told

    @_with_errors
    def signal(
        self,
        id: Identifier,
        signals: Annotated[dict[str, float], Field(description="Named numbers, for example {'reward': 1.0}.")],
        label: Annotated[str, Field(description="A short label, for example the name of an error.")] = "",
        key: Annotated[str, Field(description="Signals with the same key are stored once.")] = "",
    ) -> dict[str, Any]:
        """Report the outcome of a decision or an episode as named numbers. Report failures too."""
        new = self._project.signal(id, signals, rater=RATER, label=label, key=key)
        warnings = self._project.unread_signals(id, signals)
        return {"new": new, "warnings": warnings} if warnings else {"new": new}

    @_with_errors
    def score(
        self,
        task: Task,
        candidate: Annotated[str | dict[str, Any], Field(description="A name, or an object with a name and features.")],
        text: Text = "",
        state: State = None,
    ) -> dict[str, Any]:
        """Predict the reward of one candidate, with its uncertainty; nothing is logged.

        A ranking task without a state takes that of its latest decision and names it (`state_of`).
        """
        (row,), state_of = self._ranked(task, [candidate], text, state)
        return {**row.document(), **state_of}

    @_with_errors
    def rank(self, task: Task, candidates: Offers = None, text: Text = "", state: State = None) -> dict[str, Any]:
        """Sort candidates by predicted reward; nothing is logged.

        A ranking task without a state takes that of its latest decision and names it (`state_of`).
        """
        ranking, state_of = self._ranked(task, candidates, text, state)
        return {"ranking": [row.document() for row in ranking], **state_of}

    def _ranked(self, task: str, candidates: Any, text: str, state: Any) -> tuple[list[Ranked], dict[str, str]]:
        asked = asked_about(self._project, task, text, state)
        ranking = ranked(self._project, task, candidates, asked.text, state=asked.state, role=asked.role)
        return ranking, {"state_of": asked.state_of} if asked.state_of else {}

    @_with_errors
    def explain(self, id: Identifier) -> dict[str, Any]:
        """Which policy made a decision, why, with which probabilities, and the outcome."""
        return document(self._project.explain(id))

    @_with_errors
    def status(self) -> dict[str, Any]:
        """Every task: its current policy, its counts, and its pending candidates."""
        return {"tasks": [document(task) for task in self._project.status().tasks]}


def server(project: Project, *, signals: bool = True) -> MCPServer[Any]:
    """A server with the tools of an open project."""
    mcp_server: MCPServer[Any] = MCPServer("headway", instructions=_INSTRUCTIONS, log_level="WARNING")
    tools = Tools(project)
    for tool in (tools.decide, tools.signal) if signals else (tools.decide,):
        mcp_server.add_tool(tool, annotations=ToolAnnotations(destructive_hint=False, open_world_hint=False))
    for tool in (tools.score, tools.rank, tools.explain, tools.status):
        mcp_server.add_tool(tool, annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False))
    return mcp_server


def serve_stdio(project: Project, *, signals: bool = True) -> None:
    """Answer until standard input ends."""
    server(project, signals=signals).run("stdio")
