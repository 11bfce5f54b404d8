"""Does the consensus of several raters know better than their mean?

    python benchmarks/raters.py            # 200 simulated panels of each of five kinds
    python benchmarks/raters.py --quick    # 40
    python benchmarks/raters.py --json

Every panel has its own raters: a bias, a scale, a noise, and in most kinds one who rates the wrong way round. Figures
are means over panels: the root of the mean squared error and the correlation with true quality, of the consensus and of
the plain mean; the share of true qualities inside the 80% intervals; the share of reversed raters that were found and
of honest ones that were accused. Ratios are the mean's error over ours, so above 1 the consensus is better.
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
    """How a panel is made."""

    items: int = 80
    raters: int = 6
    each: int = 3  # ratings per item
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
    "crowd": Kind(items=300, raters=12, each=4, reversed=2),
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
        for rater in rng.choice(kind.raters, kind.each, replace=False).tolist():
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
    found: float
    accused: float


def measure(kind: Kind, seeds: range) -> Measured:
    rows, found, accused = [], [], []
    for seed in seeds:
        quality, turned, ratings = panel(kind, seed)
        agreed = consensus(ratings)
        items = range(kind.items)
        mean = np.array([agreed.items[item].mean for item in items])
        half = 1.2815515655446004 * np.sqrt([agreed.items[item].variance for item in items])
        plain = np.array([np.mean([each.value for each in ratings if each.item == item]) for item in items])
        errors = [float(np.sqrt(np.mean((each - quality) ** 2))) for each in (mean, plain)]
        correlations = [float(np.corrcoef(each, quality)[0, 1]) for each in (mean, plain)]
        rows.append((*errors, *correlations, float(np.mean(np.abs(mean - quality) <= half)), errors[0] < errors[1]))
        for name, rater in agreed.raters.items():
            (found if name in turned else accused).append(rater.reversed > 0.5)
    error, error_of_mean, correlation, correlation_of_mean, covered, better = np.mean(rows, axis=0).tolist()
    return Measured(
        error=error,
        error_of_mean=error_of_mean,
        correlation=correlation,
        correlation_of_mean=correlation_of_mean,
        covered=covered,
        better=better,
        found=float(np.mean(found)) if found else float("nan"),
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
            f"better on {got.better:.0%}  reversed found {got.found:.0%}, honest accused {got.accused:.2%}"
        )
        for each in Measured.__slots__:
            value = getattr(got, each)
            if np.isfinite(value):
                figures[f"{name}_{each}"] = value
        ratios[f"{name}_error"] = got.error_of_mean / got.error
    finish("raters", figures, ratios, as_json=options.json)


if __name__ == "__main__":
    main()
