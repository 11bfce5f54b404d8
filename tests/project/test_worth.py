"""The money sentence of a task, through the public interface, in worlds that try to make it lie."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import pytest

import headway
from headway.project import Project
from headway.reward.compose import Rewards
from headway.reward.costs import cost_signal, cost_terms, weight_text

PRICES = {"small": 0.001, "large": 0.004}
Outcome = Callable[[str, random.Random], dict[str, float]]


def project(folder: Path, reward: str, *, rules: str = "") -> Project:
    folder.mkdir(exist_ok=True)
    (folder / "headway.toml").write_text(
        f'[tasks.route]\nactions = ["small", "large"]\nreward = {reward}\ngate = "off"\n{rules}\n'
        '[store]\ndurability = "process"\n',
        "utf-8",
    )
    return headway.open(folder, seed=7)


def traffic(opened: Project, n: int, outcome: Outcome, seed: int = 1) -> None:
    rng = random.Random(seed)
    for number in range(n):
        pick = opened.decide("route", f"question {number % 7}")
        opened.signal(pick.id, outcome(pick.action, rng))


def solved(action: str, rng: random.Random) -> dict[str, float]:
    return {"solved": float(rng.random() < (0.9 if action == "large" else 0.6)), "cost_usd": PRICES[action]}


def worth(opened: Project):  # type: ignore[no-untyped-def]
    opened.settle("route")
    return opened.status().tasks[0].worth


def test_quality_is_the_reward_without_its_cost(tmp_path: Path) -> None:
    with project(tmp_path, "{ solved = 1.0, cost_usd = -20.0 }") as opened:
        traffic(opened, 500, solved)
        known = worth(opened)
    assert known.state == "known"
    assert known.against == "large"
    assert not known.promoted
    assert 1.3 < known.saved.value < 1.7  # uniform: half of $3
    assert 0.75 < known.ratio.value < 0.92  # of 0.9: 0.75 without cost; with cost it would be 0.85
    assert known.ratio.low < 0.75 / 0.9 < known.ratio.high
    assert known.weight == "You value solved = 1 at $0.05"
    assert "Nothing is promoted yet: uniform@0 decides." in known.text


@pytest.mark.parametrize(
    ("reward", "outcome", "words"),
    [
        (
            "{ solved = 1.0 }",
            lambda a, r: {"solved": solved(a, r)["solved"]},
            "Savings unknown: send cost_usd with each outcome",
        ),
        ("{ cost_usd = -20.0 }", lambda a, r: {"cost_usd": PRICES[a]}, "no term but cost"),
        ("{ solved = 1.0 }", lambda a, r: solved(a, r) | {"cost_usd": 0.0}, "cost_usd is 0 on every decision"),
        (
            "{ solved = 1.0 }",
            lambda a, r: solved(a, r) if a == "large" else {"solved": 1.0},
            "cost_usd is missing on too many decisions that took small",
        ),
    ],
)
def test_what_is_unknown_is_said(tmp_path: Path, reward: str, outcome: Outcome, words: str) -> None:
    with project(tmp_path, reward) as opened:
        traffic(opened, 200, outcome)
        assert words in worth(opened).text


def test_an_upstream_elsewhere_without_a_price_is_unknown_and_one_of_your_own_is_free(tmp_path: Path) -> None:
    prices = {"": "", "\nprice_in = 0": "cost_usd is 0 on every decision"}
    for price, words in prices.items():
        upstreams = (
            '[upstreams.small]\nurl = "http://127.0.0.1:9/v1"\nmodel = "m"\n'
            f'[upstreams.large]\nurl = "https://models.example.com/v1"\nmodel = "m"{price}\n'
        )
        with project(tmp_path / f"{len(price)}", "{ solved = 1.0 }", rules=upstreams) as opened:
            known = {"small": True, "large": bool(price)}
            assert {name: one.priced for name, one in opened.settings.upstreams.items()} == known
            traffic(
                opened,
                200,
                lambda a, r, known=known: {  # type: ignore[misc]
                    "solved": solved(a, r)["solved"],
                    **({"cost_usd": 0.0} if known[a] else {"cost_unknown": 1.0}),
                },
            )
            cure = "large has no price; set price_in and price_out in [upstreams.large] (0: free)"
            assert f"Savings unknown: {words or cure}" in worth(opened).text


def silent(action: str, rng: random.Random) -> dict[str, float]:
    given = solved(action, rng)
    return {"cost_usd": given["cost_usd"]} if action == "small" and not given["solved"] else given


def test_failures_that_nobody_reports_make_the_quality_unknown_and_not_108_percent(tmp_path: Path) -> None:
    now = time.time()
    for settings, known in (("", False), ("on_censored = 0.0\n", True)):
        with project(tmp_path / str(known), "{ solved = 1.0, cost_usd = -1.0 }", rules=settings) as opened:
            traffic(opened, 600, silent)
            opened.clock = lambda: now + 200_000.0
            opened.settle("route")
            quality = worth(opened).ratio
            assert (quality is not None) == known
            if quality is not None:
                assert quality.low <= 0.75 / 0.9 <= quality.high
            else:
                assert "set on_censored" in worth(opened).text


def test_outcomes_that_are_corrected_later_do_not_raise_the_quality(tmp_path: Path) -> None:
    """Failures of `small` read 1 for an hour: the decisions of the last hour and a quarter do not count."""
    start, due, rng = time.time() - 200_000.0, deque[tuple[float, str]](), random.Random(3)
    with project(tmp_path, "{ solved = 1.0, cost_usd = -1.0 }") as opened:
        for minute in range(1500):
            now = start + 60.0 * minute
            opened.clock = lambda now=now: now
            pick = opened.decide("route", f"question {minute % 7}")
            given = solved(pick.action, rng)
            wrong = pick.action == "small" and not given["solved"]
            opened.signal(pick.id, given | ({"solved": 1.0} if wrong else {}))
            if wrong:
                due.append((now + 3600.0, pick.id))
            while due and due[0][0] <= now:
                opened.signal(due.popleft()[1], {"solved": 0.0})
        shown = worth(opened)
    assert 1400 <= shown.decisions <= 1440  # all but those of the last hour and a quarter


def test_costs_beyond_the_range_of_the_reward_count_in_full(tmp_path: Path) -> None:
    with project(tmp_path, "{ solved = 1.0, cost_usd = -1.0 }") as opened:
        traffic(opened, 400, lambda a, r: solved(a, r) | {"cost_usd": 1000.0 * PRICES[a] * r.uniform(0.9, 1.1)})
        known = worth(opened)
    assert known.saved.low <= 1500.0 <= known.saved.high


def test_too_early_says_how_many(tmp_path: Path) -> None:
    with project(tmp_path, "{ solved = 1.0, cost_usd = -20.0 }") as opened:
        assert worth(opened) is None
        traffic(opened, 40, solved)
        known = worth(opened)
    assert known.state == "too early"
    assert "Savings of route unknown: only 40 of the 100 outcomes needed" in known.text


def test_rules_that_always_take_one_action_save_nothing(tmp_path: Path) -> None:
    rules = 'fallback = "large"\nrules = [{ when = "text_length > 99", use = "large" }]\nfloor = 0.0\nexplore = "none"'
    with project(tmp_path, "{ solved = 1.0, cost_usd = -20.0 }", rules=rules) as opened:
        traffic(opened, 150, solved)
        text = worth(opened).text
    assert text.startswith("route always takes large: it saves nothing and loses nothing.")


def test_a_promoted_policy_counts_what_it_saved_since(tmp_path: Path) -> None:
    with project(tmp_path, "{ solved = 1.0, cost_usd = -200.0 }") as opened:
        traffic(opened, 700, solved)
        policy = opened.learn("route")
        opened.promote(policy)
        before = worth(opened)
        traffic(opened, 450, solved, seed=2)
        after = worth(opened)
    assert before.requests == 0
    assert before.promoted
    assert before.saved is not None
    assert after.requests == 450
    assert after.policy == policy
    assert after.saved_since == pytest.approx(after.saved.value / 1000 * 450)
    assert "450 requests, about $" in after.text


def test_cost_terms_are_known_by_name_and_sign() -> None:
    rewards = Rewards.from_settings(
        reward={"solved": 1.0, "cost_usd": -20.0, "latency_s": -0.1, "toxicity": -1.0, "tokens_saved": 0.1}
    )
    assert cost_terms(rewards) == ("cost_usd", "latency_s")
    assert cost_terms(Rewards.from_settings(reward="reward_v2")) == ("cost_usd", "latency_s")
    assert cost_signal(rewards, ["price"]) == "cost_usd"
    assert cost_signal(Rewards.from_settings(reward={"solved": 1.0}), ["price", "usd"]) == "usd"
    assert weight_text(Rewards.from_settings(reward={"solved": 1.0})) == ""
