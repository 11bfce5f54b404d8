"""Plots, with matplotlib where it is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headway.nouns.errors import MissingExtra
from headway.nouns.evidence import Evidence

__all__ = ["curve_picture", "demo_picture", "rewards_picture"]

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


def demo_picture(path: Path, evidence: Evidence, truth: Mapping[str, float], policy: str) -> None:
    """Left: how the proof grew with the log. Right: what each policy earns, estimated and true."""
    figure = figure_class()(figsize=(11, 4.4), dpi=150, layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.15, 1.0))
    _growth(left, evidence, truth[policy] - truth["uniform@0"])
    _values(right, evidence, truth, policy)
    left.set_title("The proof grows with the log", loc="left", weight="bold", fontsize=11)
    right.set_title("What each policy earns", loc="left", weight="bold", fontsize=11)
    figure.suptitle(f"Synthetic routing traffic: {policy} against {evidence.against}", fontsize=12.5)
    figure.savefig(path)


def _growth(axes: Any, evidence: Evidence, uplift: float) -> None:
    rows, mean, low, high = zip(*evidence.curve, strict=True)
    axes.fill_between(rows, low, high, color=BLUE, alpha=0.14, linewidth=0, label="what the gate leaves possible")
    axes.plot(rows, mean, color=BLUE, linewidth=2, label="estimated uplift")
    axes.plot(rows, low, color=BLUE, linewidth=1)
    axes.axhline(0.0, color=INK, linewidth=1)
    axes.axhline(uplift, color=GREEN, linewidth=1.5, linestyle=(0, (5, 3)), label="true uplift (known in this world)")
    passed = next((row for row, bound in zip(rows, low, strict=True) if bound > evidence.margin), None)
    if passed is not None:
        axes.axvline(passed, color=GREY, linewidth=1, linestyle=":")
        axes.annotate(
            f"proven after {passed:,} decisions", (passed, axes.get_ylim()[1]), xytext=(5, -4),
            textcoords="offset points", va="top", color=INK, fontsize=9.5,
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
            colour = BLUE if name == policy else GREY
            axes.plot(
                [estimate.low, estimate.high], [place, place], color=colour, linewidth=3.5, solid_capstyle="round"
            )
            axes.plot(estimate.value, place, "o", color=colour, markersize=8, zorder=3)
        axes.plot(truth[name], place, "D", color=GREEN, markersize=6.5, markerfacecolor="white", zorder=4)
        axes.annotate(
            f"{truth[name]:.3f}", (truth[name], place), xytext=(0, 9), textcoords="offset points",
            ha="center", fontsize=9, color=GREEN,
        )  # fmt: skip
    axes.set_yticks(places, names)
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.set_xlabel("reward per decision")
    axes.plot([], [], "o-", color=GREY, linewidth=3.5, label="estimate, 95% interval")
    axes.plot([], [], "D", color=GREEN, markerfacecolor="white", label="truth")
    axes.legend(frameon=False, loc="lower right", fontsize=9.5)
    axes.tick_params(axis="y", length=0)
    axes.locator_params(axis="x", nbins=6)
    axes.margins(x=0.08)


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


def curve_picture(path: Path, world: str, curve: Sequence[tuple[int, float]], target: float | None) -> None:
    """How the return of greedy episodes grew with practice."""
    figure = figure_class()(figsize=(8, 4.2), dpi=150, layout="constrained")
    axes = figure.subplots()
    steps, means = zip(*curve, strict=True)
    axes.plot(steps, means, color=BLUE, linewidth=2, marker="o", markersize=3.5)
    if target is not None:
        axes.axhline(target, color=GREEN, linewidth=1.5, linestyle=(0, (5, 3)))
        axes.annotate(
            f"target {target:g}", (0.0, target), xycoords=("axes fraction", "data"), xytext=(4, 4),
            textcoords="offset points", color=GREEN, fontsize=9.5,
        )  # fmt: skip
    axes.set_xlabel("steps of practice")
    axes.set_ylabel("mean return of greedy episodes")
    axes.set_title(f"Learning {world}", loc="left", weight="bold")
    axes.margins(x=0.02)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    figure.savefig(path)
