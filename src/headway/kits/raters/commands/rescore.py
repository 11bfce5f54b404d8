"""`headway rewards rescore`: compute rewards again after a change of their definition."""

from __future__ import annotations

from dataclasses import dataclass

import click

from headway.cli import Output, Session, Verbs, renders, task_argument, verb


@click.group("rewards", cls=Verbs, examples=("headway rewards analyze route", "headway rewards rescore route"))
def rewards() -> None:
    """Analyse rewards, and compute them again after a change."""


@verb("rescore", "headway rewards rescore route", "headway rewards rescore route --json")
@task_argument()
def rescore(session: Session, task: str) -> None:
    """Compute every reward again, by the present headway.toml.

    Stored signals do not change: restore the old definition and rescore, and the old rewards return.
    """
    with session.project() as project:
        changed = project.rescore(task, progress=session.out.progress)
        version = project.rewards(task).version
        settled = project.query.count_settled(task)
        synthetic = session.synthetic(project, task)
    session.show(Rescored(task=task, changed=changed, settled=settled, reward_version=version, synthetic=synthetic))
    session.next(f"headway learn {task}" if changed else f"headway rewards analyze {task}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescored:
    """How many outcomes a new definition of the reward changed."""

    task: str
    changed: int
    settled: int
    reward_version: str
    synthetic: int


@renders(Rescored)
def _rescored(out: Output, rescored: Rescored) -> None:
    out.line(
        f"{rescored.changed:,} of {rescored.settled:,} outcomes of {rescored.task!r} changed under reward version "
        f"{rescored.reward_version}."
    )


rewards.add_command(rescore)
