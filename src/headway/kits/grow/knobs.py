"""The knobs of the family recurrent: its network, and how it practises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from headway.nouns import changed, errors, knob


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurrentKnobs:
    """The knobs of the family `recurrent` (`headway learn --set`), which practises in a world."""

    preset: str = knob("v2", 'The network: "v2", or "v1". The knobs below change it; 0 or "" keeps the preset\'s.')
    width: int = knob(0, "The width of the LSTM.", low=0, high=1 << 14)
    embedding: int = knob(4, "The width of an embedded index.", low=1, high=1024)
    layers: int = knob(1, "How many LSTMs are stacked.", low=1, high=8)
    residual: bool = knob(True, "Whether stacked LSTMs add to the one before.")
    attention: int = knob(0, "Over the outputs of this many past steps; 0: none.", low=0, high=4096)
    remember: bool = knob(True, "Whether it has a memory at all; false is for comparisons.")
    critic: str = knob("", '"marginal", "state" or "sampled_op".')
    feedback: bool | None = knob(None, "Whether the policy sees the result of its last action.")
    imitate: str = knob("", "A teacher of the world that it imitates before it practises.")
    imitate_episodes: int = knob(1, "How many episodes the teacher plays in every copy.", low=1, high=10**6)
    imitate_doubt: float = knob(
        40.0, "How many times as much entropy weighs in imitation as in practice.", low=0.0, high=1e6
    )
    imitate_passes: int = knob(40, "How often imitation passes over the teacher's episodes.", low=1, high=10**6)
    imitate_rate: float = knob(1e-3, "The learning rate of imitation.", low=0.0, high=1e6)
    steps: int = knob(1_000_000, "How many steps to practise at most.", low=1, high=10**9)
    envs: int = knob(32, "How many copies of the world act together.", low=1, high=10**9)
    horizon: int = knob(0, "Steps of a rollout; 0: an episode of the world, or 128.", low=0, high=10**9)
    chunk: int = knob(
        0, "Gradients go back this many steps, from a stored memory; 0: the whole rollout.", low=0, high=10**9
    )
    epochs: int = knob(4, "How often an update passes over its rollout.", low=1, high=10**9)
    minibatches: int = knob(4, "Into how many groups of copies a rollout is divided.", low=1, high=10**9)
    rate: float = knob(3e-4, "The learning rate.", low=0.0, high=1e6)
    schedule: str = knob(
        "constant", '"constant", or "linear": it falls to 0 over `steps`.', choices=("constant", "linear")
    )
    gamma: float = knob(0.995, "The discount.", low=0.0, high=1.0)
    lam: float = knob(0.98, "λ of the advantages (GAE).", low=0.0, high=1.0)
    clip: float = knob(0.2, "How far the ratio of probabilities may move.", low=0.0, high=1e6)
    value: float = knob(0.5, "The weight of the value loss.", low=0.0, high=1e6)
    value_clip: float = knob(0.0, "How far a value may move in an update; 0: any distance.", low=0.0, high=1e6)
    shared: bool = knob(True, "Whether the value loss also trains the LSTM; the heads it never trains.")
    entropy: float = knob(0.01, "The weight of the entropy bonus.", low=0.0, high=1e6)
    entropy_heads: Mapping[str, float] = knob({}, "A factor of that weight per head; 1 for a head that is not named.")
    entropy_by: str = knob(
        "use", '"use": a head counts by how often it is used; "head": every head counts the same.',
        choices=("use", "head"),
    )  # fmt: skip
    target_kl: float = knob(
        0.03, "An update stops after a pass beyond 1.5 times this divergence; 0: never.", low=0.0, high=1e6
    )
    most_norm: float = knob(0.5, "The largest norm of a gradient; 0: any.", low=0.0, high=1e6)
    returns: str = knob(
        "popart", '"popart": returns are normalised, and the critic rescaled to match; or "none".',
        choices=("popart", "none"),
    )  # fmt: skip
    scale: bool = knob(True, "Whether features are standardised by running statistics.")
    target: float | None = knob(None, "Stop at this mean return of greedy episodes.")
    evaluate_every: int = knob(0, "Steps between evaluations; 0: a fortieth of `steps`.", low=0, high=10**9)
    episodes: int = knob(20, "Greedy episodes of an evaluation.", low=1, high=10**9)
    confirm: int = knob(100, "Fresh episodes that must confirm the target.", low=1, high=10**9)
    bf16: bool = knob(True, "On CUDA: compute in bfloat16; log-probabilities and values stay float32.")
    compile: bool = knob(False, "Whether torch compiles the heads.")


def knobs_from(given: Mapping[str, Any], base: RecurrentKnobs | None = None) -> RecurrentKnobs:
    """The knobs with these changed; an unknown name or a value out of range is refused."""
    given = {name: _weights(value) if name == "entropy_heads" else value for name, value in given.items()}
    return changed("recurrent", base or RecurrentKnobs(), given)


def network_knobs(knobs: RecurrentKnobs) -> dict[str, Any]:
    """What `RecurrentShape.of` takes: the preset, and what differs from it."""
    chosen = {"preset": knobs.preset, "embedding": knobs.embedding, "layers": knobs.layers}
    chosen |= {"residual": knobs.residual, "attention": knobs.attention, "remember": knobs.remember}
    for name in ("width", "critic"):
        if getattr(knobs, name):
            chosen[name] = getattr(knobs, name)
    if knobs.feedback is not None:
        chosen["feedback"] = knobs.feedback
    return chosen


def _weights(value: Any) -> Mapping[str, float]:
    """Weights by head; on the command line as op:1,slot:1.5."""
    weights = value
    try:
        if isinstance(value, str):
            weights = {head: float(weight) for head, _, weight in (part.partition(":") for part in value.split(","))}
        fits = all(isinstance(weight, int | float) and weight >= 0 for weight in weights.values())
    except (ValueError, AttributeError):
        fits = False
    if not fits:
        raise errors.InvalidSettings(
            f"The knob entropy_heads is {value!r:.80}, not a weight of at least 0 per head.", code="bad_knob"
        )
    return dict(weights)


# Knobs known to work in some worlds; benchmarks/recurrent.py measures those of masked_cartpole.
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
