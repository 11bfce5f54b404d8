"""Draw tokens from logits: temperature, top-p, and both log-probabilities of the drawn token.

A draw is a pure function of the row's logits, settings, seed and step; no random generator is shared. It is the
Gumbel-max draw: add noise that depends only on (seed, step, token) to each token's log-probability; each token has the
largest sum with exactly its probability. A rounding error changes a reply only if two tokens are that close to a tie;
in a draw from the cumulative distribution, an error anywhere would shift every later token. A row therefore gets the
same text in any batch, and nearly always on any device.

The nucleus of top-p is the shortest list of most probable tokens whose probability reaches p, including the token that
reaches it (Holtzman et al., "The Curious Case of Neural Text Degeneration", 2020). Gumbel-max: Maddison et al., "A*
Sampling", 2014. The noise comes from a keyed 32-bit hash (Ettinger, "lowbias32").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from headway.decide import explore

_WORD = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class TokenDraw:
    """The settings of one row's next draw; temperature 0 is greedy."""

    temperature: float
    top_p: float
    seed: int
    step: int


@dataclass(frozen=True, slots=True)
class PickedToken:
    """A row's next token, with its log-probability under the model and under the sampling distribution."""

    token: int
    logprob_model: float
    logprob_acting: float


def pick(logits: torch.Tensor, draws: Sequence[TokenDraw]) -> list[PickedToken]:
    """The next token of every row of logits [row, vocabulary]."""
    logits = logits.float()
    tokens = torch.empty(len(draws), dtype=torch.long, device=logits.device)
    acting = torch.zeros(len(draws), dtype=torch.float32, device=logits.device)
    kinds: dict[str, list[int]] = {"greedy": [], "whole": [], "nucleus": []}
    for row, draw in enumerate(draws):
        kinds["greedy" if draw.temperature == 0 else "whole" if draw.top_p >= 1 else "nucleus"].append(row)
    for kind, rows in kinds.items():
        if not rows:
            continue
        part = logits if len(rows) == len(draws) else logits[rows]
        if kind == "greedy":
            tokens[rows] = part.argmax(-1)
            continue
        settings = [draws[row] for row in rows]
        temperature = part.new_tensor([draw.temperature for draw in settings])[:, None]
        logprobs = torch.log_softmax(part / temperature, -1)  # [row, vocabulary]
        if kind == "whole":
            tokens[rows] = _from_all(logprobs, settings)
            acting[rows] = logprobs.gather(1, tokens[rows][:, None])[:, 0]
        else:
            top_p = part.new_tensor([draw.top_p for draw in settings])[:, None]
            tokens[rows], acting[rows] = _from_nucleus(logprobs, top_p, settings)
    model = logits.gather(1, tokens[:, None])[:, 0] - torch.logsumexp(logits, -1)
    return [PickedToken(*values) for values in zip(tokens.tolist(), model.tolist(), acting.tolist(), strict=True)]


def _from_all(logprobs: torch.Tensor, draws: Sequence[TokenDraw]) -> torch.Tensor:
    ids = torch.arange(logprobs.shape[-1], dtype=torch.int32, device=logprobs.device)
    if logprobs.device.type != "cpu":
        return (logprobs + noise(draws, ids.expand(len(draws), -1))).argmax(-1)
    # Row by row, intermediate results stay in the cache of the core.
    return torch.cat([(row + noise([draw], ids[None])).argmax(-1) for row, draw in zip(logprobs, draws, strict=True)])


def _from_nucleus(
    logprobs: torch.Tensor, top_p: torch.Tensor, draws: Sequence[TokenDraw]
) -> tuple[torch.Tensor, torch.Tensor]:
    if logprobs.device.type != "cpu":
        best, order = logprobs.sort(-1, descending=True)
        return _drawn(best, order, top_p, draws)
    # Sorting the whole vocabulary is slow here and not needed: tokens below (1 − p)/size sum to less than 1 − p,
    # so the others reach p without them.
    cut = torch.log((1 - top_p) / logprobs.shape[-1])
    drawn = []
    for row, draw in enumerate(draws):
        ids = (logprobs[row] >= cut[row]).nonzero()[:, 0]
        best, order = logprobs[row, ids].sort(descending=True)
        drawn.append(_drawn(best[None], ids[order][None], top_p[row : row + 1], [draw]))
    return torch.cat([pair[0] for pair in drawn]), torch.cat([pair[1] for pair in drawn])


def _drawn(
    best: torch.Tensor, ids: torch.Tensor, top_p: torch.Tensor, draws: Sequence[TokenDraw]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw from sorted log-probabilities [row, token]; returns the tokens and their log-probabilities."""
    mass = best.exp().cumsum(-1)
    inside = torch.cat([torch.zeros_like(mass[:, :1]), mass[:, :-1]], -1) < top_p  # includes the token that reaches p
    nucleus = best.masked_fill(~inside, -torch.inf)
    place = (nucleus + noise(draws, ids)).argmax(-1, keepdim=True)
    acting = nucleus.gather(1, place) - nucleus.logsumexp(-1, keepdim=True)
    return ids.gather(1, place)[:, 0], acting[:, 0].clamp(max=0)


def noise(draws: Sequence[TokenDraw], ids: torch.Tensor) -> torch.Tensor:
    """Standard Gumbel noise for tokens ids [row, token], the same on every device."""
    words = [explore.splitmix64(explore.splitmix64(draw.seed) ^ explore.splitmix64(~draw.step)) for draw in draws]
    keys = torch.tensor([[_signed(word & _WORD), _signed(word >> 32)] for word in words], dtype=torch.int32)
    keys = keys.to(ids.device)  # [row, 2]
    mixed = _mixed(_mixed(ids.to(torch.int32) ^ keys[:, :1]) + keys[:, 1:])
    wide = torch.float32 if ids.device.type == "mps" else torch.float64
    u = mixed.to(wide).mul_(2.0**-32).add_(0.5 + 2.0**-33)  # a signed word is in [−2³¹, 2³¹)
    return u.clamp_(torch.finfo(wide).tiny, 1 - torch.finfo(wide).eps).log_().neg_().float().log_().neg_()


def _mixed(words: torch.Tensor) -> torch.Tensor:
    """A well-mixing bijection of 32-bit words. int32 overflow wraps; shifts copy the sign, hence the masks."""
    words = words ^ ((words >> 16) & 0xFFFF)
    words = words * 0x7FEB352D
    words ^= (words >> 15) & 0x1FFFF
    words *= _signed(0x846CA68B)
    words ^= (words >> 16) & 0xFFFF
    return words


def _signed(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word
