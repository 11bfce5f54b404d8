"""How reward analyses, questions to raters and rescored rewards are printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from headway.cli.format import number, percent
from headway.cli.output import Output
from headway.cli.show import Column, RecordTable, renders, text, value

if TYPE_CHECKING:
    from headway.observe.distribution import Distribution, Spread
    from headway.reward.agree import Question
    from headway.reward.raters import Agreed


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
    return value(name, lambda row: _moments(row[2])[name])


_MOMENTS = tuple(_moment(name) for name in ("mean", "std", "least", "most"))
_GROUPS = RecordTable[tuple[str, str, "Spread"]](
    text("by", lambda row: row[0]),
    text("", lambda row: row[1]),
    value("decisions", lambda row: row[2].decisions),
    value("missing", lambda row: percent(row[2].missing_share, 1)),
    value("failed", lambda row: percent(row[2].failed_share, 1)),
    *_MOMENTS,
)
_RATINGS = RecordTable[tuple[str, str, "Spread"]](
    text("rater", lambda row: row[0]),
    text("signal", lambda row: row[1]),
    value("n", lambda row: row[2].n),
    *_MOMENTS,
)
_RATERS = RecordTable[tuple[str, Any]](  # the name and the estimate of one rater
    text("rater", lambda row: row[0] or "unnamed"),
    value("ratings", lambda row: row[1].ratings),
    value("bias", lambda row: f"{row[1].bias:+.2f} ± {row[1].bias_std:.2f}"),
    value("noise", lambda row: row[1].noise, 2),
    value("scale", lambda row: f"{row[1].scale:.2f} ± {row[1].scale_std:.2f}"),
    value("reversed", lambda row: percent(row[1].reversed)),
)


@renders(RewardAnalysis)
def _analysis(out: Output, analysis: RewardAnalysis) -> None:
    rewards, whole = analysis.rewards, analysis.rewards.whole
    low, high = analysis.clipped_to
    out.line(
        f"{number(whole.decisions)} decisions of {analysis.task!r}: {percent(whole.missing_share, 1)} without an "
        f"outcome, {percent(whole.failed_share, 1)} failed, {number(whole.clipped)} rewards clipped to "
        f"[{low:g}, {high:g}]."
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
    text("decision", lambda question: question.decision.id),
    text("action", lambda question: question.decision.action),
    value("ratings", lambda question: question.ratings),
    value("std", lambda question: question.std, 2),
    value("then", lambda question: question.after, 2),
    text("ask", lambda question: question.whom or "anybody"),
    text("why", lambda question: question.why),
    text("text", lambda question: question.decision.situation.text[:40]),
)


@renders(QuestionList)
def _questions(out: Output, asked: QuestionList) -> None:
    if not asked.questions:
        out.line("Nothing was decided yet.")
    _QUESTIONS.print(out, asked.questions)


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
