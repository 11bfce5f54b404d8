"""The demo's plot: how the proof grew with the log, and what each policy earns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway.cli import picture
from headway.nouns import Evidence


def demo_picture(path: Path, evidence: Evidence, truth: Mapping[str, float], policy: str) -> None:
    """Left: how the proof grew with the log. Right: what each policy earns, estimated and true."""
    figure = picture.figure(figsize=(11, 4.4), dpi=150, layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.15, 1.0))
    _growth(left, evidence, truth[policy] - truth["uniform@0"])
    _values(right, evidence, truth, policy)
    left.set_title("The proof grows with the log", loc="left", weight="bold", fontsize=11)
    right.set_title("What each policy earns", loc="left", weight="bold", fontsize=11)
    figure.suptitle(f"Synthetic routing traffic: {policy} against {evidence.against}", fontsize=12.5)
    figure.savefig(path)


def _growth(axes: Any, evidence: Evidence, uplift: float) -> None:
    rows, mean, low, high = zip(*evidence.curve, strict=True)
    axes.fill_between(
        rows, low, high, color=picture.BLUE, alpha=0.14, linewidth=0, label="what the gate leaves possible"
    )
    axes.plot(rows, mean, color=picture.BLUE, linewidth=2, label="estimated uplift")
    axes.plot(rows, low, color=picture.BLUE, linewidth=1)
    axes.axhline(0.0, color=picture.INK, linewidth=1)
    axes.axhline(
        uplift, color=picture.GREEN, linewidth=1.5, linestyle=(0, (5, 3)), label="true uplift (known in this world)"
    )
    passed = next((row for row, bound in zip(rows, low, strict=True) if bound > evidence.margin), None)
    if passed is not None:
        axes.axvline(passed, color=picture.GREY, linewidth=1, linestyle=":")
        axes.annotate(
            f"proven after {passed:,} decisions", (passed, axes.get_ylim()[1]), xytext=(5, -4),
            textcoords="offset points", va="top", color=picture.INK, fontsize=9.5,
        )  # fmt: skip
    axes.set_xlabel("logged decisions that learning never saw")
    axes.set_ylabel("uplift in reward per decision")
    axes.legend(frameon=False, loc="lower right", fontsize=9.5)
    axes.margins(x=0.01)


def _values(axes: Any, evidence: Evidence, truth: Mapping[str, float], policy: str) -> None:
    estimates = {policy: evidence.values["candidate"], evidence.against: evidence.values["current"]}
    estimates |= {name: estimate for name, estimate in evidence.values.items() if name.startswith("always ")}
    names = [name for name in truth if name in estimates]
    best = max(truth, key=lambda name: truth[name])
    names = [best, *sorted(names, key=lambda name: -truth[name])]
    places = list(range(len(names)))[::-1]
    for name, place in zip(names, places, strict=True):
        estimate = estimates.get(name)
        if estimate is not None:
            colour = picture.BLUE if name == policy else picture.GREY
            axes.plot(
                [estimate.low, estimate.high], [place, place], color=colour, linewidth=3.5, solid_capstyle="round"
            )
            axes.plot(estimate.value, place, "o", color=colour, markersize=8, zorder=3)
        axes.plot(truth[name], place, "D", color=picture.GREEN, markersize=6.5, markerfacecolor="white", zorder=4)
        axes.annotate(
            f"{truth[name]:.3f}", (truth[name], place), xytext=(0, 9), textcoords="offset points",
            ha="center", fontsize=9, color=picture.GREEN,
        )  # fmt: skip
    axes.set_yticks(places, names)
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.set_xlabel("reward per decision")
    axes.plot([], [], "o-", color=picture.GREY, linewidth=3.5, label="estimate, 95% interval")
    axes.plot([], [], "D", color=picture.GREEN, markerfacecolor="white", label="truth")
    axes.legend(frameon=False, loc="lower right", fontsize=9.5)
    axes.tick_params(axis="y", length=0)
    axes.locator_params(axis="x", nbins=6)
    axes.margins(x=0.08)
