"""From logits to tokens: temperature, top-p, the draw, and both log-probabilities of what was drawn.

A row's draw is a pure function of its logits, its settings and its number u in [0, 1): no generator is shared, so that
what else runs in the batch changes nothing. The nucleus of top-p is the shortest list of most probable tokens whose
probability reaches p, the token that reaches it included (Holtzman et al., "The Curious Case of Neural Text
Degeneration", 2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from headway.decide.explore import splitmix64, uniform

__all__ = ["Draw", "Picked", "draw_at", "pick"]

_FIRST = 256  # candidates for the nucleus that are sorted before the whole vocabulary is


@dataclass(frozen=True, slots=True)
class Draw:
    """How one row draws its next token."""

    temperature: float
    top_p: float
    u: float


@dataclass(frozen=True, slots=True)
class Picked:
    """A row's next token, with its log-probability under the model and under what it was drawn from."""

    token: int
    logprob_model: float
    logprob_acting: float


def draw_at(seed: int, step: int) -> float:
    """The number that the reply with this seed draws its token `step` with."""
    return uniform(splitmix64(seed) ^ splitmix64(~step))


def pick(logits: torch.Tensor, draws: Sequence[Draw]) -> list[Picked]:
    """The next token of every row of logits [row, vocabulary]."""
    logits = logits.float()
    tokens = torch.empty(len(draws), dtype=torch.long, device=logits.device)
    acting = torch.zeros(len(draws), dtype=torch.float32, device=logits.device)
    kinds: dict[str, list[int]] = {"greedy": [], "whole": [], "nucleus": []}
    for row, each in enumerate(draws):
        kinds["greedy" if each.temperature == 0 else "whole" if each.top_p >= 1 else "nucleus"].append(row)
    for kind, rows in kinds.items():
        if not rows:
            continue
        part = logits if len(rows) == len(draws) else logits[rows]
        if kind == "greedy":
            tokens[rows] = part.argmax(-1)
            continue
        settings = [draws[row] for row in rows]
        temperature = part.new_tensor([each.temperature for each in settings])[:, None]
        logprobs = torch.log_softmax(part / temperature, -1)  # [row, vocabulary]
        u = torch.tensor([each.u for each in settings], dtype=_wide(part), device=part.device)[:, None]
        if kind == "whole":
            tokens[rows] = _drawn(logprobs.exp(), u)
            acting[rows] = logprobs.gather(1, tokens[rows][:, None])[:, 0]
        else:
            top_p = u.new_tensor([each.top_p for each in settings])[:, None]
            tokens[rows], acting[rows] = _from_nucleus(logprobs, top_p, u)
    model = logits.gather(1, tokens[:, None])[:, 0] - torch.logsumexp(logits, -1)
    return [Picked(*each) for each in zip(tokens.tolist(), model.tolist(), acting.tolist(), strict=True)]


def _wide(tensor: torch.Tensor) -> torch.dtype:
    """For sums over a vocabulary: float64 where the device has it."""
    return torch.float32 if tensor.device.type == "mps" else torch.float64


def _drawn(probabilities: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    """The place at u of each row's cumulative distribution; never one of probability 0."""
    reached = probabilities.cumsum(-1, dtype=u.dtype)
    # The sum is one but for rounding, so u is a share of what it really is. u < 1 makes the product smaller than the
    # sum in floating point too: the place found is one where the sum grew.
    share = u.clamp(max=1 - torch.finfo(u.dtype).eps / 2)
    return torch.searchsorted(reached, share * reached[:, -1:], right=True)[:, 0]


def _from_nucleus(logprobs: torch.Tensor, top_p: torch.Tensor, u: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    size = min(_FIRST, logprobs.shape[-1])
    best, ids = logprobs.topk(size, -1)
    mass = best.exp().cumsum(-1, dtype=u.dtype)
    if size < logprobs.shape[-1] and bool((mass[:, -1:] < top_p).any()):
        best, ids = logprobs.sort(-1, descending=True)
        mass = best.exp().cumsum(-1, dtype=u.dtype)
    before = torch.cat([torch.zeros_like(mass[:, :1]), mass[:, :-1]], -1)
    inside = before < top_p  # up to and with the token that reaches p
    kept = torch.where(inside, best.exp(), torch.zeros_like(best))
    place = _drawn(kept, u)[:, None]
    whole = kept.sum(-1, keepdim=True, dtype=u.dtype).log()
    acting = best.gather(1, place) - whole
    return ids.gather(1, place)[:, 0], acting[:, 0].float().clamp(max=0)
