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
            tokens[rows] = _from_all(logprobs, settings)
            acting[rows] = logprobs.gather(1, tokens[rows][:, None])[:, 0]
        else:
            top_p = part.new_tensor([each.top_p for each in settings])[:, None]
            tokens[rows], acting[rows] = _from_nucleus(logprobs, top_p, settings)
    model = logits.gather(1, tokens[:, None])[:, 0] - torch.logsumexp(logits, -1)
    return [Picked(*each) for each in zip(tokens.tolist(), model.tolist(), acting.tolist(), strict=True)]


def _from_all(logprobs: torch.Tensor, draws: Sequence[Draw]) -> torch.Tensor:
    ids = torch.arange(logprobs.shape[-1], dtype=torch.int32, device=logprobs.device)
    if logprobs.device.type != "cpu":
        return (logprobs + noise(draws, ids.expand(len(draws), -1))).argmax(-1)
    # Row by row, what is computed stays in the cache of the core.
    return torch.cat([(row + noise([draw], ids[None])).argmax(-1) for row, draw in zip(logprobs, draws, strict=True)])


def _from_nucleus(
    logprobs: torch.Tensor, top_p: torch.Tensor, draws: Sequence[Draw]
) -> tuple[torch.Tensor, torch.Tensor]:
    if logprobs.device.type != "cpu":
        best, order = logprobs.sort(-1, descending=True)
        return _drawn(best, order, top_p, draws)
    # Sorting a whole vocabulary is slow here and never needed: tokens below (1 − p)/size hold less than 1 − p
    # together, so that the others reach p without them.
    cut = torch.log((1 - top_p) / logprobs.shape[-1])
    found = []
    for row, draw in enumerate(draws):
        ids = (logprobs[row] >= cut[row]).nonzero()[:, 0]
        best, order = logprobs[row, ids].sort(descending=True)
        found.append(_drawn(best[None], ids[order][None], top_p[row : row + 1], [draw]))
    return torch.cat([each[0] for each in found]), torch.cat([each[1] for each in found])


def _drawn(
    best: torch.Tensor, ids: torch.Tensor, top_p: torch.Tensor, draws: Sequence[Draw]
) -> tuple[torch.Tensor, torch.Tensor]:
    """From log-probabilities in falling order [row, token] and their tokens: the token drawn, and its own."""
    mass = best.exp().cumsum(-1)
    inside = torch.cat([torch.zeros_like(mass[:, :1]), mass[:, :-1]], -1) < top_p  # with the token that reaches p
    kept = best.masked_fill(~inside, -torch.inf)
    place = (kept + noise(draws, ids)).argmax(-1, keepdim=True)
    acting = kept.gather(1, place) - kept.logsumexp(-1, keepdim=True)
    return ids.gather(1, place)[:, 0], acting[:, 0].clamp(max=0)


def noise(draws: Sequence[Draw], ids: torch.Tensor) -> torch.Tensor:
    """Standard Gumbel noise for tokens ids [row, token], the same on every device."""
    words = [splitmix64(splitmix64(each.seed) ^ splitmix64(~each.step)) for each in draws]
    keys = torch.tensor([[_signed(each & _WORD), _signed(each >> 32)] for each in words], dtype=torch.int32)
    keys = keys.to(ids.device)  # [row, 2]
    mixed = _mixed(_mixed(ids.to(torch.int32) ^ keys[:, :1]) + keys[:, 1:])
    wide = torch.float32 if ids.device.type == "mps" else torch.float64
    u = mixed.to(wide).mul_(2.0**-32).add_(0.5 + 2.0**-33)  # a signed word lies in [−2³¹, 2³¹)
    return u.clamp_(torch.finfo(wide).tiny, 1 - torch.finfo(wide).eps).log_().neg_().float().log_().neg_()


def _mixed(words: torch.Tensor) -> torch.Tensor:
    """A well-mixing bijection of 32-bit words. int32 wraps round; its shifts copy the sign, hence the masks."""
    words = words ^ ((words >> 16) & 0xFFFF)
    words = words * 0x7FEB352D
    words ^= (words >> 15) & 0x1FFFF
    words *= _signed(0x846CA68B)
    words ^= (words >> 16) & 0xFFFF
    return words


def _signed(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word
