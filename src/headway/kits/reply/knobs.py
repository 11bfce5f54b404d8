"""The knobs of the family language."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headway.nouns import changed, knob

LEARNERS = ("kto", "ppo", "sft")


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageKnobs:
    """The knobs of the family `language` (`headway learn --set`), which trains an adapter from ratings."""

    learner: str = knob("kto", '"kto", "ppo" or "sft".', choices=LEARNERS)
    base: str = knob("smollm2", "The base model: a name of `headway models list`, or a folder.")
    rank: int = knob(16, "The rank of the adapter.", low=1, high=1024)
    alpha: float = knob(32.0, "The adapter's output is scaled by this over the rank.", low=1e-3, high=1e4)
    rate: float = knob(5e-5, "The learning rate at the start; the KL controller changes it.", low=1e-9, high=1.0)
    epochs: int = knob(3, "How often all ratings are read, at most.", low=1, high=100)
    batch: int = knob(4, "Replies of one forward pass.", low=1, high=4096)
    accumulate: int = knob(1, "Forward passes of an update.", low=1, high=4096)
    sequence: int = knob(1024, "Longer replies, in tokens with the prompt, are left out.", low=8, high=1 << 20)
    beta: float = knob(0.0, "β of kto; 0: .2 below 30 ratings, .05 above 300, else .1.", low=0.0, high=10.0)
    likelihood: float = knob(
        0.1, "The weight of the likelihood of liked and edited replies in kto.", low=0.0, high=10.0
    )
    anchor: float = knob(1.0, "The weight of the KL to the base on general texts.", low=0.0, high=1e3)
    anchors: int = knob(2, "General texts of an update; 0: none, and no budget.", low=0, high=64)
    budget: float = knob(
        0.01, "Training stops at this KL to the base, in nats per token; the gate allows .05.", low=1e-6, high=10.0
    )
    least: int = knob(10, "Ratings below which nothing is trained.", low=1, high=10**6)
    least_of_sign: int = knob(3, "Good and bad ratings that are needed at least.", low=0, high=10**6)
    unrated: str = knob(
        "skip", '"skip" replies without a rating, or count them as "zero", or as "decay"ing to zero.',
        choices=("skip", "zero", "decay"),
    )  # fmt: skip
    penalty: float = knob(0.02, "ppo: the cost of leaving the base, per token and nat.", low=0.0, high=10.0)
    lam: float = knob(0.0, "ppo: λ of the advantages; 0: 1 below 100 ratings, else .95.", low=0.0, high=1.0)
    value_rate: float = knob(1e-3, "ppo: the learning rate of the value head.", low=1e-9, high=1.0)
    value: float = knob(0.5, "ppo: the weight of the value loss.", low=0.0, high=100.0)
    far: float = knob(1.0, "ppo: replies whose mean |log π/μ| is larger are dropped.", low=1e-3, high=100.0)
    start: str = knob(
        "base", '"base": train on the whole history; "current" (ppo): continue from the current policy.',
        choices=("base", "current"),
    )  # fmt: skip
    replay: float = knob(0.5, "When continuing: old replies per new one.", low=0.0, high=100.0)
    ewc: float = knob(0.0, "When continuing: how strongly important weights are held.", low=0.0, high=1e9)
    average: bool = knob(False, "When continuing: the result is averaged with the last champions.")
    curriculum: bool = knob(True, "Whether clear and short cases come first in the first epoch.")
    checkpoint: int = knob(4, "Updates between snapshots of a run.", low=1, high=10**6)
    baseline: bool = knob(True, "Whether sft is trained beside the learner, to compare with.")
    device: str = knob("auto", '"cpu", "cuda", "mps", or "auto".')
    dtype: str = knob("auto", "The number format of the base.", choices=("auto", "float32", "bfloat16", "float16"))
    device_map: str = knob(
        "", '"auto", "balanced" or "sequential" spreads the base over several GPUs; "": one device.',
        choices=("", "auto", "balanced", "sequential"),
    )  # fmt: skip
    cost_weight: float = knob(0.0, "Not used: a reply has no price.")
    costs: Mapping[str, float] = knob({}, "Not used: a reply has no price.")
    explore: str = knob("greedy", "Not used: replies are sampled.")


def knobs_from(given: Mapping[str, Any]) -> LanguageKnobs:
    """The knobs with these changed; an unknown name or a value out of range is refused."""
    return changed("language", LanguageKnobs(), given)
