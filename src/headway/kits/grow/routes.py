"""Growing networks over HTTP, for the page: what `headway grow evaluate` found."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from headway.kits.grow.kept_evaluations import GrowEvaluation, kept_evaluations
from headway.nouns import errors
from headway.serve import Call, endpoint, strict


class GrowAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The policies of a task that were evaluated on held-out hosts, newest first, and one evaluation; null: none."""

    task: str
    evaluated: list[str]
    evaluation: GrowEvaluation | None


class GrowQuery(strict):
    policy: Annotated[str, Meta(max_length=200)] = ""  # the newest


@endpoint("GET", "/v1/tasks/{task}/grow", query=GrowQuery, gives=GrowAnswer, errors=(404,), scope="train")
def grow_evaluation(call: Call) -> GrowAnswer:
    """Ways of growing on held-out hosts, and episodes step by step, as the last evaluation of a policy stored them."""
    task, wanted, project = call.params["task"], call.query.policy, call.server.project
    project.settings.task(task)
    kept = {each.policies[0]: each for each in reversed(kept_evaluations(project.home, task))}
    names = list(reversed(kept))
    if wanted and wanted not in kept:
        raise errors.UnknownName(
            f"No evaluation of {wanted!r} is stored.",
            code="unknown_policy",
            hint=errors.did_you_mean(wanted, names) or f"headway grow evaluate {wanted}",
        )
    return GrowAnswer(task=task, evaluated=names, evaluation=kept[wanted or names[0]] if names else None)
