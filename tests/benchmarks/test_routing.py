"""The metrics of the routing benchmark, compared with closed forms, and its splits, checked for leaks."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))  # benchmarks are scripts: they import one another by bare name

from benchmarks._routing import Outcomes, Recorded, apgr, bootstrap, call_thresholds, curve, read  # noqa: E402


def world(rows: int = 4000, seed: int = 0) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    weak = (rng.random(rows) < 0.5).astype(float)
    strong = (rng.random(rows) < 0.8).astype(float)
    return weak, strong, rng.random(rows), np.ones(rows)


def test_a_random_router_recovers_half_the_gap_and_the_strong_model_all_of_it() -> None:
    weak, strong, score, cost = world(40_000)
    calls, costs = apgr(score, weak, strong, cost)
    assert abs(calls - 0.5) < 0.03
    assert abs(calls - costs) < 1e-12  # equal prices: both axes are the same
    points = curve(score, weak, strong, cost)
    assert points[0].tolist() == [0.0, weak.mean(), 0.0]
    assert points[-1].tolist() == [1.0, strong.mean(), 1.0]


def test_a_perfect_router_has_the_area_of_its_triangle() -> None:
    # In a quarter of all cases only the strong model is right, else both are: PGR rises to 1 at a quarter of the calls.
    weak = np.array([0.0, 1.0, 1.0, 1.0] * 1000)
    strong = np.ones(4000)
    score = (strong - weak) + 1e-6 * np.random.default_rng(1).random(4000)
    calls, _ = apgr(score, weak, strong, np.ones(4000))
    # deciles: PGR .4, .8, 1 at .1, .2, .3
    exact = np.trapezoid([0.0, 0.4, 0.8] + [1.0] * 8, np.linspace(0, 1, 11))
    assert abs(calls - exact) < 2e-3
    half, most = call_thresholds(score, weak, strong, np.ones(4000))
    assert abs(half - 12.5) < 0.1
    assert abs(most - 20.0) < 0.1


def test_the_cost_axis_rewards_saving_on_expensive_prompts() -> None:
    weak, strong, _, _ = world(4000, 2)
    cost = np.random.default_rng(3).choice([1.0, 10.0], size=4000)
    gain = strong - weak + 1e-6 * cost
    plain, dear = apgr(gain, weak, strong, cost), apgr(gain / cost, weak, strong, cost)
    assert dear[1] > plain[1]


def test_the_paired_interval_contains_the_difference() -> None:
    weak, strong, score, cost = world(3000, 4)
    rows = np.arange(3000)
    better = score + 0.5 * (strong - weak)
    low, high = bootstrap([(better, rows)], [(score, rows)], weak, strong, cost, 0, draws=60)
    truth = apgr(better, weak, strong, cost)[0] - apgr(score, weak, strong, cost)[0]
    assert 0.0 < low < truth < high
    low, high = bootstrap([(score, rows)], [(score, rows)], weak, strong, cost, 0, draws=10)
    assert (low, high) == (0.0, 0.0)


def test_equal_prompts_are_in_one_group_and_on_one_side_of_the_tuning_split() -> None:
    prompts = [f"question {number % 40}" for number in range(80)]
    seen: dict[str, int] = {}
    groups = np.array([seen.setdefault(prompt, len(seen)) for prompt in prompts])
    data = Outcomes(prompts, np.array(["x"] * 80), ("weak", "strong"), np.zeros((80, 2)), groups)
    log = Recorded(data, np.arange(80), data.groups)
    train, tune = ({row.decision.situation.text for row in log.part(part)} for part in ("train", "tune"))
    assert train
    assert tune
    assert not train & tune
    assert len(log) == 160


def test_both_formats_are_read(tmp_path: Path, shared_data: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("subject,prompt,big_correct,tiny_correct\na,one,1,0\nb,two,1,1\na,one,1,0\n", "utf-8")
    outcomes = read(table)
    assert outcomes.models == ("tiny", "big")
    assert outcomes.groups.tolist() == [0, 1, 0]
    nine = read(shared_data / "routing" / "nine_models_train.jsonl.gz")
    assert nine.scores.shape == (5608, 9)
    assert nine.scores.mean(axis=0).max() == pytest.approx(0.6213, abs=1e-4)
