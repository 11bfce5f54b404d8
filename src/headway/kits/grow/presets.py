"""Knobs known to work in some worlds; `benchmarks/recurrent.py` measures those of masked_cartpole."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from headway.kits.grow.knobs import RecurrentKnobs

__all__ = ["PRESET_KNOBS", "preset_knobs"]

PRESET_KNOBS: Mapping[str, RecurrentKnobs] = MappingProxyType(
    {
        "masked_cartpole": RecurrentKnobs(
            width=64, critic="state", steps=200_000, envs=64, horizon=16, epochs=6, minibatches=2, rate=2e-3,
            gamma=0.98, lam=0.9, entropy=0.0, target_kl=0.0, target=450.0, evaluate_every=2048,
        ),
    }
)  # fmt: skip


def preset_knobs(world: str) -> RecurrentKnobs:
    """The knobs for a world; the defaults for other worlds."""
    return PRESET_KNOBS.get(world, RecurrentKnobs())
