"""Wrong propensities are found; right ones pass, whatever the policies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from headway.nouns.evidence import Diagnostic
from headway.prove.about import About
from headway.prove.calibration import Calibration, Repetition
from headway.prove.evidence import from_log
from headway.prove.log import DELETED, Floats, Log, RowOrigin

ABOUT = About(task="route", candidate="bandit@4f2a", against="rules@0")
ARMS, FEATURES, USERS = 5, 6, 200
CHECKS = ("calibration", "repetition")


def greedy_with(share: NDArray[np.float64], best: NDArray[np.int64]) -> NDArray[np.float64]:
    """[n, arm]; the best arm, and a share of exploration per row."""
    chances = np.repeat((share / ARMS)[:, None], ARMS, axis=1)
    chances[np.arange(best.size), best] += 1.0 - share
    return chances


def drawn(seed: int, n: int, how: str = "honest", share: float = 0.1) -> Log:
    """A log that claims exploration with probability `share`, and how its actions were really drawn."""
    rng = np.random.default_rng(seed)
    rows = np.arange(n)
    x, user = rng.normal(size=(n, FEATURES)), rng.integers(USERS, size=n)
    best = (x @ rng.normal(size=(FEATURES, ARMS))).argmax(axis=1)
    claimed = true = greedy_with(np.full(n, share), best)
    if how == "context":
        true = greedy_with(np.where(x[:, 0] > 0.0, 2.0 * share, 0.0), best)
    elif how == "greedy":
        true = greedy_with(np.zeros(n), best)
    elif how == "order":
        true = np.roll(claimed, 1, axis=1)
    elif how == "user":
        kept = np.where(rng.random(USERS) < share, rng.integers(ARMS, size=USERS), -1)[user]
        true = greedy_with(np.zeros(n), np.where(kept < 0, best, kept))
    elif how == "turns":
        claimed = np.full((n, ARMS), 1.0 / ARMS)
        true = greedy_with(np.zeros(n), rows % ARMS)
    action = (rng.random(n)[:, None] > true.cumsum(axis=1)).sum(axis=1).clip(0, ARMS - 1)
    return Log.of(
        reward=(rng.random(n) < 0.4 + 0.1 * (action == 1)).astype(float),
        action=action,
        logged=claimed,
        target=greedy_with(np.full(n, 0.02), np.ones(n, dtype=np.int64)),
        baseline=greedy_with(np.full(n, 0.02), best),
        features=x,
        origin=RowOrigin(groups={"user": user}, columns=tuple(f"x{column}" for column in range(FEATURES))),
    )


def failed(log: Log) -> list[Diagnostic]:
    checks = from_log([log], ABOUT, display=False).diagnostics
    assert {check.name for check in checks} >= set(CHECKS)
    return [check for check in checks if check.name in CHECKS and not check.ok]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("context", "where 'x0' is"),
        ("greedy", "from 0.01 to 0.03 was chosen 400 times less"),
        ("order", "was chosen"),
        ("user", "decisions of the same user"),
        ("turns", "decisions made close together"),
    ],
)
def test_actions_that_were_not_drawn_as_claimed_are_found_and_described(how: str, said: str) -> None:
    checks = failed(drawn(1, 5_000, how))
    assert any(said in check.message for check in checks), [check.message for check in checks]
    assert all(check.blocks for check in checks)


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_honest_logs_pass(share: float) -> None:
    """40 logs; at most 1 in 1,000 may fail by chance, so none of these does."""
    assert not [seed for seed in range(40) if failed(drawn(seed, 1_000, share=share))]


def alone(log: Log) -> Log:
    """The same log where only the chosen action's probability was recorded and the rest is spread evenly."""
    n = len(log)
    logged = np.repeat(((1.0 - log.propensity) / (ARMS - 1))[:, None], ARMS, axis=1)
    logged[np.arange(n), log.action] = log.propensity
    return Log.of(
        reward=log.reward,
        action=log.action,
        logged=logged,
        target=log.target,
        baseline=log.baseline,
        features=log.features,
        origin=RowOrigin(chosen_only=np.ones(n, dtype=np.bool_)),
    )


def checks_of(log: Log) -> dict[str, bool]:
    return {check.name: check.ok for check in from_log([log], ABOUT, display=False).diagnostics}


def test_a_log_with_the_probability_of_the_chosen_action_only_is_checked_by_its_weights() -> None:
    for seed in range(20):
        assert checks_of(alone(drawn(seed, 2_000)))["calibration"]
    assert not checks_of(alone(drawn(1, 5_000, "greedy")))["calibration"]


def test_the_result_does_not_depend_on_the_chunks() -> None:
    log = drawn(3, 3_000, "user")
    whole = from_log([log], ABOUT, display=False).diagnostics
    pieces = from_log(
        [log.rows(start, start + 700) for start in range(0, 3_000, 700)], ABOUT, display=False
    ).diagnostics
    for name in CHECKS:
        first, second = (next(check for check in checks if check.name == name) for checks in (whole, pieces))
        assert first.value == pytest.approx(second.value, rel=1e-9)
        assert first.message == second.message


def cut_rewards(beyond: Callable[[Log], Floats], **more: Any) -> dict[str, Diagnostic]:
    """The checks of a log whose rewards lay `beyond` its range by so much, by name."""
    log = drawn(4, 4_000, share=1.0)
    marked = replace(log, origin=RowOrigin(beyond=beyond(log), **more))
    return {check.name: check for check in from_log([marked], ABOUT, display=False).diagnostics}


def once(log: Log, *, candidate: bool, by: float) -> Floats:
    """One cut on a row whose action the candidate takes more often than the current policy, or less often."""
    gain = np.take_along_axis(log.target - log.baseline, log.action[:, None], axis=1)[:, 0]
    beyond = np.zeros(len(log))
    beyond[np.flatnonzero(gain > 0.0 if candidate else gain < 0.0)[0]] = by
    return beyond


def test_only_cuts_that_hurt_the_candidate_are_allowed_in_a_pass() -> None:
    assert cut_rewards(lambda log: np.zeros(len(log)))["clipping"].ok
    for candidate, by in ((True, 3.0), (False, -3.0)):
        assert cut_rewards(lambda log, c=candidate, b=by: once(log, candidate=c, by=b))["clipping"].ok
    for candidate, by in ((True, -99.0), (False, 99.0)):
        checks = cut_rewards(lambda log, c=candidate, b=by: once(log, candidate=c, by=b))
        assert not checks["clipping"].ok, "a single one"
        assert checks["clipping"].message.startswith("Cannot tell: 1 of ")
        assert checks["clipping_against"].ok


def test_many_cuts_against_the_candidate_show_nothing_worse() -> None:
    checks = cut_rewards(lambda log: np.where(once(log, candidate=True, by=1.0) >= 0.0, 1.0, 0.0))
    assert not checks["clipping_against"].ok


def test_a_cut_in_a_decision_that_is_no_row_counts_too() -> None:
    log = drawn(4, 4_000, share=1.0)
    preferred = log.arms[int((log.target - log.baseline).sum(axis=0).argmax())]
    elsewhere = cut_rewards(lambda log: np.zeros(len(log)), stored_cuts={preferred: (500.0, 1.0, 0.0, 9.0, 0.0)})
    assert not elsewhere["clipping"].ok
    assert cut_rewards(lambda log: np.zeros(len(log)), stored_cuts={preferred: (500.0, 0.0, 9.0, 0.0, 9.0)})[
        "clipping"
    ].ok


def _with_stand_ins(rng: np.random.Generator, n: int, chance: float, deleted: float) -> tuple[Calibration, Repetition]:
    """Draws of arm 1 with a probability of `chance`, logged as ½; of those, so many were deleted."""
    action = (rng.random(n) < chance).astype(np.int64)
    status = np.where((action == 1) & (rng.random(n) < deleted), DELETED, 0)
    half = np.full((n, 2), 0.5)
    chunk = Log.of(
        reward=np.where(status == DELETED, np.nan, 0.0), action=action, logged=half, target=half, status=status
    )
    calibration, repetition = Calibration(2, 0), Repetition()
    for start in range(0, n, 50):
        calibration.add(chunk.rows(start, start + 50))
        repetition.add(chunk.rows(start, start + 50))
    return calibration, repetition


def test_draws_of_which_one_action_was_deleted_are_not_called_wrong() -> None:
    for seed in range(5):
        for check in _with_stand_ins(np.random.default_rng(seed), 4000, 0.5, 0.3):
            found = check.worst(("a", "b")) if isinstance(check, Calibration) else check.worst()
            assert found is not None
            assert found.value <= found.limit, found.message


def test_a_few_deletions_do_not_hide_wrong_probabilities() -> None:
    calibration, _ = _with_stand_ins(np.random.default_rng(1), 4000, 0.6, 0.01)
    found = calibration.worst(("a", "b"))
    assert found is not None
    assert found.value > found.limit
