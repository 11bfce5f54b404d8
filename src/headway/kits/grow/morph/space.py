"""The actions of the world `morph`: one operation on one slot, and how it is carried out.

`needs` is the causal table: which heads an operation uses. Which slots an operation may touch depends on it, so the
mask of `slot` is conditional (`slot_by_op`).
"""

from __future__ import annotations

from headway.kits.grow.factored.space import Factored, Head
from headway.kits.grow.morph.blueprints import NAMES, SLOTS, STYLES

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
