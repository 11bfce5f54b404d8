"""Does the consensus of several raters know better than their mean?

    python benchmarks/raters.py            # 200 simulated panels of each of five kinds
    python benchmarks/raters.py --quick    # 40
    python benchmarks/raters.py --json

Every panel has its own raters: a bias, a scale, a noise, and in most kinds one who uses the scale in reverse. Figures
are means over panels: the root mean squared error and the correlation with true quality, of the consensus and of the
plain mean; the share of true qualities inside the 80% intervals; the share of reversed raters that are detected and of
honest ones that are accused. Ratios are the mean's error over ours, so above 1 the consensus is better.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _contract import arguments, finish, say

from headway.reward.raters import Rating, consensus

__all__ = ["KINDS", "Kind", "Measured", "measure", "panel"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """The parameters of a panel."""

    items: int = 80
    raters: int = 6
    ratings_per_item: int = 3
    bias: float = 0.5
    noise: tuple[float, float] = (0.2, 1.0)
    scale: float = 0.15
    quality: float = 0.8
    reversed: int = 1
    stars: bool = False


KINDS = {
    "panel": Kind(),
    "honest": Kind(reversed=0),
    "small": Kind(items=30, raters=4, reversed=0),
    "crowd": Kind(items=300, raters=12, ratings_per_item=4, reversed=2),
    "stars": Kind(stars=True),
}


def panel(kind: Kind, seed: int) -> tuple[np.ndarray, set[str], list[Rating[int]]]:
    """True qualities, the names of the reversed raters, and the ratings."""
    rng = np.random.default_rng(seed)
    quality = 3.0 + kind.quality * rng.standard_normal(kind.items)
    bias = kind.bias * rng.standard_normal(kind.raters)
    noise = rng.uniform(*kind.noise, kind.raters)
    scale = 1.0 + kind.scale * rng.standard_normal(kind.raters)
    scale[: kind.reversed] *= -1.0
    rows = []
    for item in range(kind.items):
        for rater in rng.choice(kind.raters, kind.ratings_per_item, replace=False).tolist():
            value = 3.0 + bias[rater] + scale[rater] * (quality[item] - 3.0) + noise[rater] * rng.standard_normal()
            value = float(min(5.0, max(1.0, round(value)))) if kind.stars else float(value)
            rows.append(Rating(item, f"rater-{rater}", value))
    return quality, {f"rater-{rater}" for rater in range(kind.reversed)}, rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Means over panels."""

    error: float
    error_of_mean: float
    correlation: float
    correlation_of_mean: float
    covered: float
    better: float  # share of panels on which the consensus has the smaller error
    found: float  # share of reversed raters that are detected
    accused: float


def measure(kind: Kind, seeds: range) -> Measured:
    rows, detected, accused = [], [], []
    for seed in seeds:
        quality, turned, ratings = panel(kind, seed)
        agreed = consensus(ratings)
        items = range(kind.items)
        mean = np.array([agreed.items[item].mean for item in items])
        half = 1.2815515655446004 * np.sqrt([agreed.items[item].variance for item in items])
        plain = np.array([np.mean([rating.value for rating in ratings if rating.item == item]) for item in items])
        errors = [float(np.sqrt(np.mean((estimate - quality) ** 2))) for estimate in (mean, plain)]
        correlations = [float(np.corrcoef(estimate, quality)[0, 1]) for estimate in (mean, plain)]
        rows.append((*errors, *correlations, float(np.mean(np.abs(mean - quality) <= half)), errors[0] < errors[1]))
        for name, rater in agreed.raters.items():
            (detected if name in turned else accused).append(rater.reversed > 0.5)
    error, error_of_mean, correlation, correlation_of_mean, covered, better = np.mean(rows, axis=0).tolist()
    return Measured(
        error=error,
        error_of_mean=error_of_mean,
        correlation=correlation,
        correlation_of_mean=correlation_of_mean,
        covered=covered,
        better=better,
        found=float(np.mean(detected)) if detected else float("nan"),
        accused=float(np.mean(accused)),
    )


def main() -> None:
    parser = arguments(__doc__.partition("\n")[0], seeds=200)
    options = parser.parse_args()
    seeds = range(min(options.seeds, 40) if options.quick else options.seeds)
    figures: dict[str, float] = {}
    ratios: dict[str, float] = {}
    for name, kind in KINDS.items():
        got = measure(replace(kind), seeds)
        say(
            f"{name:7}  rmse {got.error:.3f} (mean {got.error_of_mean:.3f})  correlation {got.correlation:.3f} "
            f"(mean {got.correlation_of_mean:.3f})  80% intervals cover {got.covered:.1%}  "
            f"better on {got.better:.0%}  reversed detected {got.found:.0%}, honest accused {got.accused:.2%}"
        )
        for slot in Measured.__slots__:
            value = getattr(got, slot)
            if np.isfinite(value):
                figures[f"{name}_{slot}"] = value
        ratios[f"{name}_error"] = got.error_of_mean / got.error
    finish("raters", figures, ratios, as_json=options.json)


if __name__ == "__main__":
    main()
