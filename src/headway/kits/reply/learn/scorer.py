"""Log-probabilities of replies, token by token, with gradients: the forward pass of training.

Rows are padded on the right and need no mask: no token sees what comes after it. On CUDA they are padded to a few
lengths, because the first pass of every new length costs more than the padding. The vocabulary is multiplied only for
the positions before tokens of the reply, in chunks, and its gradient is kept as one vector per position instead of one
number per word, which takes a hundredth of the memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

_CHUNK_BYTES = 64 << 20
_NEAR = 1e-3
_MULTIPLE = 64  # of tokens, on CUDA: 24 updates with it wrote 9,000 to 12,700 tokens/s, without it 4,500 to 5,500


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A prompt and its reply, as tokens; neither is empty."""

    prompt: Sequence[int]
    reply: Sequence[int]

    def __len__(self) -> int:
        return len(self.prompt) + len(self.reply)


class ScoredRows(NamedTuple):
    """[row, token]: log-probabilities, the mask of real tokens, and the last hidden states if they were wanted."""

    logprobs: Tensor
    mask: Tensor
    hidden: Tensor | None = None


class _Chosen(torch.autograd.Function):
    """Log-probabilities of chosen words from hidden states, with a frozen head."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, head: Tensor, words: Tensor) -> Tensor:
        rows = max(1, _CHUNK_BYTES // (4 * head.shape[0]))
        wanted = ctx.needs_input_grad[0]
        values, gradients = [], []
        for start in range(0, len(hidden), rows):
            part, word = hidden[start : start + rows], words[start : start + rows]
            logits = (part @ head.t()).float()
            chosen = logits.gather(1, word[:, None])[:, 0]
            total = logits.logsumexp(-1)
            values.append(chosen - total)
            if wanted:
                shares = logits.sub_(total[:, None]).exp_()
                gradients.append(head[word] - shares.to(head.dtype) @ head)
        if wanted:
            ctx.save_for_backward(torch.cat(gradients))
        return torch.cat(values)

    @staticmethod
    def backward(ctx: Any, *above: Any) -> Any:
        (gradient,) = ctx.saved_tensors
        return above[0][:, None].to(gradient.dtype) * gradient, None, None


class ReplyScorer:
    """Scores rows with a network, adapter and all."""

    def __init__(self, network: Any, *, pad: int, multiple: int = 0) -> None:
        """`multiple`: rows are padded to a multiple of this many tokens; 0 chooses for the device."""
        self.network, self.pad = network, pad
        self._into = network.get_input_embeddings().weight.device
        self._multiple = multiple or (_MULTIPLE if self._into.type == "cuda" else 1)
        self._window = int(getattr(network.config.get_text_config(), "max_position_embeddings", None) or 1 << 30)
        self._decoder = network.get_decoder() if hasattr(network, "get_decoder") else network.base_model
        self._head = network.get_output_embeddings()
        self.device = self._into if self._head is None else self._head.weight.device  # the base may be on several
        self._plain = self._head_is_plain()

    def rows(self, rows: Sequence[TokenRow], *, hidden: bool = False) -> ScoredRows:
        """[row, token] of the replies."""
        states, words, mask = self._states(rows)
        inside = mask.bool()
        if self._plain:
            flat = _Chosen.apply(states, self._head.weight, words)  # type: ignore[no-untyped-call]
        else:
            flat = self.logits_of(states).log_softmax(-1).gather(1, words[:, None])[:, 0]
        logprobs = torch.zeros(mask.shape, device=self.device).masked_scatter(inside, flat)
        if not hidden:
            return ScoredRows(logprobs, mask)
        kept = torch.zeros((*mask.shape, states.shape[-1]), device=self.device)
        kept[inside] = states.detach().float()
        return ScoredRows(logprobs, mask, kept)

    def logits(self, rows: Sequence[TokenRow]) -> Tensor:
        """[position, vocabulary] before every token of the replies."""
        return self.logits_of(self._states(rows)[0])

    def logits_of(self, states: Tensor) -> Tensor:
        logits: Tensor = self._head(states)
        cap = getattr(self.network.config, "final_logit_softcapping", None)
        return (torch.tanh(logits / cap) * cap if cap else logits).float()

    def _states(self, rows: Sequence[TokenRow]) -> tuple[Tensor, Tensor, Tensor]:
        """The states before the tokens of the replies, [position, width]; those tokens; the mask, [row, token]."""
        longest, most = max(len(row) for row in rows), max(len(row.reply) for row in rows)
        padded = max(longest, min(self._window, -(-longest // self._multiple) * self._multiple))
        ids = torch.full((len(rows), padded), self.pad)
        inside = torch.zeros((len(rows), padded), dtype=torch.bool)
        mask = torch.zeros((len(rows), most))
        for place, row in enumerate(rows):
            ids[place, : len(row)] = torch.tensor([*row.prompt, *row.reply])
            inside[place, len(row.prompt) - 1 : len(row) - 1] = True
            mask[place, : len(row.reply)] = 1.0
        words = torch.cat([torch.tensor(row.reply, dtype=torch.long) for row in rows]).to(self.device)
        states = self._decoder(input_ids=ids.to(self._into), use_cache=False).last_hidden_state.to(self.device)
        return states[inside.to(self.device)], words, mask.to(self.device)

    @torch.no_grad()
    def _head_is_plain(self) -> bool:
        """Whether the network's logits are its last states times the head, and nothing more."""
        if self._head is None or getattr(self._head, "bias", None) is not None:
            return False
        probe = torch.arange(2, 10, device=self._into)[None]
        theirs = self.network(input_ids=probe, use_cache=False).logits.float().to(self.device)
        states = self._decoder(input_ids=probe, use_cache=False).last_hidden_state.to(self.device)
        ours = (states @ self._head.weight.t()).float()
        return bool((theirs - ours).abs().max() <= _NEAR * theirs.abs().max().clamp(min=1.0))
