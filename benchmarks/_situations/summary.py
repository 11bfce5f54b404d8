"""From the endings of replications to shares, figures and one table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median

from _situations.catalogue import SITUATIONS, Control, Situation
from _situations.trial import Ending

__all__ = ["Shares", "figures", "shares", "table"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """How the replications of one trial ended."""

    replications: int
    wrong: float  # promoted, and truly not better
    wrongly_worse: float  # called worse, and truly not worse
    right: float  # promoted, and truly better
    worse: float
    refused: float
    waits: float
    reason: str  # the most frequent one of those that were not promoted
    said: str  # in full, once
    decisions: float  # the median at the end
    notes: Mapping[str, float]  # means


def shares(endings: Sequence[Ending]) -> Shares:
    """The shares of a trial's endings."""
    count = len(endings)
    undecided = [ending for ending in endings if not ending.promoted]
    reasons = Counter(ending.reason for ending in undecided)
    reason = reasons.most_common(1)[0][0] if reasons else ""

    names = sorted({name for ending in endings for name in ending.notes})

    def share(kept: Iterable[bool]) -> float:
        return sum(kept) / count

    return Shares(
        replications=count,
        wrong=share(ending.wrong for ending in endings),
        wrongly_worse=share(ending.wrongly_worse for ending in endings),
        right=share(ending.right for ending in endings),
        worse=share(ending.worse for ending in endings),
        refused=share(ending.state in ("refused", "error") and not ending.promoted for ending in endings),
        waits=share(ending.state in ("wait", "none") and not ending.promoted for ending in endings),
        reason=reason,
        said=next((ending.said for ending in undecided if ending.reason == reason), ""),
        decisions=float(median(ending.decisions for ending in endings)),
        notes={name: mean([ending.notes[name] for ending in endings if name in ending.notes]) for name in names},
    )


Results = Mapping[str, Sequence[Shares]]  # by situation: the trial, then its controls


def figures(results: Results) -> dict[str, float]:
    """Flat numbers for the benchmark's JSON."""
    flat: dict[str, float] = {}
    for name, (trial, *controls) in results.items():
        flat[f"{name}_false_promotions"] = trial.wrong
        flat[f"{name}_false_worse"] = trial.wrongly_worse
        flat[f"{name}_refused"] = trial.refused
        flat[f"{name}_waits"] = trial.waits
        flat[f"{name}_replications"] = float(trial.replications)
        flat |= {f"{name}_{note}": value for note, value in trial.notes.items()}
        for place, control in enumerate(controls, start=1):
            flat[f"{name}_control{place}_promoted"] = control.right
            flat[f"{name}_control{place}_decisions"] = control.decisions
    if results:
        flat["situations_false_promotions"] = max(trial.wrong for trial, *_ in results.values())
        flat["situations_false_worse"] = max(trial.wrongly_worse for trial, *_ in results.values())
    return flat


def table(results: Results) -> str:
    """One Markdown table; every row is a situation."""
    lines = [
        "| situation | runs | false promotions | false worse | refused | waits | usual reason | better, with cure |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for situation in SITUATIONS:
        if situation.name in results:
            trial, *controls = results[situation.name]
            lines.append(_row(situation, trial, controls))
    return "\n".join(lines)


def _row(situation: Situation, trial: Shares, controls: Sequence[Shares]) -> str:
    shown = "; ".join(_cured(*each) for each in zip(situation.controls, controls, strict=False))
    cells = (
        situation.about,
        f"{trial.replications}",
        f"{trial.wrong:.3f}",
        f"{trial.wrongly_worse:.3f}",
        f"{trial.refused:.2f}",
        f"{trial.waits:.2f}",
        trial.reason.replace("|", "/"),
        shown,
    )
    return f"| {' | '.join(cells)} |"


def _cured(control: Control, result: Shares) -> str:
    """What a control came to: the better ones that are promoted, of how many, and after how many decisions."""
    count = result.replications
    wrong = f", {result.wrong * count:.0f} false" if result.wrong else ""
    return f"{control.about}: {result.right * count:.0f} of {count}{wrong} ({result.decisions:,.0f})"
