"""What benchmarks/power.py plays: the loop on a moved clock, the tests and routers beside it, and its tables."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))  # benchmarks are scripts: they import one another by bare name

from _power import summary  # noqa: E402
from _power.ab_tests import ALPHA, AbTest, fixed_size, sequential_sizes  # noqa: E402
from _power.cases import CASES, Promotion  # noqa: E402
from _power.gate import EXPLORED, GateRun, gate_alone  # noqa: E402
from _power.guarded import guard_alone  # noqa: E402
from _power.loop import RULES, UNIFORM, LoopRun  # noqa: E402
from _power.quiet import quiet  # noqa: E402
from _power.routers import VowpalRouter, play  # noqa: E402
from _power.summary import at_most, figures, ratios, reached, table  # noqa: E402
from _power.world import LARGE, SMALL, falling, steady  # noqa: E402

from benchmarks.power import BEGIN, END, PAGE, chosen, parser, write  # noqa: E402


def test_the_sequential_test_keeps_its_level_at_every_look() -> None:
    ended = [AbTest(np.random.default_rng([3, seed]), 0.7, 0.7, 20_000).ended is not None for seed in range(400)]
    assert sum(ended) <= 400 * ALPHA + 5 * (400 * ALPHA) ** 0.5


def test_the_sequential_test_takes_longer_than_the_planned_one() -> None:
    sizes = sequential_sizes(0.65, 0.75, 20_000, tests=100)
    assert sizes[-1] < 20_000
    assert 700 < sizes[50] < 1500
    assert fixed_size(0.65, 0.75) == 652


def test_a_world_declines_in_a_straight_line() -> None:
    world = falling(0.6, (0.75, 0.65), since=100, over=10)
    assert world(0) == world(100) == {SMALL: 0.6, LARGE: 0.75}
    assert world(105)[LARGE] == pytest.approx(0.70)
    assert world(110) == world(9999) == {SMALL: 0.6, LARGE: pytest.approx(0.65)}


def test_a_run_of_the_loop_learns_and_follows_the_ledger() -> None:
    with LoopRun(RULES, steady(0.2, 0.9), seed=1) as run:
        assert run.share(SMALL) == pytest.approx(0.941), "rules with an exploration of 10% and a floor of 2%"
        run.serve(200)
        assert run.made == 200
        assert run.failures == []
        assert run.first("candidate") is not None
        assert run.share(SMALL) < 0.9, "an experiment has begun"
        assert 0.2 < run.mean(0, 200) < 0.5


def test_the_same_seed_plays_the_same_run() -> None:
    def chances(seed: int) -> list[float]:
        with LoopRun(UNIFORM, steady(0.2, 0.9), seed=seed) as run:
            run.serve(150)
            return run.chances

    assert chances(3) == chances(3) != chances(4)


def test_the_detector_is_quiet_while_nothing_changes() -> None:
    assert quiet(5000, 2) == {"decisions": 5000.0, "alarms": 0.0}


@pytest.mark.parametrize("rules", [False, True], ids=["uniform", "rules"])
def test_the_tests_alone_promote_what_is_better_and_not_what_is_equal(rules: bool) -> None:
    run = GateRun(1, rules=rules, decisions=5000, chances=(0.6, 0.75))
    run.play()
    assert run.promoted is not None
    assert run.verdicts[-1] == (run.promoted, "pass")
    equal = gate_alone(rules, 5000, 2)
    assert (equal["promotions"], equal["decisions"]) == (0.0, 5000.0)


@pytest.mark.parametrize(("settings", "experiments"), [(UNIFORM, 0.0), (RULES, 1.0)], ids=["uniform", "rules"])
def test_a_promotion_by_the_tests_alone_says_when_and_whether_it_was_right(settings: str, experiments: float) -> None:
    numbers = Promotion(settings, 0.6, 0.75, within=2500, alone=True)(1)
    assert numbers["promoted"] == numbers["decisions"] <= 2500
    assert (numbers["right"], numbers["tests"], numbers["experiments"]) == (1.0, 1.0, experiments)
    assert "promoted" not in Promotion(settings, 0.75, 0.75, within=500, alone=True)(1)


def test_the_tests_alone_explore_as_the_loop_does() -> None:
    with LoopRun(RULES, steady(0.7, 0.7), seed=1) as run:
        assert run.share(LARGE) == pytest.approx(EXPLORED)


def test_the_guard_alone_takes_back_what_is_worse_and_not_what_is_equal() -> None:
    assert guard_alone(3000, 1) == {"decisions": 3000.0, "rollbacks": 0.0}
    assert guard_alone(3000, 1, chances=(0.75, 0.45))["rollbacks"] == 1.0


def test_the_interval_of_a_share_is_exact() -> None:
    assert at_most(0, 100) == pytest.approx(1.0 - 0.025**0.01)
    assert at_most(5, 100) == pytest.approx(0.11283, abs=1e-5)
    assert at_most(3, 3) == 1.0


def test_vowpal_wabbit_learns_the_better_arm() -> None:
    pytest.importorskip("vowpalwabbit")
    assert isinstance(VowpalRouter(1, "--epsilon 0.1"), VowpalRouter)
    assert np.mean(play("vw", steady(0.2, 0.9), 1, 600)[-200:]) > 0.75


def test_a_share_that_was_not_reached_has_no_number() -> None:
    runs = [{"promoted": 100.0}, {"promoted": 300.0}, {}, {}]
    assert reached(runs, "promoted", 0.5) == 300.0
    assert reached(runs, "promoted", 0.8) is None


def test_every_case_has_figures_and_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "sequential_sizes", lambda *_: (800.0, 900.0, 950.0, 990.0, 1000.0))
    shared = {"decisions": 1000.0, "failures": 0.0, "check_us": 1.0, "client_us": 1.0, "tests": 1.0, "experiments": 0.0}
    happened = {"promoted": 1250.0, "right": 1.0, "earned": 0.7, "earned_vw": 0.6, "alarm": 50.0}
    results = {name: [shared, shared | happened] for name in CASES}
    shown = figures(results)
    assert shown["promote_uniform_05_in_time"] == 0.5
    assert "promote_uniform_05_80" not in shown, "half of the runs promoted"
    assert shown["null_rules_with_verdict"] == 0.0
    assert ratios({"promote_rules_05": [shared | happened]})["promote_rules_05_vs_sequential"] == pytest.approx(0.8)
    promotions = sum(isinstance(case.play, Promotion) for case in CASES.values())
    text = table(results)
    assert text.count("not reached") >= promotions
    assert all(case.about in text for case in CASES.values())


def test_an_unknown_case_is_named() -> None:
    with pytest.raises(SystemExit, match="stedy"):
        chosen("steady,stedy")


def test_the_tables_replace_what_is_between_the_marks(tmp_path: Path) -> None:
    page = tmp_path / "proof.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", "utf-8")
    write("| a |", parser("").parse_args(["--seed", "5", "--runs", "7"]), page)
    text = page.read_text("utf-8")
    assert "old" not in text
    assert "--seed 5 --runs 7" in text
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")


def test_the_page_about_proof_has_the_marks() -> None:
    text = PAGE.read_text("utf-8")
    assert text.index(BEGIN) < text.index(END)
