"""`headway rewards analyze` and `ask`: how rewards are distributed, how raters compare, and what to ask them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli import Column, Output, RecordTable, Session, picture, renders, task_argument, verb, written

if TYPE_CHECKING:
    from headway.kits.raters.compare import Question
    from headway.kits.raters.distribution import Distribution, Spread
    from headway.reward import Agreed


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
    from headway.kits.raters.compare import raters
    from headway.kits.raters.distribution import distribution

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
            compared={name: agreed for name, agreed in raters(project, task).items() if agreed.compared},
            plot=None if plot is None else str(plot),
            synthetic=session.synthetic(project, task),
        )
    if plot is not None:
        bins = {name: spread.bins for name, spread in analysis.rewards.groups[by].items()}
        _draw(plot, task, list(analysis.rewards.edges), bins, by=by, synthetic=bool(analysis.synthetic))
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
    from headway.kits.raters.compare import questions

    with session.project() as project:
        project.settings.task(task)
        asked = questions(project, task, count=count, signal=name)
        synthetic = session.synthetic(project, task)
    session.show(QuestionList(task=task, questions=asked, synthetic=synthetic))
    if asked:
        first = asked[0]
        session.next(f"headway signal {first.decision.id} {first.signal}=… --rater {first.whom or 'NAME'}")
    else:
        session.next(f'headway decide {task} "Summarise this page"')


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardAnalysis:
    """How the rewards of a task are distributed, and how its raters compare."""

    task: str
    reward_version: str
    range: Sequence[float]
    clipped_to: tuple[float, float]
    rewards: Distribution
    consensus: bool
    compared: Mapping[str, Agreed[int]]  # by signal that several raters gave
    plot: str | None
    synthetic: int

    def document(self) -> dict[str, Any]:
        rewards = self.rewards
        return {
            "task": self.task,
            "reward_version": self.reward_version,
            "range": list(self.range),
            "all": _spread(rewards.whole),
            **{
                f"by_{kind}": {name: _spread(spread) for name, spread in spreads.items()}
                for kind, spreads in rewards.groups.items()
            },
            "by_rater": [
                {"rater": rater, "signal": signal, **_moments(spread)}
                for (rater, signal), spread in rewards.raters.items()
            ],
            "consensus": self.consensus,
            "raters": [
                {"signal": signal, "rater": rater or "unnamed", **asdict(estimate)}
                for signal, agreed in self.compared.items()
                for rater, estimate in agreed.raters.items()
            ],
            "edges": list(rewards.edges),
            "plot": self.plot,
            "synthetic": self.synthetic,
        }


def _moments(spread: Spread) -> dict[str, Any]:
    return {
        "n": spread.n,
        "mean": spread.mean,
        "std": spread.std,
        "least": spread.low if spread.n else None,
        "most": spread.high if spread.n else None,
    }


def _spread(spread: Spread) -> dict[str, Any]:
    return {
        "decisions": spread.decisions,
        **{name: getattr(spread, name) for name in ("pending", "rewarded", "failed", "censored", "clipped")},
        "missing_share": spread.missing_share,
        "failed_share": spread.failed_share,
        **_moments(spread),
        "bins": spread.bins,
    }


def _moment(name: str) -> Column[tuple[str, str, Spread]]:
    return Column.value(name, lambda row: _moments(row[2])[name])


_MOMENTS = tuple(_moment(name) for name in ("mean", "std", "least", "most"))
_GROUPS = RecordTable[tuple[str, str, "Spread"]](
    Column.text("by", lambda row: row[0]),
    Column.text("", lambda row: row[1]),
    Column.value("decisions", lambda row: row[2].decisions),
    Column.value("missing", lambda row: written.percent(row[2].missing_share, 1)),
    Column.value("failed", lambda row: written.percent(row[2].failed_share, 1)),
    *_MOMENTS,
)
_RATINGS = RecordTable[tuple[str, str, "Spread"]](
    Column.text("rater", lambda row: row[0]),
    Column.text("signal", lambda row: row[1]),
    Column.value("n", lambda row: row[2].n),
    *_MOMENTS,
)
_RATERS = RecordTable[tuple[str, Any]](  # the name and the estimate of one rater
    Column.text("rater", lambda row: row[0] or "unnamed"),
    Column.value("ratings", lambda row: row[1].ratings),
    Column.value("bias", lambda row: f"{row[1].bias:+.2f} ± {row[1].bias_std:.2f}"),
    Column.value("noise", lambda row: row[1].noise, 2),
    Column.value("scale", lambda row: f"{row[1].scale:.2f} ± {row[1].scale_std:.2f}"),
    Column.value("reversed", lambda row: written.percent(row[1].reversed)),
)


@renders(RewardAnalysis)
def _analysis(out: Output, analysis: RewardAnalysis) -> None:
    rewards, whole = analysis.rewards, analysis.rewards.whole
    low, high = analysis.clipped_to
    out.line(
        f"{written.number(whole.decisions)} decisions of {analysis.task!r}: "
        f"{written.percent(whole.missing_share, 1)} without an outcome, "
        f"{written.percent(whole.failed_share, 1)} failed, "
        f"{written.number(whole.clipped)} rewards clipped to [{low:g}, {high:g}]."
    )
    groups = [(kind, name, spread) for kind, spreads in rewards.groups.items() for name, spread in spreads.items()]
    _GROUPS.print(out, [("all", "", whole), *groups])
    _RATINGS.print(out, [(rater, signal, spread) for (rater, signal), spread in rewards.raters.items()])
    for signal, agreed in analysis.compared.items():
        off = "" if analysis.consensus else " (consensus is off: their mean counts)"
        out.line(f"Raters of {signal!r} compared{off}:")
        _RATERS.print(out, agreed.raters.items())
    if analysis.plot is not None:
        out.line(f"Plot: {analysis.plot}")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionList:
    """Decisions to ask people about, the most informative first."""

    task: str
    questions: Sequence[Question]
    synthetic: int

    def document(self) -> dict[str, Any]:
        names = ("signal", "ratings", "std", "after", "relevance", "gain", "whom", "why")
        questions = [
            {
                "decision": question.decision.id,
                "text": question.decision.situation.text,
                "action": question.decision.action,
                **{name: getattr(question, name) for name in names},
            }
            for question in self.questions
        ]
        return {"task": self.task, "questions": questions, "synthetic": self.synthetic}


_QUESTIONS = RecordTable["Question"](
    Column.text("decision", lambda question: question.decision.id),
    Column.text("action", lambda question: question.decision.action),
    Column.value("ratings", lambda question: question.ratings),
    Column.value("std", lambda question: question.std, 2),
    Column.value("then", lambda question: question.after, 2),
    Column.text("ask", lambda question: question.whom or "anybody"),
    Column.text("why", lambda question: question.why),
    Column.text("text", lambda question: question.decision.situation.text[:40]),
)


@renders(QuestionList)
def _questions(out: Output, asked: QuestionList) -> None:
    if not asked.questions:
        out.line("Nothing was decided yet.")
    _QUESTIONS.print(out, asked.questions)


def _draw(
    path: Path, task: str, edges: list[float], bins: Mapping[str, list[int]], *, by: str = "action", synthetic: bool
) -> None:
    """How often each reward comes, stacked by action, role or source."""
    figure = picture.figure(figsize=(8, 4.2), dpi=150, layout="constrained")
    axes = figure.subplots()
    width = edges[1] - edges[0]
    bottom = [0] * (len(edges) - 1)
    palette = (picture.BLUE, picture.ORANGE, picture.GREEN, "#7b5ea7", "#b8434e", "#5b8c9b", picture.GREY)
    for at, (name, counts) in enumerate(bins.items()):
        axes.bar(
            edges[:-1], counts, width=width, align="edge", bottom=bottom, color=palette[at % len(palette)],
            edgecolor="white", linewidth=0.5, label=name,
        )  # fmt: skip
        bottom = [sum(pair) for pair in zip(bottom, counts, strict=True)]
    axes.set_xlabel("reward")
    axes.set_ylabel("settled decisions")
    kind = " (synthetic data)" if synthetic else ""
    axes.set_title(f"Rewards of {task} by {by}{kind}", loc="left", weight="bold")
    axes.legend(frameon=False)
    figure.savefig(path)
