"""A lean forward pass for networks of the Llama shape (SmolLM2, Llama, TinyLlama): the same numbers, less around them.

On a CPU, transformers' own pass spends much of its time between the matrix products. Here queries, keys and values are
one product and so are the two of the gate; weights lie as [in, out], which products with few rows read faster; heads
that share a key are read as rows of one attention, so that no key is ever copied; nothing is dispatched per layer. The
new weights replace the originals, which become views of them: no memory is added, and transformers' pass still works,
which a test holds this one to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from headway.kits.reply.cache import RowCache

__all__ = ["Forward", "lean"]

Forward = Callable[[torch.Tensor, torch.Tensor, torch.Tensor | None, RowCache], torch.Tensor]


def lean(network: Any) -> Forward | None:
    """The lean pass of a network, or None where its shape is another."""
    config = network.config
    plain = (
        type(network).__name__ == "LlamaForCausalLM"
        and not config.attention_bias
        and not config.mlp_bias
        and config.hidden_act == "silu"
        and not hasattr(network, "peft_config")
        and all(type(module) is torch.nn.Linear for module in _linears(network))
    )
    return _Lean(network) if plain else None


def _linears(network: Any) -> list[torch.nn.Module]:
    names = ("q_proj", "k_proj", "v_proj", "o_proj")
    return [
        network.lm_head,
        *(getattr(layer.self_attn, name) for layer in network.model.layers for name in names),
        *(getattr(layer.mlp, name) for layer in network.model.layers for name in ("gate_proj", "up_proj", "down_proj")),
    ]


def _norms(network: Any) -> list[torch.nn.Module]:
    layers = network.model.layers
    return [each for layer in layers for each in (layer.input_layernorm, layer.post_attention_layernorm)]


def _fused(*linears: torch.nn.Linear) -> torch.Tensor:
    """One matrix [in, out] of several linear layers; their weights [out, in] become views of it."""
    whole = torch.cat([each.weight.data.t() for each in linears], 1).contiguous()
    at = 0
    for each in linears:
        size = each.weight.shape[0]
        each.weight = torch.nn.Parameter(whole[:, at : at + size].t(), requires_grad=each.weight.requires_grad)
        at += size
    return whole


class _Layer:
    def __init__(self, layer: Any) -> None:
        attention, gate = layer.self_attn, layer.mlp
        self.qkv = _fused(attention.q_proj, attention.k_proj, attention.v_proj)
        self.out = _fused(attention.o_proj)
        self.gate_up = _fused(gate.gate_proj, gate.up_proj)
        self.down = _fused(gate.down_proj)
        self.before, self.after = layer.input_layernorm.weight, layer.post_attention_layernorm.weight
        self.epsilon = layer.input_layernorm.variance_epsilon


class _Lean:
    def __init__(self, network: Any) -> None:
        config = network.config
        self.network = network
        self.layers = [_Layer(each) for each in network.model.layers]
        for each in (network.model.embed_tokens, network.model.norm, *_norms(network)):
            # What is left lies in the mapped file; a copy lets go of it, and of all the pages that were read. The data
            # is replaced, not the parameter: a head that is tied to the embedding stays so.
            each.weight.data = each.weight.data.clone()
        for layer, own in zip(self.layers, network.model.layers, strict=True):
            layer.before, layer.after = own.input_layernorm.weight, own.post_attention_layernorm.weight
        self.width = config.head_dim
        self.heads, self.keys = config.num_attention_heads, config.num_key_value_heads
        self.scale = network.model.layers[0].self_attn.scaling

    def __call__(
        self, ids: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor | None, cache: RowCache
    ) -> torch.Tensor:
        inner = self.network.model
        hidden = inner.embed_tokens(ids)  # [row, place, hidden]
        cos, sin = inner.rotary_emb(hidden, position_ids=positions)
        turn = (cos[:, :, None], _signed(sin)[:, :, None])  # over heads
        seen = self._seen(mask, ids.shape[1], cache.length, hidden)
        for at, layer in enumerate(self.layers):
            hidden = hidden + self._attention(at, layer, _norm(hidden, layer.before, layer.epsilon), turn, seen, cache)
            gate, up = (_norm(hidden, layer.after, layer.epsilon) @ layer.gate_up).chunk(2, -1)
            hidden = hidden + (functional.silu(gate) * up) @ layer.down
        last = _norm(hidden[:, -1], inner.norm.weight, inner.norm.variance_epsilon)
        return functional.linear(last, self.network.lm_head.weight)

    def _attention(
        self,
        at: int,
        layer: _Layer,
        hidden: torch.Tensor,
        turn: tuple[torch.Tensor, torch.Tensor],
        seen: torch.Tensor | None,
        cache: RowCache,
    ) -> torch.Tensor:
        rows, places, _ = hidden.shape
        mixed = (hidden @ layer.qkv).view(rows, places, self.heads + 2 * self.keys, self.width)
        turned = _turned(mixed[:, :, : self.heads + self.keys], turn)  # queries and keys in one go
        query, key = turned[:, :, : self.heads], turned[:, :, self.heads :]
        keys, values = cache.update(key.transpose(1, 2), mixed[:, :, self.heads + self.keys :].transpose(1, 2), at)
        if places == 1:
            # heads that share a key are places of one query: [row, key head, group, width]
            grouped = query.view(rows, self.keys, self.heads // self.keys, self.width)
            found = functional.scaled_dot_product_attention(grouped, keys, values, attn_mask=seen, scale=self.scale)
            found = found.reshape(rows, 1, self.heads * self.width)
        else:
            found = functional.scaled_dot_product_attention(
                query.transpose(1, 2),
                keys,
                values,
                attn_mask=seen,
                is_causal=seen is None,
                scale=self.scale,
                enable_gqa=self.heads != self.keys,
            )
            found = found.transpose(1, 2).reshape(rows, places, self.heads * self.width)
        return found @ layer.out

    def _seen(self, mask: torch.Tensor | None, places: int, past: int, like: torch.Tensor) -> torch.Tensor | None:
        """What is added to the scores: 0 where a place may be seen, −inf elsewhere; None: all of the past may."""
        if mask is None and (places == 1 or past == 0):
            return None
        length = past + places
        at = torch.arange(length, device=like.device)
        own = at[past:, None] == at[None]  # [place, length]: padding sees itself, so that no row of scores is empty
        before = at[past:, None] >= at[None]
        allowed = before[None] if mask is None else (before[None] & mask[:, None]) | own[None]
        zero = torch.zeros(allowed.shape, dtype=like.dtype, device=like.device)
        return zero.masked_fill_(~allowed, -torch.inf)[:, None]  # [row, 1, place, length]


def _norm(hidden: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    return functional.rms_norm(hidden, weight.shape, weight, epsilon)


def _signed(sin: torch.Tensor) -> torch.Tensor:
    """The first half of sin turned negative: what `rotate_half` does to the vector is done once to the sine."""
    half = sin.shape[-1] // 2
    return torch.cat([-sin[..., :half], sin[..., half:]], -1)


def _turned(vectors: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Rotary positions: v·cos + swap(v)·sin, with the halves of v swapped and the sign in the sine."""
    cos, sin = turn
    return vectors * cos + vectors.roll(vectors.shape[-1] // 2, -1) * sin
