"""Knobs known to work in some worlds; `benchmarks/recurrent.py` measures those of masked_cartpole."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from headway.kits.grow.knobs import RecurrentKnobs

__all__ = ["PRESET_KNOBS", "preset_knobs"]

PRESET_KNOBS: Mapping[str, RecurrentKnobs] = MappingProxyType(
    {
        "masked_cartpole": RecurrentKnobs(
            width=32, critic="state", steps=200_000, envs=64, horizon=16, epochs=6, minibatches=2, rate=2e-3,
            gamma=0.98, lam=0.9, entropy=0.0, target_kl=0.0, target=450.0, evaluate_every=2048,
        ),
        "scaffold": RecurrentKnobs(
            width=64, steps=600_000, envs=64, epochs=8, minibatches=2, rate=1e-3, gamma=0.99, lam=0.98, entropy=0.1,
            target_kl=0.0, target=0.95, evaluate_every=37_760,
        ),
        "morph": RecurrentKnobs(
            steps=400_000, envs=64, horizon=16, epochs=4, minibatches=4, rate=1e-3, schedule="linear", gamma=1.0,
            lam=0.97, entropy=0.005, entropy_heads={
                "blueprint": 6.0, "style": 2.0, "tempo": 2.0, "alpha_target": 2.0, "alpha_speed": 2.0,
                "alpha_curve": 2.0,
            },
        ),
    }
)  # fmt: skip


def preset_knobs(world: str) -> RecurrentKnobs:
    """The knobs for a world; the defaults for other worlds."""
    return PRESET_KNOBS.get(world, RecurrentKnobs())
