"""`headway rewards`: how good it was, by whom and where; and derived again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli.output import number
from headway.cli.verb import Session, Verbs, task_argument, verb

if TYPE_CHECKING:
    from headway.observe.distribution import Spread

__all__ = ["rewards"]


@click.group("rewards", cls=Verbs, examples=("headway rewards analyze route", "headway rewards rescore route"))
def rewards() -> None:
    """Look at rewards, and derive them again after a change."""


@verb("analyze", "headway rewards analyze route", "headway rewards analyze route --plot rewards.png")
@task_argument()
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE", help="Draw them (.png, .svg or .pdf).")
def analyze(session: Session, task: str, plot: Path | None) -> None:
    """How rewards are spread: by role, source, action and rater; how many are missing or failed."""
    from headway.observe.distribution import distribution

    with session.project() as project:
        settings = project.settings.task(task)
        project.settle(task)
        low, high = project.rewards(task).range
        version = project.rewards(task).version
        found = distribution(project.database, project.query, task, low=low, high=high)
        made_up = session.synthetic(project, task)
    whole = found.whole
    if plot is not None:
        from headway.cli.picture import rewards_picture

        bins = {name: spread.bins for name, spread in found.groups["action"].items()}
        rewards_picture(plot, task, list(found.edges), bins, synthetic=bool(made_up))
    session.out.document(
        {
            "task": task,
            "reward_version": version,
            "range": list(settings.range),
            "all": _document(whole),
            **{
                f"by_{kind}": {name: _document(each) for name, each in spreads.items()}
                for kind, spreads in found.groups.items()
            },
            "by_rater": [
                {"rater": rater, "signal": name, **_moments(each)} for (rater, name), each in found.raters.items()
            ],
            "edges": list(found.edges),
            "plot": None if plot is None else str(plot),
            "synthetic": made_up,
        }
    )
    session.out.line(
        f"{whole.decisions:,} decisions of {task!r}: {whole.missing_share:.1%} without an outcome, "
        f"{whole.failed_share:.1%} failed, {whole.clipped:,} rewards clipped to [{low:g}, {high:g}]."
    )
    rows = [("all", "", whole)]
    rows += [(kind, name, each) for kind, spreads in found.groups.items() for name, each in spreads.items()]
    session.out.table(
        ("by", "", "decisions", "missing", "failed", "mean", "std", "least", "most"),
        [
            (
                kind,
                name,
                number(each.decisions),
                f"{each.missing_share:.1%}",
                f"{each.failed_share:.1%}",
                *(number(value) for value in _moments(each).values() if not isinstance(value, int)),
            )
            for kind, name, each in rows
        ],
        right=("decisions", "missing", "failed", "mean", "std", "least", "most"),
    )
    if found.raters:
        session.out.table(
            ("rater", "signal", "n", "mean", "std", "least", "most"),
            [
                (rater, name, *(number(value) for value in _moments(each).values()))
                for (rater, name), each in found.raters.items()
            ],
            right=("n", "mean", "std", "least", "most"),
        )
    if plot is not None:
        session.out.line(f"Plot: {plot}")
        session.next(f"headway learn {task}")
    else:
        session.next(f"headway rewards analyze {task} --plot rewards.png")


@verb("rescore", "headway rewards rescore route", "headway rewards rescore route --json")
@task_argument()
def rescore(session: Session, task: str) -> None:
    """Derive every reward again, as headway.toml now says.

    No stored signal changes: put the old definition back and rescore, and the old rewards are back.
    """
    with session.project() as project:
        changed = project.rescore(task)
        version = project.rewards(task).version
        settled = project.query.count_settled(task)
        made_up = session.synthetic(project, task)
    session.out.document(
        {"task": task, "changed": changed, "settled": settled, "reward_version": version, "synthetic": made_up}
    )
    session.out.line(f"{changed:,} of {settled:,} outcomes of {task!r} changed under reward version {version}.")
    session.next(f"headway learn {task}" if changed else f"headway rewards analyze {task}")


for each in (analyze, rescore):
    rewards.add_command(each)


def _moments(spread: Spread) -> dict[str, Any]:
    return {
        "n": spread.n,
        "mean": spread.mean,
        "std": spread.std,
        "least": spread.low if spread.n else None,
        "most": spread.high if spread.n else None,
    }


def _document(spread: Spread) -> dict[str, Any]:
    return {
        "decisions": spread.decisions,
        **{name: getattr(spread, name) for name in ("pending", "rewarded", "failed", "censored", "clipped")},
        "missing_share": spread.missing_share,
        "failed_share": spread.failed_share,
        **_moments(spread),
        "bins": spread.bins,
    }
