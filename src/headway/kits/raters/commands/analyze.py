"""`headway rewards analyze` and `ask`: how rewards are distributed, how raters compare, and what to ask them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli import Column, Output, RecordTable, Session, renders, task_argument, verb, written
from headway.kits.report import plot_figure
from headway.nouns import SOURCES
from headway.observe import LEADS, STATUSES, Database, Query, decode_candidates

if TYPE_CHECKING:
    from headway.kits.raters.agreement import Question
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
    from headway.kits.raters.agreement import raters

    with session.project() as project:
        settings = project.settings.task(task)
        session.settle(project, task)
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
    from headway.kits.raters.agreement import questions

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
    Column.value("missing", lambda row: f"{row[2].missing_share:.1%}"),
    Column.value("failed", lambda row: f"{row[2].failed_share:.1%}"),
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
    Column.value("reversed", lambda row: f"{row[1].reversed:.0%}"),
)


@renders(RewardAnalysis)
def _analysis(out: Output, analysis: RewardAnalysis) -> None:
    rewards, whole = analysis.rewards, analysis.rewards.whole
    low, high = analysis.clipped_to
    out.line(
        f"{written.number(whole.decisions)} decisions of {analysis.task!r}: "
        f"{whole.missing_share:.1%} without an outcome, "
        f"{whole.failed_share:.1%} failed, "
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
    figure = plot_figure(figsize=(8, 4.2), dpi=150, layout="constrained")
    axes = figure.subplots()
    width = edges[1] - edges[0]
    bottom = [0] * (len(edges) - 1)
    palette = ("C0", "C1", "C2", "#7b5ea7", "#b8434e", "#5b8c9b", "C3")
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


BINS = 40
_LIVE = "NOT EXISTS (SELECT 1 FROM settled n WHERE n.replaces = s.seq)"


@dataclass(slots=True, kw_only=True)
class Spread:
    """One group: the number of decisions, their outcomes, and the moments and histogram of their rewards."""

    decisions: int = 0
    pending: int = 0
    rewarded: int = 0
    failed: int = 0
    censored: int = 0
    clipped: int = 0
    n: int = 0  # rewards, including those of failed and censored decisions if the task counts them
    total: float = 0.0
    square: float = 0.0
    low: float = float("inf")
    high: float = float("-inf")
    bins: list[int] = field(default_factory=lambda: [0] * BINS)

    @property
    def mean(self) -> float | None:
        return self.total / self.n if self.n else None

    @property
    def std(self) -> float | None:
        if self.n < 2:
            return None
        return float(max(0.0, (self.square - self.total**2 / self.n) / (self.n - 1)) ** 0.5)

    @property
    def failed_share(self) -> float:
        return self.failed / self.decisions if self.decisions else 0.0

    @property
    def missing_share(self) -> float:
        """The share of decisions without a signal: still pending, or censored."""
        return (self.pending + self.censored) / self.decisions if self.decisions else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """All decisions of a task that made their own draw; `raters` describes signals, by (rater, signal).

    Mined labels appear only in the group of their source: they are never mixed with measured ones.
    """

    whole: Spread
    groups: Mapping[str, Mapping[str, Spread]]  # "role", "source", "action" → name → spread
    raters: Mapping[tuple[str, str], Spread]
    edges: tuple[float, ...]  # BINS + 1 edges of the bins


def distribution(database: Database, query: Query, task: str, *, low: float, high: float) -> Distribution:
    """The current rewards of a task, and the signals behind them by rater."""
    task_id = query.name_id("task", task)
    whole = Spread()
    groups: dict[str, dict[str, Spread]] = {"role": {}, "source": {}, "action": {}}
    width = (high - low) / BINS
    for role, source, body, action, status, bin_, count, rewards, total, square, least, most, clipped in database.query(
        "SELECT r.name, d.source, c.body, d.action, COALESCE(s.status, 0), "
        # a bin of the range [low, high]; the highest reward belongs to the last bin
        f"CASE WHEN s.reward IS NULL THEN NULL ELSE {database.whole('(s.reward - ?) / ?')} END AS bin, "
        "COUNT(*), COUNT(s.reward), SUM(s.reward), SUM(s.reward * s.reward), MIN(s.reward), MAX(s.reward), "
        "SUM(COALESCE(s.clipped, 0)) "
        "FROM decisions d JOIN names r ON r.id = d.role_id JOIN candidate_sets c ON c.id = d.candidate_set_id "
        f"LEFT JOIN settled s ON s.decision = d.seq AND {_LIVE} WHERE d.task_id = ? AND {LEADS} "
        "GROUP BY r.id, d.source, c.id, d.action, COALESCE(s.status, 0), bin",
        (low, width, task_id),
    ):
        keys = {"role": role or "none", "source": SOURCES[source], "action": decode_candidates(body)[action].name}
        if SOURCES[source] == "mined":  # weak labels count only in the group of their source
            del keys["role"], keys["action"]
        spreads = [groups[kind].setdefault(name, Spread()) for kind, name in keys.items()]
        for spread in (*spreads, *([] if SOURCES[source] == "mined" else [whole])):
            spread.decisions += count
            name = STATUSES[status]
            setattr(spread, name, getattr(spread, name) + count)
            spread.clipped += int(clipped)
            if rewards:
                spread.n += rewards
                spread.total += total
                spread.square += square
                spread.low, spread.high = min(spread.low, least), max(spread.high, most)
                spread.bins[min(BINS - 1, max(0, bin_))] += rewards
    return Distribution(
        whole=whole,
        groups={kind: dict(sorted(spreads.items())) for kind, spreads in groups.items()},
        raters=_raters(database, task_id),
        edges=tuple(low + width * place for place in range(BINS + 1)),
    )


def _raters(database: Database, task_id: int) -> dict[tuple[str, str], Spread]:
    """Live signals on decisions of the task, by who gave them."""
    spreads: dict[tuple[str, str], Spread] = {}
    for rater, name, count, total, square, least, most in database.query(
        "SELECT r.name, n.name, COUNT(*), SUM(g.value), SUM(g.value * g.value), MIN(g.value), MAX(g.value) "
        "FROM signals g JOIN decisions d ON d.id = g.subject JOIN names n ON n.id = g.name_id "
        "JOIN names r ON r.id = g.rater_id WHERE d.task_id = ? AND g.withdrawn_by IS NULL AND g.value IS NOT NULL "
        "GROUP BY r.id, n.id ORDER BY r.name, n.name",
        (task_id,),
    ):
        spreads[rater or "unnamed", name] = Spread(n=count, total=total, square=square, low=least, high=most)
    return spreads
