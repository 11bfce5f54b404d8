"""From logits to tokens: temperature, top-p, the draw, and both log-probabilities of what was drawn.

A draw is a pure function of the row's logits, its settings, its seed and its step: no generator is shared. It is the
Gumbel-max draw: each token's log-probability plus a noise that depends on (seed, step, token) alone; the largest sum
wins, which happens with exactly the token's probability. A rounding error can then change a reply only where two tokens
tie within it; drawing from the cumulative distribution, an error anywhere moves every token after it. So a row says the
same in any batch, and nearly always on any device.

The nucleus of top-p is the shortest list of most probable tokens whose probability reaches p, the token that reaches it
included (Holtzman et al., "The Curious Case of Neural Text Degeneration", 2020). Gumbel-max: Maddison et al., "A*
Sampling", 2014. The noise is made by a keyed 32-bit hash (Ettinger, "lowbias32").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from headway.decide.explore import splitmix64

__all__ = ["Draw", "Picked", "noise", "pick"]

_FIRST = 256  # candidates for the nucleus that are sorted before the whole vocabulary is
_WORD = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Draw:
    """How one row draws its next token; temperature 0 is greedy."""

    temperature: float
    top_p: float
    seed: int
    step: int


@dataclass(frozen=True, slots=True)
class Picked:
    """A row's next token, with its log-probability under the model and under what it was drawn from."""

    token: int
    logprob_model: float
    logprob_acting: float


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
        if kind == "whole":
            ids = torch.arange(part.shape[-1], device=part.device).expand(len(rows), -1)
            tokens[rows] = (logprobs + noise(settings, ids)).argmax(-1)
            acting[rows] = logprobs.gather(1, tokens[rows][:, None])[:, 0]
        else:
            top_p = part.new_tensor([each.top_p for each in settings])[:, None]
            tokens[rows], acting[rows] = _from_nucleus(logprobs, top_p, settings)
    model = logits.gather(1, tokens[:, None])[:, 0] - torch.logsumexp(logits, -1)
    return [Picked(*each) for each in zip(tokens.tolist(), model.tolist(), acting.tolist(), strict=True)]


def _from_nucleus(
    logprobs: torch.Tensor, top_p: torch.Tensor, draws: Sequence[Draw]
) -> tuple[torch.Tensor, torch.Tensor]:
    size = min(_FIRST, logprobs.shape[-1])
    best, ids = logprobs.topk(size, -1)
    mass = best.exp().cumsum(-1)
    if size < logprobs.shape[-1] and bool((mass[:, -1:] < top_p).any()):
        best, ids = logprobs.sort(-1, descending=True)
        mass = best.exp().cumsum(-1)
    inside = torch.cat([torch.zeros_like(mass[:, :1]), mass[:, :-1]], -1) < top_p  # with the token that reaches p
    kept = best.masked_fill(~inside, -torch.inf)
    place = (kept + noise(draws, ids)).argmax(-1, keepdim=True)
    acting = kept.gather(1, place) - kept.logsumexp(-1, keepdim=True)
    return ids.gather(1, place)[:, 0], acting[:, 0].clamp(max=0)


def noise(draws: Sequence[Draw], ids: torch.Tensor) -> torch.Tensor:
    """Standard Gumbel noise for tokens ids [row, token], the same on every device."""
    words = [splitmix64(splitmix64(each.seed) ^ splitmix64(~each.step)) for each in draws]
    keys = torch.tensor([[each & _WORD, each >> 32] for each in words], device=ids.device)  # [row, 2]
    mixed = _mixed((_mixed(ids ^ keys[:, :1]) + keys[:, 1:]) & _WORD)
    wide = torch.float32 if ids.device.type == "mps" else torch.float64
    u = ((mixed.to(wide) + 0.5) * 2.0**-32).clamp(max=1 - torch.finfo(wide).eps)
    return -(-u.log()).float().log()


def _mixed(words: torch.Tensor) -> torch.Tensor:
    """A well-mixing bijection of 32-bit words, held in int64."""
    words = words ^ (words >> 16)
    words = (words * 0x7FEB352D) & _WORD
    words = words ^ (words >> 15)
    words = (words * 0x846CA68B) & _WORD
    return words ^ (words >> 16)
