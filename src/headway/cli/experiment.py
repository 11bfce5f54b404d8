"""`headway experiment`: give a candidate a share of the traffic until its test ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from headway.cli.output import Output
from headway.cli.show import renders
from headway.cli.verbs import Session, Verbs, task_argument, verb
from headway.cli.written import interval, minute, percent, signed

if TYPE_CHECKING:
    from headway.nouns import ExperimentState
    from headway.project import Project


@click.group("experiment", cls=Verbs, examples=("headway experiment start route", "headway experiment show route"))
def experiment() -> None:
    """Give a candidate a share of the traffic until its test has a verdict."""


@verb("start", "headway experiment start route", "headway experiment start route --share 0.3 --policy bandit@4f2a")
@task_argument()
@click.option("--share", type=float, help="The candidate's share of the decisions; the cheapest one by default.")
@click.option("--policy", metavar="REF", help="The candidate; the newest one by default.")
@click.option("--who", default="", help="Who made this choice, for the ledger; your user name by default.")
def start(session: Session, task: str, share: float | None, policy: str | None, who: str) -> None:
    """Start an experiment: the candidate decides on a share of the traffic.

    The start is a row of the ledger and registers the candidate, the share and the first decision. Every decision
    counts with its exact probability. The background loop ends the experiment with the verdict.
    """
    with session.project() as project:
        project.start_experiment(task, share=share, policy=policy, who=who)
        _show(session, project, task)
    session.next(f"headway prove {task}")
    session.undo(f"headway experiment stop {task}")


@verb("stop", "headway experiment stop route", 'headway experiment stop route --why "too expensive"')
@task_argument()
@click.option("--why", default="stopped", help="The reason, for the ledger.")
@click.option("--who", default="", help="Who made this choice, for the ledger; your user name by default.")
def stop(session: Session, task: str, why: str, who: str) -> None:
    """End the running experiment; the current policy decides alone again, and what was learned still counts."""
    with session.project() as project:
        project.stop_experiment(task, why=why, who=who)
        step = project.next_step(task).command
        _show(session, project, task)
    session.next(step)


@verb("show", "headway experiment show route", "headway experiment show route --json")
@task_argument()
def show_experiment(session: Session, task: str) -> None:
    """Show the running experiment, or the last one: progress, expected end and verdict so far."""
    with session.project() as project:
        running = _show(session, project, task)
    session.next(f"headway prove {task}" if running else f"headway experiment start {task}")


for _command in (start, stop, show_experiment):
    experiment.add_command(_command)


def _show(session: Session, project: Project, task: str) -> bool:
    state = project.experiment(task)
    synthetic = session.synthetic(project, task)
    session.show(ShownExperiment(task=task, experiment=state, synthetic=synthetic))
    return state is not None and state.running


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownExperiment:
    """The last experiment of a task, if there was one."""

    task: str
    experiment: ExperimentState | None
    synthetic: int


@renders(ShownExperiment)
def _experiment(out: Output, shown: ShownExperiment) -> None:
    state = shown.experiment
    if state is None:
        out.line(f"There was no experiment on {shown.task} yet.")
        return
    out.line(experiment_line(state), style="bold" if state.running else "")
    if state.difference is not None and state.interval is not None:
        estimate = f"{signed(state.difference)} {interval(*state.interval)} against {state.against}"
        out.line(f"So far {estimate}: {(state.verdict or '').upper()}.")
    elif state.verdict is not None:
        out.line(f"The last verdict shows no estimate: {state.verdict.upper()}.")


def experiment_line(state: ExperimentState) -> str:
    """One sentence: who acts on which share, how far it is, and when it ends."""
    who = f"{state.policy} on {percent(state.share)} of {state.task}"
    if not state.running:
        return (
            f"Experiment ended, {state.ended}: {who}, {state.decisions:,} {state.unit}s until {minute(state.ended_at)}."
        )
    progress = f"{state.decisions:,} {state.unit}s so far"
    if state.waiting:
        progress += f", {state.waiting:,} of them waiting for outcomes"
    return f"Experiment running: {who}, {progress}; {_end(state)}."


def _end(state: ExperimentState) -> str:
    if state.forecast is not None:
        return state.forecast.text
    if state.verdict in ("better", "worse", "no difference"):
        return "its test is over"
    return f"ends after {state.most:,} {state.unit}s at the latest"
