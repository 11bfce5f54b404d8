"""Plots, with matplotlib where it is installed."""

from __future__ import annotations

from typing import Any

from headway.nouns import errors

INK, GREY = "#1f2933", "#8a949e"
CYCLE = ("#2563a8", "#c8641e", "#2e7d4f", GREY, INK)  # C0 blue, C1 orange, C2 green, C3 grey, C4 ink


def plot_figure(**settings: Any) -> Any:
    """A figure in our style; the settings are those of matplotlib's `Figure`. Colours are C0 to C4."""
    try:
        import matplotlib
        from cycler import cycler
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise errors.MissingExtra("A plot", "matplotlib", "plot") from None
    matplotlib.rcParams.update(
        {
            "font.family": "DejaVu Sans",
            "font.size": 10.5,
            "axes.edgecolor": GREY,
            "axes.labelcolor": INK,
            "axes.prop_cycle": cycler(color=CYCLE),
            "text.color": INK,
            "xtick.color": INK,
            "ytick.color": INK,
            "axes.spines.top": False,
            "axes.spines.right": False,
        }
    )
    return Figure(**settings)
