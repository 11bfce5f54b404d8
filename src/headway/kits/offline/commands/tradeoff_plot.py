"""The curve of quality against cost, drawn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli.picture import BLUE, GREEN, GREY, INK, figure_class

if TYPE_CHECKING:
    from headway.kits.offline.tradeoff import Tradeoff

__all__ = ["tradeoff_picture"]


def tradeoff_picture(path: Path, found: Tradeoff, *, quality: str, cost: str, synthetic: bool) -> None:
    """Cost to the right, quality up; each constant arm as a square, the chosen policy ringed."""
    figure = figure_class()(figsize=(7.5, 5.0), dpi=150, layout="constrained")
    axes = figure.subplots()
    points = sorted(found.points, key=lambda each: each.cost.value)
    x, y = [each.cost.value for each in points], [each.quality.value for each in points]
    axes.fill_between(
        x, [each.quality.low for each in points], [each.quality.high for each in points], color=BLUE, alpha=0.15, lw=0
    )
    axes.plot(x, y, color=BLUE, marker="o", ms=3.5, label="policies, by the weight of cost")
    for name, each in found.constants.items():
        axes.plot(each.cost.value, each.quality.value, marker="s", color=GREY, ls="none")
        axes.annotate(f" always {name}", (each.cost.value, each.quality.value), color=INK, va="bottom")
    if found.at_least is not None and found.of in found.constants:
        wanted = found.at_least * found.constants[found.of].quality.value
        axes.axhline(wanted, color=GREY, ls="--", lw=1)
        axes.annotate(f"{found.at_least:.0%} of {found.of}", (axes.get_xlim()[1], wanted), ha="right", va="bottom")
    if found.chosen is not None:
        at = (found.chosen.cost.value, found.chosen.quality.value)
        ring = {"marker": "o", "ms": 11, "mfc": "none", "mec": GREEN, "mew": 2, "ls": "none"}
        axes.plot(*at, **ring, label="the cheapest that keeps it")
    axes.set_xlabel(f"{cost} per decision")
    axes.set_ylabel(quality)
    axes.set_title(f"{quality} against {cost}, {found.n:,} {'synthetic ' if synthetic else ''}decisions", loc="left")
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(path)
