"""A project as tools of the Model Context Protocol, over standard input and output: `headway mcp`.

Tools: decide, signal, score, rank, explain, status. An agent that is being optimised should not judge itself: leave
`signal` out (`signals=False`) and let tests, people or a hook say how it went. What an agent says is kept under the
rater "mcp", so that a report can tell it apart. Not covered: learning and promotion, which no agent should trigger.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Annotated, Any

from headway.nouns.errors import HeadwayError, MissingExtra
from headway.project import Project

try:
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.types import ToolAnnotations
    from pydantic import Field
except ModuleNotFoundError as error:
    raise MissingExtra("`headway mcp`", "mcp", "mcp") from error

__all__ = ["RATER", "serve_stdio", "server"]

RATER = "mcp"
_INSTRUCTIONS = (
    "Headway decides what is decided again and again, and learns which choice works. Call `decide` before such a "
    "choice, do what it answers, and report how it went with `signal` and the decision's id. `rank` and `score` "
    "predict without deciding; `explain` and `status` show what is known."
)
Task = Annotated[str, Field(description="The decision that is made again and again, for example route.")]
Text = Annotated[str, Field(description="What is decided about, in words.")]
State = Annotated[
    dict[str, bool | int | float | str | list[float]] | None, Field(description="What is known, as named values.")
]
Offers = Annotated[
    list[str | dict[str, Any]] | None,
    Field(description="Names, or tables with a name and features; by default the task's declared actions."),
]
Identifier = Annotated[str, Field(description="The id that `decide` returned.")]


def _spoken(tool: Callable[..., Any]) -> Callable[..., Any]:
    """What goes wrong is told to the agent with its code and cure."""

    @functools.wraps(tool)
    def call(*values: Any, **named: Any) -> Any:
        try:
            return tool(*values, **named)
        except HeadwayError as error:
            raise ToolError(f"{error.code}: {error}") from error

    return call


class Tools:
    """The verbs of a project, as an agent calls them."""

    def __init__(self, project: Project) -> None:
        self._project = project

    @_spoken
    def decide(
        self,
        task: Task,
        text: Text = "",
        candidates: Offers = None,
        state: State = None,
        episode: Annotated[str | None, Field(description="The session or conversation that it belongs to.")] = None,
        role: Annotated[str, Field(description="Who asks, for example coder.")] = "",
        id: Annotated[str | None, Field(description="A UUID of yours: the same id gives the same decision.")] = None,
    ) -> dict[str, Any]:
        """Choose one of the candidates. Do what it answers, then report how it went with `signal`."""
        made = self._project.decide(task, text, candidates, state=state, episode=episode, role=role, id=id)
        rewards = self._project.rewards(task)
        return {
            "id": made.id,
            "action": made.action,
            "propensity": made.propensity,
            "policy": made.policy,
            "signals": list(rewards.required or sorted(rewards.signals) or ("reward",)),
        }

    @_spoken
    def signal(
        self,
        id: Identifier,
        signals: Annotated[dict[str, float], Field(description="Named numbers, for example {'reward': 1.0}.")],
        label: Annotated[str, Field(description="A word beside the numbers, for example the error's name.")] = "",
        key: Annotated[str, Field(description="The same key again counts once.")] = "",
    ) -> dict[str, Any]:
        """Say how a decision or an episode went, in named numbers. Report failures too."""
        return {"new": self._project.signal(id, signals, rater=RATER, label=label, key=key)}

    @_spoken
    def score(
        self,
        task: Task,
        candidate: Annotated[str | dict[str, Any], Field(description="A name, or a table with a name and features.")],
        text: Text = "",
        state: State = None,
    ) -> dict[str, Any]:
        """Predict the reward of one candidate, with its uncertainty; nothing is logged."""
        (row,) = self._project.rank(task, [candidate], text, state=state)
        return row.document()

    @_spoken
    def rank(self, task: Task, candidates: Offers = None, text: Text = "", state: State = None) -> dict[str, Any]:
        """Put candidates in order of predicted reward; nothing is logged."""
        return {"ranking": [row.document() for row in self._project.rank(task, candidates, text, state=state)]}

    @_spoken
    def explain(self, id: Identifier) -> dict[str, Any]:
        """Who made a decision, why, with which probabilities, and how it went."""
        return self._project.explain(id).document()

    @_spoken
    def status(self) -> dict[str, Any]:
        """Every task: who decides now, how much has come in, what waits."""
        return {"tasks": [task.document() for task in self._project.status().tasks]}


def server(project: Project, *, signals: bool = True) -> MCPServer[Any]:
    """The tools over an open project."""
    found: MCPServer[Any] = MCPServer("headway", instructions=_INSTRUCTIONS, log_level="WARNING")
    tools = Tools(project)
    for tool in (tools.decide, tools.signal) if signals else (tools.decide,):
        found.add_tool(tool, annotations=ToolAnnotations(destructive_hint=False, open_world_hint=False))
    for tool in (tools.score, tools.rank, tools.explain, tools.status):
        found.add_tool(tool, annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False))
    return found


def serve_stdio(project: Project, *, signals: bool = True) -> None:
    """Answer until standard input ends."""
    server(project, signals=signals).run("stdio")
