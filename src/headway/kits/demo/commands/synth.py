"""`headway data synth`: history from a sample world, marked as synthetic."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import click

from headway.cli import Output, Session, renders, task_argument, verb


@verb("synth", "headway data synth route --rows 650 --seed 42", "headway data synth route --world escalation-priced")
@task_argument()
@click.option("--rows", type=click.IntRange(1, 1_000_000), default=650, show_default=True, help="Number of decisions.")
@click.option("--seed", type=int, default=42, show_default=True, help="The same seed again adds nothing.")
@click.option("--world", default="escalation", show_default=True, help="escalation, escalation-priced, or projects.")
def synth(session: Session, task: str, rows: int, seed: int, world: str) -> None:
    """Write the log of a router in a synthetic world: decisions with exact propensities.

    The rows have the source `synthetic`, which every screen, export and evidence says. The task's reward must read the
    world's signals: reward = "reward_v1", or "reward_v2" for escalation-priced, and { composite_delta = 1.0 } for
    projects, whose rows are described actions with unknown probabilities.
    """
    from headway.kits.demo.synth import WORLDS, synthesise

    with session.project(create=True) as project:
        report = synthesise(project, task, rows=rows, seed=seed, world=world, progress=session.out.progress)
        session.settle(project, task)
        session.synthetic(project, task)
    session.show(SyntheticLog(**asdict(report)))
    session.next(f"headway {'rewards analyze' if world in WORLDS else 'learn'} {task}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticLog:
    """Decisions from a sample world that were stored."""

    task: str
    world: str
    seed: int
    rows: int
    stored: int
    already: int
    source: str = "synthetic"


@renders(SyntheticLog)
def _stored(out: Output, log: SyntheticLog) -> None:
    already = f"; {log.already:,} were stored before" if log.already else ""
    out.line(f"{log.stored:,} synthetic decisions of the world {log.world!r} stored{already}.")
