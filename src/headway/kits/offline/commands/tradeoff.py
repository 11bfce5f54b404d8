"""`headway tradeoff`: what less quality would save, and the weight that keeps enough of it."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli.format import number
from headway.cli.verb import Session, task_argument, verb

if TYPE_CHECKING:
    from headway.kits.offline.tradeoff import Tradeoff, TradeoffPoint

__all__ = ["tradeoff"]


@verb(
    "tradeoff",
    "headway tradeoff route --quality solved --cost cost_usd",
    "headway tradeoff route --quality solved --cost cost_usd --at-least 0.95 --of large --plot curve.png",
)
@task_argument()
@click.option("--quality", required=True, metavar="SIGNAL", help="The signal to have more of.")
@click.option("--cost", required=True, metavar="SIGNAL", help="The signal to have less of: dollars, seconds, tokens.")
@click.option("--at-least", type=click.FloatRange(0.0, 1.0), help="Keep this share of the quality of --of.")
@click.option("--of", metavar="ARM", help="The arm to measure by; the best one by default.")
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE", help="Draw the curve (.png, .svg, .pdf).")
def tradeoff(
    session: Session, task: str, quality: str, cost: str, at_least: float | None, of: str | None, plot: Path | None
) -> None:
    """What less quality would save: the curve from the best answer to the cheapest, on your own traffic.

    With --at-least, the weight at which the cheapest policy still keeps that share of an arm's quality (one-sided 90%):
    put it into the task's reward, learn, and prove.
    """
    from headway.kits.offline.tradeoff_rows import traded

    with session.project() as project:
        curve = traded(project, task, quality=quality, cost=cost, at_least=at_least, of=of)
        made_up = session.synthetic(project, task)
    session.out.document(
        {
            "task": task,
            "quality": quality,
            "cost": cost,
            "decisions": curve.n,
            "points": [_document(point) for point in curve.points],
            "constants": {name: _document(point) for name, point in curve.constants.items()},
            "at_least": at_least,
            "of": curve.of or None,
            "chosen": None if curve.chosen is None else _document(curve.chosen),
            "synthetic": made_up,
        }
    )
    session.out.line(f"{curve.n:,} decisions; a policy per weight of {cost} in units of {quality}; 95% intervals.")
    _table(session, curve, quality, cost)
    if plot is not None:
        from headway.kits.offline.commands.tradeoff_plot import tradeoff_picture

        plot.parent.mkdir(parents=True, exist_ok=True)
        tradeoff_picture(plot, curve, quality=quality, cost=cost, synthetic=bool(made_up))
        session.out.line(f"Drawn: {plot}")
    _answer(session, task, curve, quality, cost)


def _table(session: Session, curve: Tradeoff, quality: str, cost: str) -> None:
    rows = [(f"always {name}", point) for name, point in curve.constants.items()]
    rows += [("cheapest" if point.weight == inf else f"{point.weight:.4g}", point) for point in curve.points]
    session.out.table(
        ("weight", quality, "95%", cost, "chosen"),
        [
            (
                name + ("  <" if point is curve.chosen else ""),
                number(point.quality.value, 4),
                f"[{number(point.quality.low, 4)}, {number(point.quality.high, 4)}]",
                f"{point.cost.value:.6g}",
                ", ".join(f"{arm} {share:.0%}" for arm, share in point.shares.items()),
            )
            for name, point in rows
        ],
        right=(quality, cost),
    )


def _answer(session: Session, task: str, curve: Tradeoff, quality: str, cost: str) -> None:
    if curve.at_least is None:
        session.next(f"headway tradeoff {task} --quality {quality} --cost {cost} --at-least 0.95")
    elif curve.chosen is None:
        session.out.line(
            f"No policy on the curve keeps {curve.at_least:.0%} of the {quality} of always {curve.of}: "
            "collect more decisions, or lower --at-least.",
            style="bold",
        )
    else:
        measure = curve.constants[curve.of]
        saved = 1.0 - curve.chosen.cost.value / measure.cost.value if measure.cost.value else 0.0
        weight = curve.chosen.weight
        session.out.line(
            f"At least {curve.at_least:.0%} of the {quality} of always {curve.of}, for {saved:.0%} less {cost}. "
            "In headway.toml:",
            style="bold",
        )
        worth = f"{-weight:.6g}" if weight not in (0.0, inf) else ("0.0" if weight == 0.0 else "-1e9")
        session.out.line(f"  reward = {{ {quality} = 1.0, {cost} = {worth} }}")
        session.next(f"headway learn {task}")


def _document(point: TradeoffPoint) -> dict[str, Any]:
    return {
        "weight": None if point.weight == inf else point.weight,
        "quality": {"value": point.quality.value, "low": point.quality.low, "high": point.quality.high},
        "cost": {"value": point.cost.value, "low": point.cost.low, "high": point.cost.high},
        "shares": dict(point.shares),
        "keeps": point.keeps,
    }
