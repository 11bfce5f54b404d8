"""`headway plan`: how large a test must be, and its registration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import click

from headway.cli.output import Output
from headway.cli.show import RecordTable, renders, text, value
from headway.cli.verb import Session, task_argument, verb

__all__ = ["plan"]


@verb("plan", "headway plan route --uplift 0.02", "headway plan route --uplift 0.02 --register")
@task_argument()
@click.option(
    "--uplift", type=float, required=True, help="The smallest improvement in reward that is worth a promotion."
)
@click.option(
    "--power", type=click.FloatRange(0.5, 0.999), default=0.8, show_default=True, help="The chance to detect it."
)
@click.option("--policy", metavar="REF", help="The candidate; the newest one by default.")
@click.option("--register", is_flag=True, help="Write the horizon to the ledger; later proofs must use it.")
def plan(session: Session, task: str, uplift: float, power: float, policy: str | None, register: bool) -> None:
    """Compute how many decisions a proof needs, before they are collected.

    A proof with a registered horizon needs fewer decisions than one without; only decisions that are made after
    the registration count.
    """
    with session.project() as project:
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
    text("logged differently", lambda row: row[0]), value("decisions", lambda row: row[1])
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
