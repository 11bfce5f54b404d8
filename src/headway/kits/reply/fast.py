"""A lean forward pass for Llama architectures (SmolLM2, Llama, TinyLlama): the same numbers with less overhead.

On a CPU, transformers' own pass spends much of its time between the matrix products. Here queries, keys and values are
one product, and so are the two halves of the gate; weights are stored as [in, out], which is faster for products with
few rows; heads that share a key become rows of one attention, so that keys are never copied; nothing is dispatched per
layer. The fused weights replace the originals, which become views of them: this adds no memory, and transformers' pass
still works. A test compares the two.
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
    """The lean pass of a network, or None if its architecture is not supported."""
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
    return [norm for layer in layers for norm in (layer.input_layernorm, layer.post_attention_layernorm)]


def _fused(*linears: torch.nn.Linear) -> torch.Tensor:
    """Fuse several linear layers into one matrix [in, out]; their weights [out, in] become views of it."""
    whole = torch.cat([linear.weight.data.t() for linear in linears], 1).contiguous()
    at = 0
    for linear in linears:
        size = linear.weight.shape[0]
        linear.weight = torch.nn.Parameter(whole[:, at : at + size].t(), requires_grad=linear.weight.requires_grad)
        at += size
    return whole


class _LeanLayer:
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
        self.layers = [_LeanLayer(layer) for layer in network.model.layers]
        for module in (network.model.embed_tokens, network.model.norm, *_norms(network)):
            # The other weights are in the mapped file; copying them releases the file and its pages. The data is
            # replaced, not the parameter, so that a head stays tied to the embedding.
            module.weight.data = module.weight.data.clone()
        for layer, source in zip(self.layers, network.model.layers, strict=True):
            layer.before, layer.after = source.input_layernorm.weight, source.post_attention_layernorm.weight
        self.width = config.head_dim
        self.heads, self.keys = config.num_attention_heads, config.num_key_value_heads
        self.scale = network.model.layers[0].self_attn.scaling

    def __call__(
        self, ids: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor | None, cache: RowCache
    ) -> torch.Tensor:
        inner = self.network.model
        hidden = inner.embed_tokens(ids)  # [row, position, hidden]
        cos, sin = inner.rotary_emb(hidden, position_ids=positions)
        rotation = (cos[:, :, None], _signed(sin)[:, :, None])  # over heads
        bias = self._bias(mask, ids.shape[1], cache.length, hidden)
        for at, layer in enumerate(self.layers):
            hidden = hidden + self._attention(
                at, layer, _norm(hidden, layer.before, layer.epsilon), rotation, bias, cache
            )
            gate, up = (_norm(hidden, layer.after, layer.epsilon) @ layer.gate_up).chunk(2, -1)
            hidden = hidden + (functional.silu(gate) * up) @ layer.down
        last = _norm(hidden[:, -1], inner.norm.weight, inner.norm.variance_epsilon)
        return functional.linear(last, self.network.lm_head.weight)

    def _attention(
        self,
        at: int,
        layer: _LeanLayer,
        hidden: torch.Tensor,
        rotation: tuple[torch.Tensor, torch.Tensor],
        bias: torch.Tensor | None,
        cache: RowCache,
    ) -> torch.Tensor:
        rows, places, _ = hidden.shape
        mixed = (hidden @ layer.qkv).view(rows, places, self.heads + 2 * self.keys, self.width)
        rotated = _rotated(mixed[:, :, : self.heads + self.keys], rotation)  # queries and keys in one go
        query, key = rotated[:, :, : self.heads], rotated[:, :, self.heads :]
        keys, values = cache.update(key.transpose(1, 2), mixed[:, :, self.heads + self.keys :].transpose(1, 2), at)
        if places == 1:
            # heads that share a key are positions of one query: [row, key head, group, width]
            grouped = query.view(rows, self.keys, self.heads // self.keys, self.width)
            attended = functional.scaled_dot_product_attention(grouped, keys, values, attn_mask=bias, scale=self.scale)
            attended = attended.reshape(rows, 1, self.heads * self.width)
        else:
            attended = functional.scaled_dot_product_attention(
                query.transpose(1, 2),
                keys,
                values,
                attn_mask=bias,
                is_causal=bias is None,
                scale=self.scale,
                enable_gqa=self.heads != self.keys,
            )
            attended = attended.transpose(1, 2).reshape(rows, places, self.heads * self.width)
        return attended @ layer.out

    def _bias(self, mask: torch.Tensor | None, places: int, past: int, like: torch.Tensor) -> torch.Tensor | None:
        """The attention bias: 0 for visible positions, −inf elsewhere; None: the whole past is visible."""
        if mask is None and (places == 1 or past == 0):
            return None
        length = past + places
        at = torch.arange(length, device=like.device)
        own = at[past:, None] == at[None]  # [position, length]: padding sees itself, so that no row of scores is empty
        before = at[past:, None] >= at[None]
        allowed = before[None] if mask is None else (before[None] & mask[:, None]) | own[None]
        zero = torch.zeros(allowed.shape, dtype=like.dtype, device=like.device)
        return zero.masked_fill_(~allowed, -torch.inf)[:, None]  # [row, 1, position, length]


def _norm(hidden: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    return functional.rms_norm(hidden, weight.shape, weight, epsilon)


def _signed(sin: torch.Tensor) -> torch.Tensor:
    """Negate the first half of sin, once, instead of applying `rotate_half` to every vector."""
    half = sin.shape[-1] // 2
    return torch.cat([-sin[..., :half], sin[..., half:]], -1)


def _rotated(vectors: torch.Tensor, rotation: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Rotary positions: v·cos + swap(v)·sin, where swap exchanges the halves of v and sin carries the sign."""
    cos, sin = rotation
    return vectors * cos + vectors.roll(vectors.shape[-1] // 2, -1) * sin
