"""The blueprints of seeds: twelve sizes of five kernels, and NOOP, which masks always forbid.

    BLUEPRINTS["CONV_LIGHT"].parameters     # 186
    NAMES.index("NORM")                     # the index that the head `blueprint` uses

A seed's parameters lie in one row of numbers, padded to the largest size of its kernel. Padding starts at 0 on both
sides of a hidden unit, so its gradient is exactly 0 and it stays 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from headway.kits.grow.factored.space import Factored, Head

SLOTS = 3  # of a host
STYLES = ("LINEAR_ADD", "LINEAR_MULTIPLY", "SIGMOID_ADD", "GATED_GATE")  # how a seed's output is grafted on
POSITIONS = 16  # a 4×4 grid of patches
CHANNELS = 8
WIDTH = POSITIONS * CHANNELS
HIDDEN = 16  # of the largest dense seed
GATE = 2 * CHANNELS  # the style GATED_GATE: a weight and a bias per channel

Kernel = Literal["conv", "depthwise", "dense", "attention", "norm"]
KERNELS: tuple[Kernel, ...] = ("conv", "depthwise", "dense", "attention", "norm")

# name of a block of parameters → how many numbers, in the order in which they lie in a row
_LAYOUTS: Mapping[Kernel, Mapping[str, int]] = {
    "conv": {"inner": 9 * CHANNELS * CHANNELS, "inner_bias": CHANNELS, "outer": CHANNELS**2, "outer_bias": CHANNELS},
    "depthwise": {"inner": 9 * CHANNELS, "inner_bias": CHANNELS, "outer": CHANNELS**2, "outer_bias": CHANNELS},
    "dense": {"inner": WIDTH * HIDDEN, "inner_bias": HIDDEN, "outer": HIDDEN * WIDTH, "outer_bias": WIDTH},
    "attention": {"inner": 3 * CHANNELS**2, "table": POSITIONS**2, "outer": CHANNELS**2, "outer_bias": CHANNELS},
    "norm": {"scale": WIDTH, "shift": WIDTH},
}


def layout(kernel: Kernel) -> dict[str, int]:
    """The blocks of one seed's row, in order; the gate of the style GATED_GATE is the last."""
    return {**_LAYOUTS[kernel], "gate": GATE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Blueprint:
    """What a seed becomes. `size`: hidden channels of a convolution, hidden units of a dense seed, width of queries."""

    name: str
    kernel: Kernel
    size: int
    linear: bool = False  # no non-linearity between the two matrices
    positions: bool = False  # an attention that also learns which position looks at which

    @property
    def parameters(self) -> int:
        """How many numbers it learns, with the gate."""
        hidden = {
            "conv": 9 * CHANNELS * self.size + self.size + self.size * CHANNELS + CHANNELS,
            "depthwise": sum(_LAYOUTS["depthwise"].values()),
            "dense": WIDTH * self.size + self.size + self.size * WIDTH + WIDTH,
            "attention": 2 * CHANNELS * self.size + 2 * CHANNELS**2 + CHANNELS + self.positions * POSITIONS**2,
            "norm": 2 * WIDTH,
        }
        return hidden[self.kernel] + GATE


_LEARNING = (
    Blueprint(name="CONV_LIGHT", kernel="conv", size=2),
    Blueprint(name="ATTENTION", kernel="attention", size=4),
    Blueprint(name="NORM", kernel="norm", size=WIDTH),
    Blueprint(name="DEPTHWISE", kernel="depthwise", size=CHANNELS),
    Blueprint(name="BOTTLENECK", kernel="dense", size=4),
    Blueprint(name="CONV_SMALL", kernel="conv", size=4),
    Blueprint(name="CONV_HEAVY", kernel="conv", size=8),
    Blueprint(name="LORA", kernel="dense", size=2, linear=True),
    Blueprint(name="LORA_LARGE", kernel="dense", size=6, linear=True),
    Blueprint(name="MLP_SMALL", kernel="dense", size=8),
    Blueprint(name="MLP", kernel="dense", size=HIDDEN),
    Blueprint(name="FLEX_ATTENTION", kernel="attention", size=CHANNELS, positions=True),
)
BLUEPRINTS: Mapping[str, Blueprint] = {blueprint.name: blueprint for blueprint in _LEARNING}
NAMES = ("NOOP", *BLUEPRINTS)  # in the order of indices
EMPTY = len(NAMES)  # the index of a slot without a seed


OPS = ("WAIT", "GERMINATE", "SET_ALPHA_TARGET", "PRUNE", "FOSSILIZE", "ADVANCE")
TEMPOS = (3, 5, 8)  # epochs of training in isolation, and of the first blend
ALPHA_TARGETS = (0.5, 0.7, 1.0)
SPEEDS = (0, 3, 5, 8)  # epochs from one alpha to another; 0: at once
CURVES = ("LINEAR", "COSINE", "SIGMOID_GENTLE", "SIGMOID", "SIGMOID_SHARP")

SPACE = Factored(
    heads=(
        Head("op", OPS),
        Head("slot", tuple(f"r0c{slot}" for slot in range(SLOTS))),
        Head("blueprint", NAMES),
        Head("style", STYLES),
        Head("tempo", ("FAST", "STANDARD", "SLOW")),
        Head("alpha_target", ("HALF", "SEVENTY", "FULL")),
        Head("alpha_speed", ("INSTANT", "FAST", "MEDIUM", "SLOW")),
        Head("alpha_curve", CURVES),
    ),
    needs={
        "WAIT": (),
        "GERMINATE": ("slot", "blueprint", "style", "tempo", "alpha_target"),
        "SET_ALPHA_TARGET": ("slot", "style", "alpha_target", "alpha_speed", "alpha_curve"),
        "PRUNE": ("slot", "alpha_speed", "alpha_curve"),
        "FOSSILIZE": ("slot",),
        "ADVANCE": ("slot",),
    },
    conditional=("slot",),
)
