"""Compute a reward from signals: weights, transforms, a sum or product, the range, and failed or missing signals.

    rewards = Rewards.from_settings(reward={"solved": 1.0, "cost_usd": -20.0})
    rewards.outcome({"solved": 1.0, "cost_usd": 0.004}, age_s=2.0)   # Outcome(status="rewarded", reward=0.92)
    rewards.outcome({"solved": 1.0}, age_s=2.0)                      # pending: cost_usd is missing
    rewards.outcome({"solved": 1.0}, age_s=90000.0)                  # censored: it never arrived

Additive: the sum of weight · t(value). Multiplicative: the product of (1 - weight + weight · t(value)), so that a
signal of 1 or a weight of 0 changes nothing, and a weight of 1 counts in full. An optional signal that is missing
contributes 0 to the sum, 1 to the product.
A safety flag settles a decision at once, at the low end of the range: later signals cannot raise it.
Several raters are combined into one number per signal: their mean, or the consensus of `raters` with `consensus`.
Not covered: rewards per token of a reply.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any, Final, Literal

from headway.nouns import Decision, Outcome, errors
from headway.reward import function as functions
from headway.reward.signals import FAILED, RESERVED, SAFETY_FLAG, Term, apply, check, term

Combine = Literal["additive", "multiplicative"]
COMBINES: tuple[Combine, ...] = ("additive", "multiplicative")
Worth = float | Literal["exclude"]

CONSENSUS: Final = "raters-1"  # the model behind `consensus`; part of the reward version
_PENDING: Final = Outcome(status="pending", reward=None)


def default_required(reward: Mapping[str, object] | str) -> tuple[str, ...]:
    """The default of `required`: all signals of a table; for a function none, so that any signal settles."""
    return () if isinstance(reward, str) else tuple(reward)


class Rewards:
    """One version of a task's reward. Immutable; equal definitions have equal versions everywhere."""

    __slots__ = (
        "_additive", "_censored", "_failed", "_flagged", "_function", "_high", "_low", "_others", "_required",
        "_reward_after_s", "_signals", "_steps", "_terms", "consensus", "version",
    )  # fmt: skip

    version: str
    consensus: bool  # combine several raters by consensus

    def __init__(
        self,
        *,
        terms: Mapping[str, Term],
        function: Callable[[Decision | None, Mapping[str, float]], float] | None,
        signals: Iterable[str],
        combine: Combine,
        required: Sequence[str],
        range: tuple[float, float],
        on_failure: Worth,
        on_censored: Worth,
        reward_after_s: float,
        version: str,
        consensus: bool = False,
    ) -> None:
        self.consensus = consensus
        self._low, self._high = range
        self._terms = dict(terms)
        self._function = function
        self._signals = frozenset(signals)
        self._additive = combine == "additive"
        self._required = tuple(required)
        self._others = tuple(name for name in self._required if name not in self._terms)  # required, not counted
        self._reward_after_s = reward_after_s
        self._failed = Outcome(status="failed", reward=None if on_failure == "exclude" else on_failure)
        self._censored = Outcome(status="censored", reward=None if on_censored == "exclude" else on_censored)
        self._flagged = Outcome(status="rewarded", reward=self._low)
        self.version = version
        # For the inner loop: name, weight, the term unless it only has a weight, whether it is required.
        self._steps = tuple(
            (name, one.weight, None if _plain(one) else one, name in self._required)
            for name, one in self._terms.items()
        )

    @classmethod
    def from_settings(
        cls,
        *,
        reward: Mapping[str, object] | str,
        combine: str = "additive",
        required: Sequence[str] | None = None,
        range: tuple[float, float] = (-1.0, 1.0),
        on_failure: float | str | None = None,
        on_censored: float | str = "exclude",
        reward_after_s: float = 86400.0,
        consensus: bool = False,
        directory: Path | None = None,
    ) -> Rewards:
        """Rewards from plain values.

        reward={"solved": 1.0, "rating": "stars"}     # a table: weights, transforms, Terms
        reward="my_package:score"                     # a Python function, found in `directory` or on sys.path
        reward="reward_v1"                            # one of the presets
        """
        low, high = _range(range)
        failed = low if on_failure is None else _worth("on_failure", on_failure, low, high)
        censored = _worth("on_censored", on_censored, low, high)
        after_s = _seconds(reward_after_s)
        terms = {} if isinstance(reward, str) else _terms(reward, combine)
        call, named, signals = _named(reward, directory) if isinstance(reward, str) else (None, None, tuple(terms))
        needs = default_required(reward) if required is None else tuple(required)
        definition = {
            "terms": {name: [one.weight, one.transform, one.low, one.high] for name, one in terms.items()},
            "function": named,
            "combine": combine,
            "required": sorted(needs),
            "range": [low, high],
            "on_failure": failed,
            "on_censored": censored,
            "reward_after_s": after_s,
            **({"consensus": CONSENSUS} if consensus else {}),
        }
        return cls(
            terms=terms,
            function=call,
            signals=signals,
            combine=_combination(combine),
            required=needs,
            range=(low, high),
            on_failure=failed,
            on_censored=censored,
            reward_after_s=after_s,
            version=_version(definition),
            consensus=consensus,
        )

    @property
    def required(self) -> tuple[str, ...]:
        """The signals that must arrive before a decision settles; empty: any signal that counts."""
        return self._required

    @property
    def signals(self) -> frozenset[str]:
        """The signals that count; empty if a function decides."""
        return self._signals

    @property
    def counting(self) -> frozenset[str]:
        """Every signal that an outcome can depend on; empty if a function decides."""
        return self._signals | {*self._required, FAILED, SAFETY_FLAG} if self._signals else frozenset()

    @property
    def range(self) -> tuple[float, float]:
        return self._low, self._high

    @property
    def additive(self) -> bool:
        """Whether signals are added, not multiplied."""
        return self._additive

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each signal of a table; empty for a function."""
        return {name: one.weight for name, one in self._terms.items()}

    def without(self, names: Collection[str]) -> Rewards:
        """The same rewards without some of their signals; a preset does not see them."""
        fewer = copy(self)
        fewer._terms = {name: one for name, one in self._terms.items() if name not in names}
        fewer._steps = tuple(step for step in self._steps if step[0] not in names)
        fewer._required = tuple(name for name in self._required if name not in names)
        fewer._others = tuple(name for name in self._others if name not in names)
        fewer._signals = self._signals - set(names)
        if (call := self._function) is not None:
            fewer._function = lambda decision, signals: call(
                decision, {name: value for name, value in signals.items() if name not in names}
            )
        return fewer

    def unclipped(self) -> Rewards:
        """The same rewards without the range: what a clipped reward would have been."""
        free = copy(self)
        free._low, free._high = -math.inf, math.inf
        return free

    def worth(self, name: str) -> float:
        """The change of the reward per unit of this signal; 1 for a function or a product."""
        known = self._terms.get(name)
        if known is None or not self._additive:
            return 1.0
        return abs(known.weight) * (0.5 if known.transform == "stars" else 1.0)

    def rated(self, name: str) -> bool:
        """Whether people give this signal, as stars or thumbs."""
        known = self._terms.get(name)
        return known is not None and known.transform in ("stars", "thumbs")

    def check(self, name: str, value: float) -> float:
        """The value of a signal as a float, or InvalidInput. Call it before anything is stored."""
        return check(name, value, self._terms.get(name))

    def outcome(self, signals: Mapping[str, float], *, age_s: float, decision: Decision | None = None) -> Outcome:
        """The outcome of a decision with these live signals, `age_s` seconds after it was made."""
        if FAILED in signals and signals[FAILED] > 0.0:
            return self._failed
        if SAFETY_FLAG in signals and signals[SAFETY_FLAG] > 0.0:
            return self._flagged
        for name in self._others:
            if name not in signals:
                return self._missing(age_s)
        if self._function is not None:
            if not signals or (self._signals and self._signals.isdisjoint(signals)):
                return self._missing(age_s)
            total = self._function(decision, signals)
        else:
            additive = self._additive
            total = 0.0 if additive else 1.0
            silent = True
            for name, weight, step, needed in self._steps:
                if name in signals:
                    silent = False
                    value = signals[name] if step is None else apply(step, signals[name])
                    if additive:
                        total += weight * value
                    else:
                        total *= 1.0 - weight + weight * value
                elif needed:
                    return self._missing(age_s)
            if silent:
                return self._missing(age_s)
        if self._low <= total <= self._high:
            return Outcome(status="rewarded", reward=total)
        return self._clip(total, decision)

    def _missing(self, age_s: float) -> Outcome:
        return self._censored if age_s >= self._reward_after_s else _PENDING

    def _clip(self, total: float, decision: Decision | None) -> Outcome:
        if not math.isfinite(total):
            about = "" if decision is None else f" of decision {decision.id!r}"
            raise errors.InvalidInput(
                f"The reward{about} is {total!r}, expected a finite number.",
                code="reward_not_finite",
                hint="Withdraw the extreme signal, or limit it with low and high in the reward table.",
            )
        return Outcome(status="rewarded", reward=self._low if total < self._low else self._high, clipped=True)

    def outcomes(self, rows: Iterable[tuple[Mapping[str, float], float, Decision | None]]) -> Iterator[Outcome]:
        """Outcomes of many (signals, age_s, decision), streamed in order."""
        outcome = self.outcome
        for signals, age_s, decision in rows:
            yield outcome(signals, age_s=age_s, decision=decision)

    def parts(self, signals: Mapping[str, float]) -> dict[str, float]:
        """The contribution of each signal, for explanations; empty for a function."""
        if self._additive:
            return {n: t.weight * apply(t, signals[n]) for n, t in self._terms.items() if n in signals}
        return {n: 1.0 - t.weight + t.weight * apply(t, signals[n]) for n, t in self._terms.items() if n in signals}


def _version(definition: Mapping[str, object]) -> str:
    text = json.dumps(definition, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _plain(one: Term) -> bool:
    return one.transform in ("identity", "thumbs") and one.low is None and one.high is None


def _terms(reward: Mapping[str, object], combine: str) -> dict[str, Term]:
    if not reward:
        raise _wrong("reward", {}, "at least one signal")
    terms: dict[str, Term] = {}
    for name in sorted(reward):  # sums do not depend on the order in a file
        if name in RESERVED:
            raise _wrong(f"reward.{name}", reward[name], f"no weight: {_WHY[name]}")
        try:
            terms[name] = term(reward[name])
        except ValueError as error:
            raise _wrong(f"reward.{name}", reward[name], str(error)) from None
        if combine == "multiplicative" and not 0.0 <= terms[name].weight <= 1.0:
            raise _wrong(f"reward.{name}", reward[name], "a weight from 0 to 1, because the rewards are multiplied")
    return terms


_WHY = {
    FAILED: "it marks a failed call, and on_failure says what that is worth",
    SAFETY_FLAG: "it is a gate, and a flagged decision is worth the low end of the range",
}


def _named(
    reward: str, directory: Path | None
) -> tuple[Callable[[Decision | None, Mapping[str, float]], float], dict[str, str], tuple[str, ...]]:
    if reward in PRESETS:
        return PRESETS[reward], {"preset": reward, "revision": "2"}, PRESET_SIGNALS[reward]
    if not functions.is_name(reward):
        expected = f'a table of signals, "module:function" or a preset. {errors.did_you_mean(reward, PRESETS)}'
        raise _wrong("reward", reward, expected)
    loaded = functions.load(reward, directory)
    return loaded, {"name": reward, "source": loaded.source_hash}, ()


def _range(bounds: tuple[float, float]) -> tuple[float, float]:
    low, high = float(bounds[0]), float(bounds[1])
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise _wrong("range", list(bounds), "two finite numbers, the lower one first")
    return low, high


def _combination(name: str) -> Combine:
    for combination in COMBINES:
        if name == combination:
            return combination
    raise _wrong("combine", name, f"one of {', '.join(COMBINES)}. {errors.did_you_mean(name, COMBINES)}")


def _seconds(value: float) -> float:
    if not math.isfinite(value) or value <= 0:
        raise _wrong("reward_after_s", value, "seconds above 0")
    return float(value)


def _worth(key: str, value: float | str, low: float, high: float) -> Worth:
    if value == "exclude":
        return "exclude"
    if isinstance(value, (str, bool)) or not low <= value <= high:
        raise _wrong(key, value, f'"exclude" or a number within the range [{low:g}, {high:g}]')
    return float(value)


def _wrong(key: str, value: Any, expected: str) -> errors.InvalidSettings:
    end = "" if expected[-1] in ".?" else "."
    return errors.InvalidSettings(f"{key} is {value!r}, expected {expected}{end}", code="settings_bad_value")


PRESET_RANGE = (-2.0, 2.0)
_FIRST = ("trajectory_reward", "verification_passed", "timeout", "retries", "terminal_failure")
PRESET_SIGNALS: Mapping[str, tuple[str, ...]] = {"reward_v1": _FIRST, "reward_v2": (*_FIRST, "cost_usd", "latency_s")}


def _sum(signals: Mapping[str, float]) -> float:
    total = signals.get("trajectory_reward", 0.0)
    passed = signals.get("verification_passed")
    if passed is not None:
        total += 0.25 if passed >= 0.5 else -0.15
    if signals.get("timeout", 0.0) > 0.0:
        total -= 1.0
    if signals.get("retries", 0.0) > 0.0:
        total -= 0.10
    if signals.get("terminal_failure", 0.0) > 0.0:
        total -= 0.2
    return total


def reward_v1(_: Decision | None, signals: Mapping[str, float]) -> float:
    """The composite reward, clipped to ±2.

    +0.25 if verified, -0.15 if that failed, -1 for a timeout, -0.1 for retries, -0.2 for a terminal failure; within ±2.
    A signal that is missing contributes nothing.
    """
    return min(2.0, max(-2.0, _sum(signals)))


def reward_v2(_: Decision | None, signals: Mapping[str, float]) -> float:
    """The composite reward minus the price of money and time, clipped to ±2."""
    priced = _sum(signals) - 20.0 * signals.get("cost_usd", 0.0) - 0.01 * signals.get("latency_s", 0.0)
    return min(2.0, max(-2.0, priced))


PRESETS: Mapping[str, Callable[[Decision | None, Mapping[str, float]], float]] = {
    "reward_v1": reward_v1,
    "reward_v2": reward_v2,
}
