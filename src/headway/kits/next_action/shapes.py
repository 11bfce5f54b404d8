"""The sizes of the ranker's transformer, and the names and shapes of its tensors.

shape = RankerShape.of("full", text=256, numbers=24, traits=14)
shape.tensors()           # name → size, in a fixed order
shape.parameters          # 13,9… million
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from headway.nouns import errors

EMBEDDING = 768  # what texts are projected to, whatever the encoder's width
STEPS = 8  # of the trajectory, the last ones
SIZES: Mapping[str, tuple[int, int, int]] = {  # width, layers, heads
    "small": (128, 2, 4),
    "full": (512, 4, 8),
    "larger": (768, 6, 12),
}
ARCHITECTURES = ("linear", *SIZES)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankerShape:
    """One transformer: its widths, and those of its inputs."""

    hidden: int
    layers: int
    heads: int
    text: int  # width of the encoder
    numbers: int
    traits: int

    @classmethod
    def of(cls, size: str, *, text: int, numbers: int, traits: int) -> RankerShape:
        hidden, layers, heads = SIZES[size]
        return cls(hidden=hidden, layers=layers, heads=heads, text=text, numbers=numbers, traits=traits)

    @classmethod
    def from_json(cls, body: Any, *, text: int, numbers: int, traits: int) -> RankerShape:
        """The shape in a bundle's header; the input is untrusted."""
        try:
            hidden, layers, heads = (int(body[name]) for name in ("hidden", "layers", "heads"))
        except (KeyError, TypeError, ValueError) as error:
            raise errors.Damaged("The bundle's shape cannot be read.", code="bad_header") from error
        if not (1 <= layers <= 48 and 1 <= heads <= 64 and 1 <= hidden <= 4096 and hidden % heads == 0):
            raise errors.Damaged(f"The bundle's shape is {body!r:.80}.", code="bad_header")
        return cls(hidden=hidden, layers=layers, heads=heads, text=text, numbers=numbers, traits=traits)

    def to_json(self) -> dict[str, int]:
        return {"hidden": self.hidden, "layers": self.layers, "heads": self.heads}

    def tensors(self) -> dict[str, tuple[int, ...]]:
        """Every tensor and its size; weights are [in, out]."""
        hidden = self.hidden
        sizes: dict[str, tuple[int, ...]] = {}

        def linear(name: str, inputs: int, outputs: int) -> None:
            sizes[f"{name}.weight"], sizes[f"{name}.bias"] = (inputs, outputs), (outputs,)

        linear("text", self.text, EMBEDDING)
        linear("state.text", EMBEDDING, hidden)
        linear("state.numbers", self.numbers, hidden)
        linear("state.steps", 2, hidden)
        sizes["state.places"] = (STEPS, hidden)
        linear("action.text", EMBEDDING, hidden)
        linear("action.traits", self.traits, hidden)
        for layer in range(self.layers):
            name = f"layer{layer}"
            sizes |= {f"{name}.{norm}.{part}": (hidden,) for norm in ("first", "second") for part in ("gain", "shift")}
            linear(f"{name}.qkv", hidden, 3 * hidden)
            linear(f"{name}.out", hidden, hidden)
            linear(f"{name}.up", hidden, 4 * hidden)
            linear(f"{name}.down", 4 * hidden, hidden)
        sizes |= {"last.gain": (hidden,), "last.shift": (hidden,)}
        linear("read.0", hidden, hidden)
        linear("read.1", hidden, 2)
        return sizes

    @property
    def parameters(self) -> int:
        return sum(prod(size) for size in self.tensors().values())
