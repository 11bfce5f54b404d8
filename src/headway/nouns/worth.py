"""What the current policy of a task is worth, in money and quality: the first sentence of every door."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, log10
from typing import Literal

WorthState = Literal["known", "too early", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A number with its 95% interval."""

    value: float
    low: float
    high: float

    def times(self, factor: float) -> Measure:
        return Measure(value=self.value * factor, low=self.low * factor, high=self.high * factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskWorth:
    """What a task saves per 1,000 requests, and how much quality it keeps, against always taking one action.

    Quality is the reward without its cost terms. `saved` is negative if the task costs more. `ratio` is None where the
    quality of `against` is not clearly above 0; `gap` is then the difference. `cost` is the signal that counts the
    money, `cost_known` the share of decisions that have it.
    """

    state: WorthState
    text: str
    policy: str
    promoted: bool  # by the gate or a person; False: the built-in baseline decides
    against: str = ""  # an action, or the policy before
    unit: str = ""  # "$"; empty: the unit of the cost signal
    cost: str = ""
    saved: Measure | None = None  # per 1,000 requests
    ratio: Measure | None = None  # of quality: 0.98
    gap: Measure | None = None  # of quality: -0.02 per request
    decisions: int = 0  # that the numbers rest on
    cost_known: float = 0.0
    since: str | None = None  # of the promotion
    requests: int = 0  # since then
    saved_since: float | None = None  # about, at the same rate
    weight: str = ""  # what the reward says a unit of quality is worth


def worth_text(worth: TaskWorth, task: str, *, same: bool = False, quality: str = "quality") -> str:
    """The sentence: "route saves $3.10 [$2.90, $3.30] per 1,000 requests at 98% [96%, 100%] of the quality of large."

    `same`: the policy takes the action in every request. `quality`: what is compared, if the cost cannot be removed.
    """
    if same:
        return f"{task} always takes {worth.against}: it saves nothing and loses nothing."
    money, kept = _money(worth), _kept(worth, quality)
    if worth.saved is None:
        return f"{task} has {kept.removeprefix('at ')}."
    end = "" if not kept else f" {kept}" if kept.startswith("at ") else f", with {kept}"
    against = f" against always {worth.against}" if not kept else ""
    return f"{task} {money}{against}{end}."


def _money(worth: TaskWorth) -> str:
    saved = worth.saved
    if saved is None:
        return ""

    def span(value: float, low: float, high: float) -> str:
        value_text, low_text, high_text = (money(number, worth.unit) for number in (value, low, high))
        return f"{value_text} [{low_text}, {high_text}]{_of(worth)}"

    if saved.low <= 0.0 <= saved.high:
        return f"saves nothing that can be shown ({span(saved.value, saved.low, saved.high)} per 1,000 requests)"
    if saved.value > 0.0:
        return f"saves {span(saved.value, saved.low, saved.high)} per 1,000 requests"
    return f"costs {span(-saved.value, -saved.high, -saved.low)} more per 1,000 requests"


def _of(worth: TaskWorth) -> str:
    return "" if worth.unit else f" of {worth.cost}"


def _kept(worth: TaskWorth, quality: str) -> str:
    if worth.ratio is not None:
        ratio = worth.ratio
        return f"at {ratio.value:.0%} [{ratio.low:.0%}, {ratio.high:.0%}] of the {quality} of {worth.against}"
    if worth.gap is not None:
        gap = worth.gap
        more = "more" if gap.value >= 0.0 else "less"
        low, high = sorted((abs(gap.low), abs(gap.high))) if gap.low * gap.high > 0 else (gap.low, gap.high)
        return f"{abs(gap.value):.3f} [{low:.3f}, {high:.3f}] {more} {quality} per request than {worth.against}"
    return ""


def money(amount: float, unit: str = "$") -> str:
    """$3.10, -$0.40, $0.00022: small amounts keep two digits that say something."""
    size = abs(amount)
    if size >= 1000.0:
        text = f"{size:,.0f}"
    elif size >= 0.1 or size == 0.0:
        text = f"{size:.2f}"
    else:
        whole, _, decimals = f"{size:.{min(12, 1 - floor(log10(size)))}f}".partition(".")
        text = f"{whole}.{decimals[:2]}{decimals[2:].rstrip('0')}"
    minus = amount < 0.0 and any(digit in text for digit in "123456789")
    return f"{'-' if minus else ''}{unit}{text}"
