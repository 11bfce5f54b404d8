"""Which signals of a reward count a cost, and what the weights say a unit of quality is worth.

A cost is known by its name: `cost_usd`, `price`, `tokens`, `latency_s`. In a reward it is a cost term if its weight is
negative. The reward without its cost terms is what we call quality.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from headway.nouns import money
from headway.reward.compose import Rewards

_MONEY = re.compile(r"(^|[_.-])(usd|dollars?|eur|euros?|cost|costs|price|spend)([_.-]|$)")
_OTHER = re.compile(r"(^|[_.-])(tokens?|latency|duration|seconds|elapsed|time)([_.-]|$)")
_UNITS = {"usd": "$", "dollar": "$", "dollars": "$", "eur": "€", "euro": "€", "euros": "€"}


def amount_text(name: str, amount: float) -> str:
    """An amount of a cost: $0.05 where the name says the currency, else the number alone."""
    unit = unit_of(name)
    return money(amount, unit) if unit else f"{amount:.6g}"


def is_money(name: str) -> bool:
    """Whether a signal counts money, by its name."""
    return _MONEY.search(name.lower()) is not None


def is_cost(name: str) -> bool:
    """Whether a signal counts money, tokens or time, by its name."""
    return is_money(name) or _OTHER.search(name.lower()) is not None


def unit_of(name: str) -> str:
    """The sign of the currency in a signal's name; empty if it names none."""
    return next((_UNITS[word] for word in re.split(r"[_.-]", name.lower()) if word in _UNITS), "")


class Costs(NamedTuple):
    """What counts the cost of a task."""

    signal: str  # counts its money; "" if none
    unit: str  # the sign of its currency; "" if its name has none
    terms: tuple[str, ...]  # of the reward

    @classmethod
    def of(cls, rewards: Rewards, sent: Iterable[str] = (), signal: str | None = None) -> Costs:
        """`sent`: the signals that were sent; `signal`: the one to use."""
        name = signal or cost_signal(rewards, sent)
        return cls(name, unit_of(name), cost_terms(rewards))


def cost_signal(rewards: Rewards, sent: Iterable[str]) -> str:
    """The signal that counts the money of a task: one with a weight first, then one that is only sent; "" if none."""
    weighted = [name for name in rewards.weights if is_money(name)]
    names = [name for name in sent if is_money(name)]
    ordered = sorted({*weighted, *names}, key=lambda name: (name not in weighted, not unit_of(name), name))
    return ordered[0] if ordered else ""


def cost_terms(rewards: Rewards) -> tuple[str, ...]:
    """The terms of a reward that make it smaller as a cost grows; for a preset, the costs that it reads."""
    if rewards.weights:
        return tuple(name for name, weight in rewards.weights.items() if weight < 0.0 and is_cost(name))
    return tuple(sorted(name for name in rewards.signals if is_cost(name)))


def weight_text(rewards: Rewards) -> str:
    """ "You value solved = 1 at $0.05": the weights of a sum; empty where there are not one quality and money."""
    weights = rewards.weights
    prices = [name for name, weight in weights.items() if weight < 0.0 and is_money(name)]
    goods = [name for name, weight in weights.items() if weight > 0.0 and not is_cost(name)]
    if len(prices) != 1 or not goods or not rewards.additive:
        return ""
    price = prices[0]
    unit = unit_of(price)
    words = [f"{name} = 1 at {money(weights[name] / -weights[price], unit)}" for name in goods]
    return "You value " + ", ".join(words) + ("" if unit else f" of {price}")
