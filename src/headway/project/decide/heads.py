"""The pipeline of a factored task: its heads, what is always allowed, and the policy that decides them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headway.decide.factored import FactoredPipeline, UniformHeads
from headway.decide.masks import masks_together
from headway.nouns.checkpoint import PolicyRef
from headway.nouns.errors import Conflict
from headway.nouns.factored import Factored, Head

if TYPE_CHECKING:
    from headway.project.decide.serving import Servings


def acting_floor(body: Mapping[str, Any]) -> float:
    """The share of uniform choices under a configuration body: more than usual while an alarm is open."""
    return max(float(body["floor"]), float(body.get("alarm", {}).get("floor", 0.0)))


def heads_pipeline(servings: Servings, task: str, body: Mapping[str, Any], ref: str, digest: str) -> FactoredPipeline:
    """The pipeline under a configuration body; a built-in policy makes every allowed choice as likely as the others."""
    space = Factored(
        tuple(Head(name, tuple(choices)) for name, choices in body["heads"]),
        {choice: tuple(used) for choice, used in body["needs"].items()},
    )
    _, allowed = masks_together(space, body["masks"])
    if PolicyRef.parse(ref).built_in:
        return FactoredPipeline(UniformHeads(space), acting_floor(body), allowed)
    policy: Any = servings.policy(task, body, ref, digest)
    other = getattr(policy, "space", None)
    if other is None or (other.heads, other.relevant) != (space.heads, space.relevant):
        theirs = "one of several candidates" if other is None else _sizes(other)
        raise Conflict(
            f"{ref} decides {theirs}; the task {task!r} has {_sizes(space)}.",
            code="other_heads",
            hint="Set `heads` and `needs` of the task to those that the policy practised with.",
        )
    return FactoredPipeline(policy, acting_floor(body), allowed)


def refuse_heads(task: str, ref: str, policy: Any) -> None:
    """A factored policy cannot decide a task of another kind."""
    if getattr(policy, "space", None) is not None and not hasattr(policy, "opinions"):
        raise Conflict(
            f"{ref} decides {_sizes(policy.space)}; the task {task!r} is not factored.",
            code="other_heads",
            hint='Declare the task with kind = "factored" and these heads.',
        )


def _sizes(space: Factored) -> str:
    """The heads in words; two spaces of the same sizes differ in their choices or in what these need."""
    return "the heads " + ", ".join(f"{head.name} {len(head.choices)}" for head in space.heads)
