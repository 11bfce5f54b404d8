"""Plots the curve of quality against cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli.picture import BLUE, GREEN, GREY, INK, figure_class

if TYPE_CHECKING:
    from headway.kits.offline.tradeoff import Tradeoff

__all__ = ["tradeoff_picture"]


def tradeoff_picture(path: Path, curve: Tradeoff, *, quality: str, cost: str, synthetic: bool) -> None:
    """Cost to the right, quality up; each constant arm as a square, the chosen policy ringed."""
    figure = figure_class()(figsize=(7.5, 5.0), dpi=150, layout="constrained")
    axes = figure.subplots()
    points = sorted(curve.points, key=lambda sample: sample.cost.value)
    x, y = [point.cost.value for point in points], [point.quality.value for point in points]
    axes.fill_between(
        x,
        [point.quality.low for point in points],
        [point.quality.high for point in points],
        color=BLUE,
        alpha=0.15,
        lw=0,
    )
    axes.plot(x, y, color=BLUE, marker="o", ms=3.5, label="policies, by the weight of cost")
    for name, sample in curve.constants.items():
        axes.plot(sample.cost.value, sample.quality.value, marker="s", color=GREY, ls="none")
        axes.annotate(f" always {name}", (sample.cost.value, sample.quality.value), color=INK, va="bottom")
    if curve.at_least is not None and curve.of in curve.constants:
        wanted = curve.at_least * curve.constants[curve.of].quality.value
        axes.axhline(wanted, color=GREY, ls="--", lw=1)
        axes.annotate(f"{curve.at_least:.0%} of {curve.of}", (axes.get_xlim()[1], wanted), ha="right", va="bottom")
    if curve.chosen is not None:
        at = (curve.chosen.cost.value, curve.chosen.quality.value)
        ring = {"marker": "o", "ms": 11, "mfc": "none", "mec": GREEN, "mew": 2, "ls": "none"}
        axes.plot(*at, **ring, label="cheapest policy that keeps it")
    axes.set_xlabel(f"{cost} per decision")
    axes.set_ylabel(quality)
    axes.set_title(f"{quality} against {cost}, {curve.n:,} {'synthetic ' if synthetic else ''}decisions", loc="left")
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(path)
