"""`headway tradeoff`: what less quality would save, and the weight that keeps enough of it."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from headway.cli import Column, Output, RecordTable, Session, renders, task_argument, verb, written
from headway.kits.report import plot_figure

if TYPE_CHECKING:
    from headway.kits.offline.tradeoff import TradedSignals, Tradeoff, TradeoffPoint


@verb(
    "tradeoff",
    "headway tradeoff route",
    "headway tradeoff route --quality solved --cost cost_usd --at-least 0.95 --of large --plot curve.png",
)
@task_argument()
@click.option("--quality", metavar="SIGNAL", help="The signal to have more of; the reward without its cost by default.")
@click.option("--cost", metavar="SIGNAL", help="The signal to have less of; the one that counts money by default.")
@click.option("--at-least", type=click.FloatRange(0.0, 1.0), help="Keep this share of the quality of --of.")
@click.option("--of", metavar="ARM", help="The arm to measure by; the best one by default.")
@click.option("--newest", type=click.IntRange(100), default=5000, show_default=True, help="Decisions to draw it from.")
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE", help="Draw the curve (.png, .svg, .pdf).")
@click.option("--as-stored", is_flag=True, hidden=True, help="Settle nothing first: a route that reads asks so.")
def tradeoff(
    session: Session,
    task: str,
    quality: str | None,
    cost: str | None,
    at_least: float | None,
    of: str | None,
    newest: int,
    plot: Path | None,
    as_stored: bool,
) -> None:
    """What less quality would save: the curve from the best answer to the cheapest, on your own traffic.

    With --at-least, the weight at which the cheapest policy still keeps that share of an arm's quality (one-sided 90%):
    put it into the task's reward, learn, and prove.
    """
    from headway.kits.offline.tradeoff import traded, traded_signals

    with session.project() as project:
        if not as_stored:
            session.settle(project, task)
        signals = traded_signals(project, task, quality, cost)
        curve = traded(project, task, quality=quality, cost=cost, at_least=at_least, of=of, newest=newest)
        weights = dict(project.rewards(task).weights) if signals.rewards is not None else {signals.quality: 1.0}
        made_up = session.synthetic(project, task)
    session.show(
        TradeoffCurve(task=task, quality=signals.quality, cost=signals.cost, tradeoff=curve), synthetic=made_up
    )
    if plot is not None:
        plot.parent.mkdir(parents=True, exist_ok=True)
        tradeoff_picture(plot, curve, quality=signals.quality, cost=signals.cost, synthetic=bool(made_up))
        session.out.line(f"Drawn: {plot}")
    given = {"--quality": quality, "--cost": cost, "--of": of, "--newest": None if newest == 5000 else newest}
    options = "".join(f" {name} {quote(str(value))}" for name, value in given.items() if value is not None)
    _answer(session, task, curve, signals, weights, options)


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
    from headway.reward import amount_text

    return RecordTable(
        Column.text("weight", lambda row: row[0]),
        Column.value(quality, lambda row: row[1].quality.value, 4),
        Column.text(
            "95%", lambda row: f"[{written.number(row[1].quality.low, 4)}, {written.number(row[1].quality.high, 4)}]"
        ),
        Column.value(cost, lambda row: amount_text(cost, row[1].cost.value)),
        Column.text("chosen", lambda row: ", ".join(f"{arm} {share:.0%}" for arm, share in row[1].shares.items())),
    )


def _answer(
    session: Session, task: str, curve: Tradeoff, signals: TradedSignals, weights: dict[str, float], options: str
) -> None:
    if curve.at_least is None:
        session.next(f"headway tradeoff {task}{options} --at-least 0.95")
    elif curve.chosen is None:
        session.out.line(
            f"No policy on the curve keeps {curve.at_least:.0%} of the {signals.quality} of always {curve.of}: "
            "collect more decisions, or lower --at-least.",
            style="bold",
        )
    else:
        _advise(session, task, curve, curve.chosen, signals, weights)


def _advise(
    session: Session,
    task: str,
    curve: Tradeoff,
    chosen: TradeoffPoint,
    signals: TradedSignals,
    weights: dict[str, float],
) -> None:
    """The weight to write into headway.toml, and what it means."""
    from headway.reward import amount_text

    measure = curve.constants[curve.of]
    saved = 1.0 - chosen.cost.value / measure.cost.value if measure.cost.value else 0.0
    session.out.line(
        f"At least {curve.at_least:.0%} of the {signals.quality} of always {curve.of}, for {saved:.0%} less "
        f"{signals.cost}. In headway.toml:",
        style="bold",
    )
    weight = chosen.weight
    worth = f"{-weight:.6g}" if weight not in (0.0, inf) else ("0.0" if weight == 0.0 else "-1e9")
    kept = {name: f"{value:g}" if value % 1 else f"{value:.1f}" for name, value in weights.items()}
    terms = {**kept, signals.cost: worth}
    if weights:
        session.out.line(f"  reward = {{ {', '.join(f'{name} = {value}' for name, value in terms.items())} }}")
    else:
        session.out.line(f"  subtract {worth.lstrip('-')} per unit of {signals.cost} in the reward function")
    if weight not in (0.0, inf):
        price = amount_text(signals.cost, 1.0 / weight) + ("" if signals.unit else f" of {signals.cost}")
        session.out.line(f"One unit of {signals.quality} is then worth {price}.")
    session.next(f"headway learn {task}")


def _document(point: TradeoffPoint) -> dict[str, Any]:
    return {
        "weight": None if point.weight == inf else point.weight,
        "quality": {"value": point.quality.value, "low": point.quality.low, "high": point.quality.high},
        "cost": {"value": point.cost.value, "low": point.cost.low, "high": point.cost.high},
        "shares": dict(point.shares),
        "keeps": point.keeps,
    }


def tradeoff_picture(path: Path, curve: Tradeoff, *, quality: str, cost: str, synthetic: bool) -> None:
    """Cost to the right, quality up; each constant arm as a square, the chosen policy ringed."""
    figure = plot_figure(figsize=(7.5, 5.0), dpi=150, layout="constrained")
    axes = figure.subplots()
    points = sorted(curve.points, key=lambda sample: sample.cost.value)
    x, y = [point.cost.value for point in points], [point.quality.value for point in points]
    axes.fill_between(
        x,
        [point.quality.low for point in points],
        [point.quality.high for point in points],
        color="C0",
        alpha=0.15,
        lw=0,
    )
    axes.plot(x, y, color="C0", marker="o", ms=3.5, label="policies, by the weight of cost")
    for name, sample in curve.constants.items():
        axes.plot(sample.cost.value, sample.quality.value, marker="s", color="C3", ls="none")
        axes.annotate(f" always {name}", (sample.cost.value, sample.quality.value), color="C4", va="bottom")
    if curve.at_least is not None and curve.of in curve.constants:
        wanted = curve.at_least * curve.constants[curve.of].quality.value
        axes.axhline(wanted, color="C3", ls="--", lw=1)
        axes.annotate(f"{curve.at_least:.0%} of {curve.of}", (axes.get_xlim()[1], wanted), ha="right", va="bottom")
    if curve.chosen is not None:
        at = (curve.chosen.cost.value, curve.chosen.quality.value)
        ring = {"marker": "o", "ms": 11, "mfc": "none", "mec": "C2", "mew": 2, "ls": "none"}
        axes.plot(*at, **ring, label="cheapest policy that keeps it")
    axes.set_xlabel(f"{cost} per decision")
    axes.set_ylabel(quality)
    axes.set_title(f"{quality} against {cost}, {curve.n:,} {'synthetic ' if synthetic else ''}decisions", loc="left")
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(path)
