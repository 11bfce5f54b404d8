"""Spaces that the tests of this kit share."""

from headway.kits.grow.factored.space import Factored, Head

__all__ = ["MORPH", "TOY"]

# The heads of a growing network: sizes, and which head each operation uses.
MORPH = Factored(
    heads=(
        Head("op", ("WAIT", "GERMINATE", "SET_ALPHA_TARGET", "PRUNE", "FOSSILIZE", "ADVANCE")),
        Head("slot", ("r0c0", "r0c1", "r0c2")),
        Head("blueprint", tuple(f"b{number}" for number in range(13))),
        Head("style", ("s0", "s1", "s2", "s3")),
        Head("tempo", ("3", "5", "8")),
        Head("alpha_target", ("0.5", "0.7", "1.0")),
        Head("alpha_speed", ("0", "3", "5", "8")),
        Head("alpha_curve", ("c0", "c1", "c2", "c3", "c4")),
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
TOY = Factored(
    heads=(Head("op", ("stay", "go", "turn")), Head("place", ("a", "b")), Head("size", ("s", "m", "l", "xl"))),
    needs={"stay": (), "go": ("place", "size"), "turn": ("place",)},
    conditional=("place",),
)
