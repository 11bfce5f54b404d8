"""Checks of a log before any estimate: below a floor the verdict is refused, with the reason and the cure.

`Checks` collects sums while a log streams by; `diagnose` turns them into Diagnostics. A failed diagnostic that blocks
stops the gate, whatever the estimates are.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray

from headway.nouns import SAME_CHOICES, Diagnostic, plural
from headway.prove.log import Floats, Log
from headway.prove.origin import OriginChecks
from headway.prove.tally import Groups, MetricTally, ScoreTally

MOST_WIDTH = 0.03  # of the reward range: the most that unknown outcomes may move a difference that has not passed


@dataclass(frozen=True, slots=True, kw_only=True)
class Floors:
    """The minimum quality of a log. The gate's rules use the same names."""

    rows: int = 200
    speaking: int = 30  # rows whose action the candidate prefers and the current policy does not
    row_share: float = 0.10  # the most that one row may contribute to Σ|score|
    ess: float = 10.0
    weight_share: float = 0.20  # the most that one row may contribute to the total importance weight
    unlogged: float = 0.001  # share of rows in which the policies differ on an action with logged probability 0
    leak: float = 0.999  # correlation of a feature with the reward
    drift: float = 1.0  # standard deviations between the training and the evaluation mean of a feature


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Feature moments of the training rows, to compare with the evaluation rows."""

    n: int
    mean: Floats  # [d]
    std: Floats  # [d]


class Checks:
    """Running sums for the diagnostics of one log."""

    def __init__(self, arms: int, width: int) -> None:
        self.rows = 0
        self.weight = np.zeros((2, 3))  # candidate and current: Σw, Σw², max w
        self.unlogged = 0
        self.origin = OriginChecks(arms, width)
        self.missing = MetricTally(arms)  # settled without a reward
        self.moments = np.zeros((4, width))  # Σx, Σx², Σxr over rows with a reward; Σx over all rows
        self.squares = np.zeros(width)
        self.rewards = np.zeros(3)  # n, Σr, Σr²

    def add(
        self,
        piece: Log,
        inside: NDArray[np.bool_],
        target_weight: Floats,
        baseline_weight: Floats,
        difference: Floats,
    ) -> None:
        self.add_weights(target_weight, baseline_weight, inside)
        never = piece.logged <= 0.0
        if never.any():
            self.unlogged += int((np.abs(difference) * never > 1e-6).any(axis=1).sum())
        self.origin.add(piece)
        if piece.width:
            x, reward = piece.features, piece.reward
            total, square = x.sum(axis=0), np.einsum("ij,ij->j", x, x)
            self.moments[3] += total
            self.squares += square
            seen = ~np.isnan(reward)
            if not seen.all():
                x, reward = x[seen], reward[seen]
                total, square = x.sum(axis=0), np.einsum("ij,ij->j", x, x)
            self.moments[0] += total
            self.moments[1] += square
            self.moments[2] += reward @ x
            self.rewards += (reward.size, float(reward.sum()), float(reward @ reward))

    def add_weights(self, target: Floats, baseline: Floats, inside: NDArray[np.bool_]) -> None:
        """Add π(A)/μ(A) of candidate and current: all that a foreign log has."""
        self.rows += target.size
        whole = bool(inside.all())
        for row, weight in ((0, target), (1, baseline)):
            used = weight if whole else weight[inside]
            sums = self.weight[row]
            sums[0] += used.sum()
            sums[1] += used @ used
            sums[2] = max(sums[2], used.max(initial=0.0))

    def ess(self, policy: int) -> float:
        """Kish's effective sample size of the importance weights: (Σw)² / Σw²."""
        total, square, _ = self.weight[policy]
        return float(total**2 / square) if square > 0.0 else 0.0

    def weight_share(self) -> float:
        shares = [row[2] / row[0] if row[0] > 0.0 else 1.0 for row in self.weight]
        return float(max(shares))

    def leak(self) -> tuple[float, int]:
        """The largest |correlation| of a feature with the reward, and its column."""
        n, total, square = self.rewards
        if n < 50 or self.moments.shape[1] == 0:
            return 0.0, 0
        spread_x = self.moments[1] - self.moments[0] ** 2 / n
        spread_r = square - total**2 / n
        both = self.moments[2] - self.moments[0] * total / n
        scale = spread_x * spread_r
        live = (spread_x > 1e-9 * (1.0 + self.moments[1])) & (spread_r > 1e-12 * (1.0 + square))
        corr = np.where(live, np.abs(both) / np.sqrt(np.where(live, scale, 1.0)), 0.0)
        return float(corr.max()), int(corr.argmax())

    def drift(self, training: Window) -> tuple[float, int]:
        """The largest shift of a feature's mean since training, in standard deviations, less what chance explains."""
        mean = self.moments[3] / max(self.rows, 1)
        variance = np.maximum(self.squares / max(self.rows, 1) - mean**2, 0.0)
        spread = np.sqrt((training.std**2 + variance) / 2.0)
        live = spread > 1e-9
        shift = np.where(live, np.abs(mean - training.mean) / np.where(live, spread, 1.0), 0.0)
        noise = 5.0 * sqrt(1.0 / max(self.rows, 1) + 1.0 / max(training.n, 1))
        column = int(shift.argmax()) if shift.size else 0
        return (max(0.0, float(shift[column]) - noise) if shift.size else 0.0), column

    def overlap(self, tally: ScoreTally, floors: Floors) -> list[Diagnostic]:
        """Whether the log has enough overlap with the two policies."""
        n = tally.n
        ess = min(self.ess(0), self.ess(1))
        share = self.weight_share()
        return [
            Diagnostic.at_least(
                "rows", n, floors.rows, f"{plural(n, 'scored decision')}", "Collect more decisions with outcomes."
            ),
            _speaking(tally, floors),
            Diagnostic.at_most(
                "row_share",
                tally.largest_share,
                floors.row_share,
                f"the largest single decision makes up {_percent(tally.largest_share)} of the score",
                "Collect more decisions, or explore more, so that rare actions get smaller weights.",
            ),
            Diagnostic.at_least(
                "ess",
                ess,
                floors.ess,
                f"effective sample size {ess:,.0f}",
                "The logged policy rarely acts like the policies compared: use a canary, or explore more.",
            ),
            Diagnostic.at_most(
                "weight_share",
                share,
                floors.weight_share,
                f"the largest single weight is {_percent(share)} of the total importance weight",
                "Explore more: the smallest probability causes the largest weight.",
            ),
        ]

    def unlogged_actions(self, floors: Floors) -> Diagnostic:
        """Whether the policies differ only on actions that were possible."""
        return Diagnostic.at_most(
            "unlogged_actions",
            self.unlogged / max(self.rows, 1),
            floors.unlogged,
            f"in {self.unlogged:,} of {plural(self.rows, 'decision')} the policies differ on an impossible action",
            "Log with a floor on every candidate's probability (the default floor is 2%).",
        )

    def missing_depends_on_action(self, *, excluded: bool) -> Diagnostic:
        """Compares the share of rows without a reward; an interval that excludes 0 makes the log unusable."""
        estimate = self.missing.scores.estimate("dr")
        differs = excluded and self.missing.scores.n > 0 and (estimate.low > 0.0 or estimate.high < 0.0)
        interval = f"{estimate.value:+.1%} [{estimate.low:+.1%}, {estimate.high:+.1%}]"
        return Diagnostic(
            name="missing_depends_on_action",
            value=estimate.value,
            limit=0.0,
            ok=not differs,
            blocks=True,
            message=f"outcomes are missing {interval} more often under the candidate"
            if excluded
            else "no settled decision lacks an outcome",
            cure="Give failures a reward: set on_failure and on_censored to a number instead of 'exclude'."
            if differs
            else "",
        )


def diagnose(
    checks: Checks,
    tally: ScoreTally,
    keys: Groups,
    *,
    arms: tuple[str, ...],
    training: Window | None = None,
    excluded: bool = False,
    margin: float = 0.0,
    capped: bool = False,
) -> tuple[Diagnostic, ...]:
    """Every check of a log. `excluded`: failed and unrated rows have no reward; `capped`: cut ones count."""
    floors = Floors()
    diagnostics = [
        *checks.overlap(tally, floors),
        checks.unlogged_actions(floors),
        *checks.origin.diagnostics(arms, capped=capped),
    ]
    diagnostics += _features(checks, floors, training)
    diagnostics.append(checks.missing_depends_on_action(excluded=excluded))
    if len(keys.means) > 1:
        diagnostics.append(_one_client(keys, margin))
    return tuple(diagnostics)


def _speaking(tally: ScoreTally, floors: Floors) -> Diagnostic:
    """Whether the log shows what the candidate would do differently; there is nothing to show if it does not differ."""
    if tally.n and not tally.differing:
        return Diagnostic(
            name=SAME_CHOICES,
            value=0.0,
            limit=1.0,
            ok=False,
            blocks=True,
            message=f"both policies make the same choices on all {plural(tally.n, 'decision')}",
            cure="Keep the current policy: there is nothing to gain.",
        )
    return Diagnostic.at_least(
        "speaking_rows",
        tally.speaking,
        floors.speaking,
        f"{plural(tally.speaking, 'decision')} with what the candidate prefers and the current policy does not",
        "Explore more, so that what the candidate prefers is tried, or give it canary traffic.",
    )


def _features(checks: Checks, floors: Floors, training: Window | None) -> list[Diagnostic]:
    """Whether a feature gives the outcome away, or the traffic differs from the training rows."""
    diagnostics = []
    if checks.moments.shape[1]:
        corr, column = checks.leak()
        diagnostics.append(
            Diagnostic.at_most(
                "leak",
                corr,
                floors.leak,
                f"the strongest feature ({_feature(checks, column)}) correlates {corr:.3f} with the reward",
                "A feature that equals the outcome was not known at decision time: drop it.",
            )
        )
    if training is not None and training.mean.size == checks.moments.shape[1]:
        shift, column = checks.drift(training)
        diagnostics.append(
            Diagnostic.at_most(
                "drift",
                shift,
                floors.drift,
                f"{_feature(checks, column)} moved by {shift:.2f} standard deviations since training",
                "Train again on recent decisions.",
            )
        )
    return diagnostics


def _feature(checks: Checks, column: int) -> str:
    """A feature by its name where the log has names."""
    names = checks.origin.columns
    if column >= len(names):
        return f"feature {column + 1} of the log"
    return "the wording of the text" if names[column].startswith("text[") else repr(names[column])


def _one_client(keys: Groups, margin: float) -> Diagnostic:
    key = one_client_decides(keys, margin)
    return Diagnostic(
        name="one_client",
        value=1.0 if key else 0.0,
        limit=0.0,
        ok=not key,
        blocks=True,
        message=f"without the decisions requested by {key!r}, the difference changes its sign"
        if key
        else f"none of {len(keys.means)} requesting keys changes the sign on its own",
        cure="Inspect the requests of this key; collect more decisions from others." if key else "",
    )


def one_client_decides(keys: Groups, margin: float = 0.0) -> str:
    """The key with less than half of the requests without which the difference changes its sign, or an empty string.

    Who *rated* them is a separate check of the gate: see `headway.prove.raters`.
    """
    n = sum(mean.n for mean in keys.means.values())
    total = sum(mean.total for mean in keys.means.values()) - margin * n
    worst, name = inf, ""
    for key, group in keys.means.items():
        if 2 * group.n >= n or n == 0:
            continue
        rest = total - (group.total - margin * group.n)
        if rest * total <= 0.0 and abs(total) > 0.0 and -abs(rest) < worst:
            worst, name = -abs(rest), key
    return name


def missing_width(
    *, n: int, unknown: int, moved: float, reward_width: float, passed: bool, deleted: int = 0
) -> Diagnostic:
    """How far unknown outcomes may move the difference; blocks where that decides the result.

    `moved` is the sum over the `unknown` rows of how far their scores may be off, `passed` whether the candidate passes
    with all of them at their worst value. `deleted` of the unknown rows are decisions that were deleted.
    """
    what, cures = [], []
    if unknown > deleted:
        what.append(f"{unknown - deleted:,} of {plural(n, 'outcome is', 'outcomes are')} open or missing")
        cures.append(
            "Send the missing outcomes, or wait until they are in. If a missing outcome has a known worth, set "
            'on_censored to it; if outcomes are missing at random, declare missing = "at random" in the '
            "task's settings."
        )
    if deleted:
        what.append(f"{deleted:,} of {plural(n, 'decision was', 'decisions were')} deleted")
        cures.append(
            "Collect more decisions, or register a test (`headway plan --register`): it counts deletions of its own "
            "days only. If decisions are deleted for reasons that have nothing to do with their outcomes, declare "
            'missing = "at random" in the task\'s settings.'
        )
    width = moved / n / reward_width if n else 0.0
    ok = passed or width <= MOST_WIDTH
    return Diagnostic(
        name="missing_width",
        value=width,
        limit=MOST_WIDTH,
        ok=ok,
        blocks=True,
        message=f"{' and '.join(what)} and count at their worst value, which moves the difference by up to "
        f"{width * reward_width:.3g}"
        if unknown
        else "no outcome counts at its worst value",
        cure="" if ok else " ".join(cures),
    )


def _percent(share: float) -> str:
    return "under 1%" if share < 0.01 else f"{share:.0%}"
