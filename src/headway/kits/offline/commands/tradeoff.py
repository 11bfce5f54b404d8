"""`headway tradeoff`: what less quality would save, and the weight that keeps enough of it."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli.format import number, percent
from headway.cli.output import Output
from headway.cli.show import RecordTable, renders, text, value
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
    session.show(TradeoffCurve(task=task, quality=quality, cost=cost, tradeoff=curve), synthetic=made_up)
    if plot is not None:
        from headway.kits.offline.commands.tradeoff_plot import tradeoff_picture

        plot.parent.mkdir(parents=True, exist_ok=True)
        tradeoff_picture(plot, curve, quality=quality, cost=cost, synthetic=bool(made_up))
        session.out.line(f"Drawn: {plot}")
    _answer(session, task, curve, quality, cost)


@dataclass(frozen=True, slots=True, kw_only=True)
class TradeoffCurve:
    """The trade-off of a task between two of its signals."""

    task: str
    quality: str
    cost: str
    tradeoff: Tradeoff

    def document(self) -> dict[str, Any]:
        tradeoff = self.tradeoff
        return {
            "task": self.task,
            "quality": self.quality,
            "cost": self.cost,
            "decisions": tradeoff.n,
            "points": [_document(point) for point in tradeoff.points],
            "constants": {name: _document(point) for name, point in tradeoff.constants.items()},
            "at_least": tradeoff.at_least,
            "of": tradeoff.of or None,
            "chosen": None if tradeoff.chosen is None else _document(tradeoff.chosen),
        }


@renders(TradeoffCurve)
def _curve(out: Output, curve: TradeoffCurve) -> None:
    tradeoff = curve.tradeoff
    out.line(
        f"{tradeoff.n:,} decisions; a policy per weight of {curve.cost} in units of {curve.quality}; 95% intervals."
    )
    rows = [(f"always {name}", point) for name, point in tradeoff.constants.items()]
    rows += [("cheapest" if point.weight == inf else f"{point.weight:.4g}", point) for point in tradeoff.points]
    marked = [(f"{name}  <" if point is tradeoff.chosen else name, point) for name, point in rows]
    _points(curve.quality, curve.cost).print(out, marked)


def _points(quality: str, cost: str) -> RecordTable[tuple[str, TradeoffPoint]]:
    return RecordTable(
        text("weight", lambda row: row[0]),
        value(quality, lambda row: row[1].quality.value, 4),
        text("95%", lambda row: f"[{number(row[1].quality.low, 4)}, {number(row[1].quality.high, 4)}]"),
        value(cost, lambda row: f"{row[1].cost.value:.6g}"),
        text("chosen", lambda row: ", ".join(f"{arm} {percent(share)}" for arm, share in row[1].shares.items())),
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
