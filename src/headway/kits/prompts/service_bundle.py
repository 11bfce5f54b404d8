"""What an update of the prompt-mutation service is stored as."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headway.kits.practice.practise import versions
from headway.nouns.checkpoint import Header
from headway.promote.bundle import specs

if TYPE_CHECKING:
    from headway.kits.practice.policy import ActorCritic

__all__ = ["bundled"]


def bundled(
    policy: ActorCritic, task: str, metrics: Mapping[str, float], *, steps: int, upto: int, seed: int
) -> tuple[Header, dict[str, Any]]:
    """Header and tensors of a policy; the optimiser is among them, so that the next update goes on from here."""
    tensors = dict(policy.tensors)
    header = Header(
        task=task,
        family=policy.family,
        kind="choice",
        encoder="",
        knobs=dict(policy.knobs),
        tensors=specs(tensors),
        parameters=sum(int(each.size) for name, each in tensors.items() if not name.startswith("adam")),
        trained_on={"steps": steps, "upto": upto, "parts": []},
        split={},
        metrics=dict(metrics),
        baselines={},
        seed=seed,
        versions=versions(),
        extra={
            "arms": list(policy.arms.names),
            "features": policy.features.to_json(),
            "actions": policy.actions.to_json(),
        },
    )
    return header, tensors
