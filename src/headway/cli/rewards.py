"""`headway rewards`: how good it was, by whom and where; and derived again."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli.format import number
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
@click.option(
    "--by",
    type=click.Choice(["action", "role", "source"]),
    default="action",
    show_default=True,
    help="Colours of the plot.",
)
def analyze(session: Session, task: str, plot: Path | None, by: str) -> None:
    """How rewards are spread: by role, source, action and rater; how many are missing or failed.

    Where several raters gave the same signal, they are compared: bias, noise and scale of each, and whether one of them
    rates the wrong way round.
    """
    from headway.observe.distribution import distribution

    with session.project() as project:
        settings = project.settings.task(task)
        project.settle(task)
        low, high = project.rewards(task).range
        version = project.rewards(task).version
        found = distribution(project.database, project.query, task, low=low, high=high)
        compared = {name: each for name, each in project.raters(task).items() if each.compared}
        consensus = project.rewards(task).consensus
        made_up = session.synthetic(project, task)
    whole = found.whole
    if plot is not None:
        from headway.cli.picture import rewards_picture

        bins = {name: spread.bins for name, spread in found.groups[by].items()}
        rewards_picture(plot, task, list(found.edges), bins, by=by, synthetic=bool(made_up))
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
            "consensus": consensus,
            "raters": [
                {"signal": name, "rater": rater or "unnamed", **asdict(each)}
                for name, agreed in compared.items()
                for rater, each in agreed.raters.items()
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
    for name, agreed in compared.items():
        session.out.line(f"Raters of {name!r} compared{'' if consensus else ' (consensus is off: their mean counts)'}:")
        session.out.table(
            ("rater", "ratings", "bias", "noise", "scale", "reversed"),
            [
                (
                    rater or "unnamed",
                    number(each.ratings),
                    f"{each.bias:+.2f} ± {each.bias_std:.2f}",
                    number(each.noise, 2),
                    f"{each.scale:.2f} ± {each.scale_std:.2f}",
                    f"{each.reversed:.0%}",
                )
                for rater, each in agreed.raters.items()
            ],
            right=("ratings", "bias", "noise", "scale", "reversed"),
        )
    if plot is not None:
        session.out.line(f"Plot: {plot}")
        session.next(f"headway learn {task}")
    else:
        session.next(f"headway rewards analyze {task} --plot rewards.png")


@verb("ask", "headway rewards ask reply -n 5", "headway rewards ask reply --signal rating --json")
@task_argument()
@click.option("-n", "count", type=click.IntRange(1, 1000), default=5, show_default=True, help="How many.")
@click.option("--signal", "name", help="Which rating is asked for; the one that people give by default.")
def ask(session: Session, task: str, count: int, name: str | None) -> None:
    """Which decisions to ask people about next: those that one more rating tells most about.

    By the uncertainty that a further rating takes away, times how undecided the policy was. The latest 10,000 decisions
    are looked at.
    """

    with session.project() as project:
        project.settings.task(task)
        found = project.questions(task, count=count, signal=name)
        made_up = session.synthetic(project, task)
    session.out.document(
        {
            "task": task,
            "questions": [
                {
                    "decision": each.decision.id,
                    "text": each.decision.situation.text,
                    "action": each.decision.action,
                    **{key: getattr(each, key) for key in _ASKED},
                }
                for each in found
            ],
            "synthetic": made_up,
        }
    )
    if not found:
        session.out.line("Nothing was decided yet.")
        session.next(f'headway decide {task} "Summarise this page"')
        return
    session.out.table(
        ("decision", "action", "ratings", "std", "then", "ask", "why", "text"),
        [
            (
                each.decision.id,
                each.decision.action,
                number(each.ratings),
                number(each.std, 2),
                number(each.after, 2),
                each.whom or "anybody",
                each.why,
                each.decision.situation.text[:40],
            )
            for each in found
        ],
        right=("ratings", "std", "then"),
    )
    session.next(f"headway signal {found[0].decision.id} {found[0].signal}=… --rater {found[0].whom or 'NAME'}")


_ASKED = ("signal", "ratings", "std", "after", "relevance", "gain", "whom", "why")


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


for each in (analyze, ask, rescore):
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
