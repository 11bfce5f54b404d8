"""Learning the bandit from logs: selection, baselines, counts, refusals, bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from headway.encode import encoder
from headway.learn.sums import kmeans
from headway.nouns.errors import InvalidInput, InvalidSettings, UnknownName
from headway.nouns.records import Settled, Situation
from tests.families import build, learner
from tests.learn.logs import ARMS, CANDIDATES, MemoryLog, identity, row
from tests.opinions import opinion_on

TEXT = encoder()


def _learn(rows: list[Settled], seed: int = 3, **knobs: Any) -> Any:
    return learner("bandit", encoder=TEXT).learn(MemoryLog(rows), knobs, seed)


def test_values_and_errors_come_with_their_baselines() -> None:
    learned = _learn(identity("text", 2000))
    assert learned.metrics["tune_value"] == pytest.approx(1.0, abs=0.03)
    for name in ("behaviour", "uniform", "constant_best"):
        assert learned.baselines[name] == pytest.approx(1 / 3, abs=0.12), name
    assert learned.baselines["linear"] == pytest.approx(1.0, abs=0.03)
    assert learned.metrics["tune_error"] < 0.03
    assert learned.baselines["error_arm_means"] == pytest.approx(2 / 9, abs=0.03)
    assert learned.baselines["error_mean"] == pytest.approx(2 / 9, abs=0.03)
    assert learned.trained_on["train"] == 1600
    assert learned.trained_on["tune"] == 400
    assert learned.trained_on["sources"] == {"real": 2000}
    assert (learned.trained_on["first"], learned.trained_on["last"]) == (0, 1999)


def test_selection_prefers_a_strong_ridge_if_the_situation_is_uninformative() -> None:
    rng = np.random.default_rng(5)
    rows = [
        row(
            i,
            Situation(task="t", text=f"word{rng.integers(50)} word{rng.integers(50)}"),
            ARMS[i % 3],
            float(rng.normal()),
        )
        for i in range(1500)
    ]
    learned = _learn(rows, model="linear")
    assert learned.knobs["ridge"] >= 100.0
    assert learned.metrics["tune_error"] <= learned.baselines["error_arm_means"] * 1.01


def test_clusters_win_if_the_reward_is_not_linear() -> None:
    # Exclusive or of two numbers: no linear model can tell, four clusters can.
    rng = np.random.default_rng(6)
    rows = []
    for i in range(3000):
        a, b, arm = (int(integer) for integer in rng.integers(2, size=3))
        state = {"a": a + rng.normal() * 0.05, "b": b + rng.normal() * 0.05}
        rows.append(row(i, Situation(task="t", state=state), ARMS[arm], float((a ^ b) == arm)))
    learned = _learn(rows)
    assert learned.knobs["model"] == "clusters"
    assert learned.metrics["tune_value"] > 0.95
    assert learned.baselines["linear"] < 0.75


def test_knobs_set_by_the_caller_are_not_searched() -> None:
    learned = _learn(identity("numbers", 300), model="linear", ridge=7.0, prior="pooled", explore="thompson")
    assert {key: learned.knobs[key] for key in ("model", "ridge", "prior", "explore")} == {
        "model": "linear",
        "ridge": 7.0,
        "prior": "pooled",
        "explore": "thompson",
    }


def test_rows_without_a_reward_are_counted_and_never_trained_on() -> None:
    rows = identity("numbers", 200)
    plain = _learn(rows, ridge=1.0, model="linear")
    censored = [row(1000 + i, example.decision.situation, "red", None) for i, example in enumerate(rows[:50])]
    mixed = learner("bandit", encoder=TEXT).learn(_Parts(rows[:160] + censored, rows[160:]), plain.knobs, 3)
    assert mixed.trained_on["statuses"] == {"rewarded": 200, "censored": 50}
    for name, tensor in plain.tensors.items():
        assert np.array_equal(tensor, mixed.tensors[name]), name


class _Parts(MemoryLog):
    def __init__(self, train: list[Settled], tune: list[Settled]) -> None:
        super().__init__(train + tune)
        self.parts = {"train": train, "tune": tune}

    def part(self, name: str) -> list[Settled]:
        return self.parts[name]


def test_a_few_rows_are_enough_but_no_rows_are_an_error() -> None:
    learned = _learn(identity("text", 5))
    assert learned.metrics["tuned"] == 0.0
    policy = build("bandit", learned.knobs, learned.tensors, learned.extra, TEXT)
    assert opinion_on(policy, Situation(task="t", text="x"), CANDIDATES).probabilities.sum() == pytest.approx(1.0)
    for rows in ([], [row(1, Situation(task="t"), "red", None)]):
        with pytest.raises(InvalidInput) as error:
            _learn(rows)
        assert error.value.code == "nothing_to_learn"


@pytest.mark.parametrize(
    ("knobs", "code"),
    [
        ({"rigde": 1.0}, "unknown_key"),
        ({"model": "forest"}, "bad_knob"),
        ({"prior": "none"}, "bad_knob"),
        ({"ridge": -1.0}, "bad_knob"),
        ({"ridge": "strong"}, "bad_knob"),
        ({"costs": {"red": float("nan")}}, "bad_knob"),
        ({"explore": "tompson"}, "bad_explorer"),
    ],
)
def test_wrong_knobs_are_refused(knobs: dict[str, Any], code: str) -> None:
    with pytest.raises(InvalidSettings) as error:
        _learn(identity("numbers", 30), **knobs)
    assert error.value.code == code


def test_an_unknown_family_lists_the_known_ones() -> None:
    with pytest.raises(UnknownName, match="bandit") as error:
        learner("bandti")
    assert error.value.code == "family_missing"


def test_progress_is_reported() -> None:
    reported: list[tuple[str, int]] = []
    learner("bandit").learn(
        MemoryLog(identity("numbers", 200)), {}, 1, lambda what, done, of: reported.append((what, done))
    )
    assert ("train", 160) in reported
    assert ("tune", 40) in reported


class _Counted(dict[str, Any]):
    """A state that counts its live instances and their maximum."""

    alive = most = 0

    def __init__(self, **values: Any) -> None:
        super().__init__(values)
        _Counted.alive += 1
        _Counted.most = max(_Counted.most, _Counted.alive)

    def __del__(self) -> None:
        _Counted.alive -= 1


class _Stream:
    """Rows generated while they are read."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Settled]:
        return self.part("train")

    def part(self, name: str) -> Iterator[Settled]:
        for number in range(self.count if name == "train" else self.count // 4):
            situation = Situation(task="t", text=f"item {number % 97}", state=_Counted(n=float(number % 7)))
            yield row(number, situation, ARMS[number % 3], 0.5)


def test_rows_are_streamed_and_never_kept() -> None:
    learned = learner("bandit", encoder=TEXT).learn(_Stream(20_000), {"model": "linear", "ridge": 1.0}, 1)
    assert learned.metrics["rows"] == 25_000
    # A sample of 4,096 to cluster, and two batches of 2,048 while one replaces the other; measuring coverage keeps
    # up to two more of them alive for a while.
    assert _Counted.most <= 4096 + 6 * 2048 + 10


def test_kmeans_finds_clusters_that_are_far_apart() -> None:
    rng = np.random.default_rng(8)
    centers = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]])
    points = np.concatenate([center + rng.normal(size=(50, 2)) * 0.1 for center in centers])
    centres = kmeans(points, 3, np.random.default_rng(1))
    assert sorted(centres.round().tolist()) == sorted(centers.tolist())
