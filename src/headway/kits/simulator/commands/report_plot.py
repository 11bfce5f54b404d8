"""Plots what ways of solving problems are worth."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway.cli.picture import BLUE, GREEN, GREY, figure_class

__all__ = ["report_picture"]

_COLOURS = {"learned": BLUE, "oracle": GREEN}


def report_picture(path: Path, parts: Mapping[str, Any]) -> None:
    """One panel per part; a bar per way with its 95% interval."""
    figure = figure_class()(figsize=(9.0, 3.8), dpi=150, layout="constrained")
    for axes, (part, shown) in zip(figure.subplots(1, len(parts), sharex=True), sorted(parts.items()), strict=True):
        ways = sorted(shown["ways"].items(), key=lambda pair: pair[1]["value"])
        for place, (way, entry) in enumerate(ways):
            reach = [[entry["value"] - entry["low"]], [entry["high"] - entry["value"]]]
            axes.barh(place, entry["value"], xerr=reach, color=_COLOURS.get(way, GREY), height=0.7)
        axes.set_yticks(range(len(ways)), [way for way, _ in ways])
        axes.set_xlabel("value net of cost, per problem")
        axes.set_title(f"{part}: {shown['subjects']:,} problems", loc="left")
    figure.savefig(path)
