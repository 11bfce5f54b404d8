"""`headway plan`: what a verdict costs, how large a test must be, and its registration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from headway.cli.output import Output
from headway.cli.show import Column, RecordTable, renders
from headway.cli.verbs import Session, task_argument, verb
from headway.cli.written import percent

if TYPE_CHECKING:
    from headway.nouns import VerdictCost


@verb("plan", "headway plan route", "headway plan route --uplift 0.02 --register")
@task_argument()
@click.option("--uplift", type=float, help="The smallest improvement in reward that is worth a promotion.")
@click.option(
    "--power", type=click.FloatRange(0.5, 0.999), default=0.8, show_default=True, help="The chance to detect it."
)
@click.option("--policy", metavar="REF", help="The candidate; the newest one by default.")
@click.option("--register", is_flag=True, help="Write the horizon to the ledger; later proofs must use it.")
def plan(session: Session, task: str, uplift: float | None, power: float, policy: str | None, register: bool) -> None:
    """Compute how many decisions a proof needs, before they are collected.

    Without --uplift: what a verdict on the present candidate will cost, in decisions and days, with the log alone and
    with the cheapest share of the traffic. With --uplift: the horizon of a test of that size. A proof with a
    registered horizon needs fewer decisions than one without; only decisions that are made after the registration
    count.
    """
    if uplift is None:
        if register:
            raise click.UsageError("--register needs --uplift: the size that the horizon is for.")
        _cost(session, task, policy, power)
        return
    with session.project() as project:
        session.settle(project, task)
        sized = project.plan(task, uplift=uplift, power=power, register=register, policy=policy)
        synthetic = session.synthetic(project, task)
    session.show(
        PlannedTest(
            task=task,
            decisions=sized.plan.horizon,
            uplift=uplift,
            power=power,
            alpha=sized.plan.alpha,
            from_decision=sized.plan.from_decision,
            pilot=sized.pilot,
            variance=sized.variance,
            savings={saving.name: saving.horizon for saving in sized.savings},
            registered=register,
            unit=sized.unit,
            synthetic=synthetic,
        )
    )
    session.next(f"headway prove {task}" if register else f"headway plan {task} --uplift {uplift:g} --register")


def _cost(session: Session, task: str, policy: str | None, power: float) -> None:
    with session.project() as project:
        session.settle(project, task)
        cost = project.verdict_cost(task, policy=policy, power=power)
        running = project.ledger.experiment(task)
        synthetic = session.synthetic(project, task)
    session.show(cost, synthetic=synthetic)
    if running is not None:
        session.next(f"headway experiment show {task}")
    else:
        session.next(f"headway experiment start {task}" if cost.share > 0 else f"headway prove {task}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTest:
    """How many decisions a test of one task needs."""

    task: str
    decisions: int
    uplift: float
    power: float
    alpha: float
    from_decision: int | None  # the last decision that the test does not count
    pilot: int
    variance: float
    savings: Mapping[str, int]
    registered: bool
    synthetic: int
    unit: str


_SAVINGS = RecordTable[tuple[str, int]](
    Column.text("logged differently", lambda row: row[0]), Column.value("decisions", lambda row: row[1])
)


@renders(PlannedTest)
def _size(out: Output, size: PlannedTest) -> None:
    out.line(
        f"{size.decisions:,} {size.unit} for a {size.power:.0%} chance to prove an uplift of {size.uplift:+g} "
        f"(estimated from {size.pilot:,} so far)."
    )
    _SAVINGS.print(out, size.savings.items())
    if size.registered:
        out.line(f"Registered: the next {size.decisions:,} {size.unit} are the test.", style="bold")


_COSTS = RecordTable[tuple[float, str]](
    Column.text("candidate's share", lambda row: percent(row[0]) if row[0] else "none: the log alone"),
    Column.text("a verdict takes", lambda row: row[1]),
)


@renders("VerdictCost")
def _verdict_cost(out: Output, cost: VerdictCost) -> None:
    out.line(f"A verdict on {cost.policy} against {cost.against}, for an uplift of {cost.uplift:+.3f}:")
    out.line(f"  with the log alone: {_more(cost, cost.log_alone)}")
    if cost.share > 0 and cost.decisions is not None:
        share = f"with {percent(cost.share)} of the traffic for the candidate"
        out.line(f"  {share}: {_more(cost, cost.decisions)}", style="bold")
    else:
        out.line(f"The log alone decides within {cost.within:,} {cost.unit}s: no experiment is needed.", style="bold")
    _COSTS.print(out, [(share, _more(cost, needed)) for share, needed in cost.by_share.items()])
    rate = "" if cost.per_day is None else f", {cost.per_day:,.0f} {cost.unit}s a day"
    out.line(f"Estimated from {cost.pilot:,} {cost.unit}s{rate}; the test has {cost.known:,} so far.")
    if cost.waiting is not None:
        made, late = cost.waiting.decisions, cost.waiting.open
        out.line(f"{made:,} more are made and wait: {late:,} of them have no outcome yet. {_MARK}")


_MARK = "They count once 99% of each action's outcomes are in, or reward_after_s is over."


def _more(cost: VerdictCost, units: int | None) -> str:
    if units is None:
        return f"no number of {cost.unit}s suffices"
    return cost.forecast(units).text if units else f"no more {cost.unit}s: a proof is due"
