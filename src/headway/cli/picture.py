"""Plots, with matplotlib where it is installed."""

from __future__ import annotations

from typing import Any

from headway.nouns import MissingExtra

INK, GREY, BLUE, GREEN, ORANGE = "#1f2933", "#8a949e", "#2563a8", "#2e7d4f", "#c8641e"


def figure(**settings: Any) -> Any:
    """A figure in our style; the settings are those of matplotlib's `Figure`."""
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
    return Figure(**settings)
