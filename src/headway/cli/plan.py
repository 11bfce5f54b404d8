"""`headway plan`: how large a test has to be, and its registration."""

from __future__ import annotations

import click

from headway.cli.verb import Session, task_argument, verb

__all__ = ["plan"]


@verb("plan", "headway plan route --uplift 0.02", "headway plan route --uplift 0.02 --register")
@task_argument()
@click.option(
    "--uplift", type=float, required=True, help="The smallest improvement in reward that is worth a promotion."
)
@click.option("--power", type=click.FloatRange(0.5, 0.999), default=0.8, show_default=True, help="Chance to see it.")
@click.option("--policy", metavar="REF", help="The candidate; the newest one by default.")
@click.option("--register", is_flag=True, help="Write the horizon into the ledger: later proofs are held to it.")
def plan(session: Session, task: str, uplift: float, power: float, policy: str | None, register: bool) -> None:
    """How many decisions a proof needs, before they are collected.

    A registered horizon makes the proof stronger than looking without one; it counts decisions that settle from now on.
    """
    with session.project() as project:
        found = project.plan(task, uplift=uplift, power=power, register=register, policy=policy)
        made_up = session.synthetic(project, task)
    horizon = found.plan.horizon
    session.out.document(
        {
            "task": task,
            "decisions": horizon,
            "uplift": uplift,
            "power": power,
            "alpha": found.plan.alpha,
            "from_seq": found.plan.from_seq,
            "pilot": found.pilot,
            "variance": found.variance,
            "savings": {each.name: each.horizon for each in found.savings},
            "registered": register,
            "synthetic": made_up,
        }
    )
    session.out.line(
        f"{horizon:,} decisions for a {power:.0%} chance to prove an uplift of {uplift:+g} "
        f"(estimated from {found.pilot:,} so far)."
    )
    session.out.table(
        ("logged differently", "decisions"),
        [(each.name, f"{each.horizon:,}") for each in found.savings],
        right=("decisions",),
    )
    if register:
        session.out.line(f"Registered: the next {horizon:,} settled decisions are the test.", style="bold")
        session.next(f"headway prove {task}")
    else:
        session.next(f"headway plan {task} --uplift {uplift:g} --register")
