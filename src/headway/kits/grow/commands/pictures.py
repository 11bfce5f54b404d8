"""Plots of the kit: accuracy against parameters, and an episode as lanes of its slots."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli.picture import BLUE, GREY, ORANGE, figure_class

if TYPE_CHECKING:
    from headway.kits.grow.morph.comparison import WayComparison
    from headway.kits.grow.morph.episode import EpisodeLanes

__all__ = ["frontier_picture", "lanes_picture"]


def frontier_picture(path: Path, comparison: WayComparison) -> None:
    """Test accuracy against parameters, and net accuracy with its interval."""
    figure = figure_class()(figsize=(11.0, 4.2), dpi=140, layout="constrained")
    left, right = figure.subplots(1, 2)
    for place, row in enumerate(comparison.ways):
        colour = GREY if place else BLUE
        left.scatter(row.parameters, row.test_accuracy, s=60, color=colour, zorder=3)
        left.annotate(row.way, (row.parameters, row.test_accuracy), (6, 4), textcoords="offset points", fontsize=9)
        reach = [[row.net - row.low], [row.high - row.net]]
        right.barh(place, row.net, xerr=reach, color=colour, height=0.7)
    left.set_xlabel("parameters of seeds at the end")
    left.set_ylabel("test accuracy")
    left.set_title("Accuracy against parameters", loc="left")
    right.set_yticks(range(len(comparison.ways)), [row.way for row in comparison.ways])
    right.invert_yaxis()
    right.set_xlabel("accuracy net of rent")
    right.set_title(f"{comparison.hosts} held-out hosts", loc="left")
    figure.savefig(path)


def lanes_picture(path: Path, episode: EpisodeLanes) -> None:
    """One lane per slot: stage, alpha and contribution over the epochs; accuracy below."""
    from headway.kits.grow.morph.blueprints import NAMES
    from headway.kits.grow.morph.lifecycle import SeedStage

    slots = episode.stages.shape[1]
    figure = figure_class()(figsize=(11.0, 1.6 * slots + 1.8), dpi=140, layout="constrained")
    axes = figure.subplots(slots + 1, 1, sharex=True)
    for slot in range(slots):
        lane = axes[slot]
        lane.fill_between(range(len(episode.alphas)), episode.alphas[:, slot], step="mid", color=BLUE, alpha=0.25)
        lane.plot(episode.contributions[:, slot], color=ORANGE, linewidth=1.5)
        before = -1
        for epoch, stage in enumerate(episode.stages[:, slot].tolist()):
            if stage != before and stage != SeedStage.DORMANT:
                blueprint = int(episode.blueprints[epoch, slot])
                named = NAMES[blueprint] if stage == SeedStage.GERMINATED else SeedStage(stage).name.lower()
                lane.axvline(epoch, color=GREY, linewidth=0.8)
                lane.text(epoch, 1.02, named, fontsize=7, rotation=30, ha="left", va="bottom")
            before = stage
        lane.set_ylim(-0.1, 1.0)
        lane.set_ylabel(f"r0c{slot}")
    axes[-1].plot(episode.accuracy, color=BLUE)
    axes[-1].set_ylabel("accuracy")
    axes[-1].set_xlabel("epoch (blue: alpha, orange: contribution)")
    figure.savefig(path)
