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

from headway.nouns import errors, knob

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


@dataclass(frozen=True, slots=True, kw_only=True)
class RankerKnobs:
    """The knobs of the family `ranker` (`headway learn --set`)."""

    architecture: str = knob(
        "auto", '"linear", "small", "full", "larger", or "auto": the best on the tuning rows.',
        choices=("auto", "linear", "small", "full", "larger"),
    )  # fmt: skip
    least: int = knob(200, "Labelled rows below which nothing is learned; see `force`.", low=1, high=10**9)
    force: bool = knob(False, "Learn from fewer rows, too; what the result is worth is said.")
    role: str = knob("", "Learn from the rows of this role (agent) alone.")
    held_back: float = knob(
        0.3, "Of history without probabilities, the latest share that is not read: held-out rows come after it.",
        low=0.0, high=0.9,
    )  # fmt: skip
    mined_weight: float = knob(0.25, "The weight of a row with a mined label, if they are read.", low=0.0, high=1.0)
    epochs: int = knob(12, "How often a transformer reads the rows, at most.", low=1, high=10**4)
    batch: int = knob(16, "States of an update.", low=1, high=10**5)
    rate: float = knob(3e-4, "The learning rate of a transformer.", low=1e-8, high=1.0)
    decay: float = knob(0.05, "The weight decay of a transformer.", low=0.0, high=1.0)
    dropout: float = knob(0.1, "The dropout of a transformer.", low=0.0, high=0.9)
    pairs: float = knob(0.5, "The weight of the order of two actions in one state.", low=0.0, high=100.0)
    device: str = knob("auto", '"cpu", "cuda", "mps", or "auto": the fastest that this machine has.')
    bits: int = knob(
        32, "Bits of a stored weight of a transformer: 32, or 8 if the order stays the same.", low=8, high=32
    )
    explore: str = knob("greedy", "Not used: the task's `explore` decides.")
    cost_weight: float = knob(0.0, "Not used: candidates are described, not priced.")
    costs: Mapping[str, float] = knob({}, "Not used: candidates are described, not priced.")
