"""The curve of practice as a plot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headway.cli import picture


def curve_picture(path: Path, world: str, curve: Sequence[tuple[int, float]], target: float | None) -> None:
    """How the return of greedy episodes grew with practice."""
    figure = picture.figure(figsize=(8, 4.2), dpi=150, layout="constrained")
    axes = figure.subplots()
    steps, means = zip(*curve, strict=True)
    axes.plot(steps, means, color=picture.BLUE, linewidth=2, marker="o", markersize=3.5)
    if target is not None:
        axes.axhline(target, color=picture.GREEN, linewidth=1.5, linestyle=(0, (5, 3)))
        axes.annotate(
            f"target {target:g}", (0.0, target), xycoords=("axes fraction", "data"), xytext=(4, 4),
            textcoords="offset points", color=picture.GREEN, fontsize=9.5,
        )  # fmt: skip
    axes.set_xlabel("steps of practice")
    axes.set_ylabel("mean return of greedy episodes")
    axes.set_title(f"Learning {world}", loc="left", weight="bold")
    axes.margins(x=0.02)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    figure.savefig(path)
