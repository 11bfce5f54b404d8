"""Reward presets: `reward = "reward_v1"` in headway.toml.

`reward_v1`: trajectory_reward, +0.25 if verification_passed, -0.15 if it failed, -1.0 for a timeout, -0.10 if there
were retries (once, because the rows do not contain their number), -0.2 for a terminal failure; clipped to ±2. The
composite reward of SAGE routing rows, reproduced exactly.
`reward_v2`: the same, minus 20 per US dollar (`cost_usd`) and 0.01 per second (`latency_s`): one cent costs twice as
much as retries, ten seconds as much as retries.

A signal that is missing contributes nothing: an unverified run is neither +0.25 nor -0.15.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headway.nouns import Decision

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
    """The composite reward, clipped to ±2."""
    return min(2.0, max(-2.0, _sum(signals)))


def reward_v2(_: Decision | None, signals: Mapping[str, float]) -> float:
    """The composite reward minus the price of money and time, clipped to ±2."""
    priced = _sum(signals) - 20.0 * signals.get("cost_usd", 0.0) - 0.01 * signals.get("latency_s", 0.0)
    return min(2.0, max(-2.0, priced))


PRESETS: Mapping[str, Callable[[Decision | None, Mapping[str, float]], float]] = {
    "reward_v1": reward_v1,
    "reward_v2": reward_v2,
}
