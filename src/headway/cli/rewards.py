"""`headway rewards`: analyse rewards, choose questions for raters, compute rewards again."""

from __future__ import annotations

from pathlib import Path

import click

from headway.cli.rewards_report import QuestionList, Rescored, RewardAnalysis
from headway.cli.verb import Session, Verbs, task_argument, verb

__all__ = ["rewards"]


@click.group("rewards", cls=Verbs, examples=("headway rewards analyze route", "headway rewards rescore route"))
def rewards() -> None:
    """Analyse rewards, and compute them again after a change."""


@verb("analyze", "headway rewards analyze route", "headway rewards analyze route --plot rewards.png")
@task_argument()
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE", help="Draw a plot (.png, .svg or .pdf).")
@click.option(
    "--by",
    type=click.Choice(["action", "role", "source"]),
    default="action",
    show_default=True,
    help="Colours of the plot.",
)
def analyze(session: Session, task: str, plot: Path | None, by: str) -> None:
    """Show how rewards are distributed: by role, source, action and rater; how many are missing or failed.

    If several raters gave the same signal, they are compared: the bias, noise and scale of each, and whether one of
    them rates the wrong way round.
    """
    from headway.observe.distribution import distribution

    with session.project() as project:
        settings = project.settings.task(task)
        project.settle(task)
        rewards = project.rewards(task)
        low, high = rewards.range
        analysis = RewardAnalysis(
            task=task,
            reward_version=rewards.version,
            range=settings.range,
            clipped_to=(low, high),
            rewards=distribution(project.database, project.query, task, low=low, high=high),
            consensus=rewards.consensus,
            compared={name: agreed for name, agreed in project.raters(task).items() if agreed.compared},
            plot=None if plot is None else str(plot),
            synthetic=session.synthetic(project, task),
        )
    if plot is not None:
        from headway.cli.picture import rewards_picture

        bins = {name: spread.bins for name, spread in analysis.rewards.groups[by].items()}
        rewards_picture(plot, task, list(analysis.rewards.edges), bins, by=by, synthetic=bool(analysis.synthetic))
    session.show(analysis)
    session.next(f"headway learn {task}" if plot is not None else f"headway rewards analyze {task} --plot rewards.png")


@verb("ask", "headway rewards ask reply -n 5", "headway rewards ask reply --signal rating --json")
@task_argument()
@click.option("-n", "count", type=click.IntRange(1, 1000), default=5, show_default=True, help="How many.")
@click.option("--signal", "name", help="The rating to ask for; by default the one that people give.")
def ask(session: Session, task: str, count: int, name: str | None) -> None:
    """List the decisions to ask people about next: those where one more rating tells most.

    They are ordered by how much uncertainty a further rating removes, times how undecided the policy was. The latest
    10,000 decisions are considered.
    """
    with session.project() as project:
        project.settings.task(task)
        questions = project.questions(task, count=count, signal=name)
        synthetic = session.synthetic(project, task)
    session.show(QuestionList(task=task, questions=questions, synthetic=synthetic))
    if questions:
        first = questions[0]
        session.next(f"headway signal {first.decision.id} {first.signal}=… --rater {first.whom or 'NAME'}")
    else:
        session.next(f'headway decide {task} "Summarise this page"')


@verb("rescore", "headway rewards rescore route", "headway rewards rescore route --json")
@task_argument()
def rescore(session: Session, task: str) -> None:
    """Compute every reward again, by the present headway.toml.

    Stored signals do not change: restore the old definition and rescore, and the old rewards return.
    """
    with session.project() as project:
        changed = project.rescore(task)
        version = project.rewards(task).version
        settled = project.query.count_settled(task)
        synthetic = session.synthetic(project, task)
    session.show(Rescored(task=task, changed=changed, settled=settled, reward_version=version, synthetic=synthetic))
    session.next(f"headway learn {task}" if changed else f"headway rewards analyze {task}")


for _command in (analyze, ask, rescore):
    rewards.add_command(_command)
