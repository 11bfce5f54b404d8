"""The objective of factored actions over the rows of sequences: PPO's surrogate on the joint ratio, entropy per head.

    choices = chosen(space, scores, masks, actions)         # log-probabilities of what was done, head by head
    choices.joint                                           # [row]: their sum over the heads that count
    bonus = entropy_bonus(space, choices, weights, by="use")

A head that the lead's choice does not use has log-probability 0 and entropy 0; a masked choice has probability 0.

Entropy is divided by the log of the number of allowed choices, so that 1 is uniform for every head. The bonus of a head
is its weight times the mean over the steps that use it, times the share of steps that do (`by="use"`): a head that is
used 5 times weighs a hundredth of one that is used 500 times. With `by="head"` the share is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from headway.kits.grow.factored.space import Factored
from headway.kits.practice import ppo


@dataclass(frozen=True, slots=True)
class Choices:
    """Log-probabilities and entropies of actions, [row] per head; exactly 0 where the head does not count."""

    logs: dict[str, Tensor]
    entropies: dict[str, Tensor]  # normalised: 1 is uniform over what is allowed
    counts: dict[str, Tensor]  # bool: whether the head counts
    joint: Tensor


def chosen(space: Factored, scores: Mapping[str, Tensor], masks: Mapping[str, Tensor], actions: Tensor) -> Choices:
    """What the present scores say about actions [row, head]; masks as a world gives them."""
    lead = actions[:, 0]
    table = torch.tensor(space.relevant, device=actions.device)
    logs: dict[str, Tensor] = {}
    entropies: dict[str, Tensor] = {}
    counts: dict[str, Tensor] = {}
    for place, head in enumerate(space.heads):
        mask = masks.get(head.name)
        if mask is not None and head.name in space.conditional:
            mask = mask[torch.arange(len(lead), device=lead.device), lead]
        log = ppo.categorical(scores[head.name], mask)
        used = table[lead, place]
        taken = log.gather(1, actions[:, place, None])[:, 0]
        zero = torch.zeros_like(taken)
        logs[head.name] = torch.where(used, taken, zero)
        entropies[head.name] = torch.where(used, _entropy(log, mask), zero)
        counts[head.name] = used
    joint = torch.stack(list(logs.values())).sum(0) if len(logs) > 1 else logs[space.lead.name]
    return Choices(logs, entropies, counts, joint)


def _entropy(log: Tensor, mask: Tensor | None) -> Tensor:
    """[row] in 0 … 1; 0 where a single choice is allowed."""
    most = log.new_tensor(log.shape[-1]) if mask is None else mask.sum(-1).to(log.dtype)
    whole: Tensor = ppo.entropy_of(log) / most.clamp_min(2.0).log()
    return whole


def entropy_bonus(choices: Choices, weights: Mapping[str, float], *, by: str = "use") -> Tensor:
    """Σ_head weight · entropy; how heads weigh against one another: see above."""
    parts = [
        weights.get(name, 1.0) * (entropy.mean() if by == "use" else ppo.masked_mean(entropy, choices.counts[name]))
        for name, entropy in choices.entropies.items()
    ]
    return torch.stack(parts).sum()


def lead_shares(space: Factored, scores: Mapping[str, Tensor], masks: Mapping[str, Tensor]) -> Tensor:
    """[row, lead choice]: the probabilities of the lead, without a gradient."""
    first = space.lead.name
    return ppo.categorical(scores[first].detach(), masks.get(first)).exp()
