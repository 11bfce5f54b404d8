"""Plots, with matplotlib where it is installed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway.nouns.errors import MissingExtra

__all__ = ["BLUE", "GREEN", "GREY", "INK", "ORANGE", "figure_class", "rewards_picture"]

INK, GREY, BLUE, GREEN, ORANGE = "#1f2933", "#8a949e", "#2563a8", "#2e7d4f", "#c8641e"


def figure_class() -> Any:
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise MissingExtra("A plot", "matplotlib", "plot") from None
    matplotlib.rcParams.update(
        {
            "font.family": "DejaVu Sans",
            "font.size": 10.5,
            "axes.edgecolor": GREY,
            "axes.labelcolor": INK,
            "text.color": INK,
            "xtick.color": INK,
            "ytick.color": INK,
            "axes.spines.top": False,
            "axes.spines.right": False,
        }
    )
    return Figure


def rewards_picture(
    path: Path, task: str, edges: list[float], bins: Mapping[str, list[int]], *, by: str = "action", synthetic: bool
) -> None:
    """How often each reward comes, stacked by action, role or source."""
    figure = figure_class()(figsize=(8, 4.2), dpi=150, layout="constrained")
    axes = figure.subplots()
    width = edges[1] - edges[0]
    bottom = [0] * (len(edges) - 1)
    palette = (BLUE, ORANGE, GREEN, "#7b5ea7", "#b8434e", "#5b8c9b", GREY)
    for at, (name, counts) in enumerate(bins.items()):
        axes.bar(
            edges[:-1], counts, width=width, align="edge", bottom=bottom, color=palette[at % len(palette)],
            edgecolor="white", linewidth=0.5, label=name,
        )  # fmt: skip
        bottom = [sum(pair) for pair in zip(bottom, counts, strict=True)]
    axes.set_xlabel("reward")
    axes.set_ylabel("settled decisions")
    kind = " (synthetic data)" if synthetic else ""
    axes.set_title(f"Rewards of {task} by {by}{kind}", loc="left", weight="bold")
    axes.legend(frameon=False)
    figure.savefig(path)
