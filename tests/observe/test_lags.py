"""How long outcomes change, from the times of signals: corrections, late outcomes, what a young log cannot show."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from headway.observe.lags import ChangeLags, _settled_by, change_lags
from headway.project import Project

HOUR = 3600.0
START = 1_900_000_000.0
Changes = Callable[[int, str], float | None]  # number, action → seconds until a correction


@contextmanager
def log(folder: Path, environ: dict[str, str], count: int, changes: Changes, more: str = "") -> Iterator[Project]:
    """Decisions a minute apart, every outcome known at once, some corrected later."""
    folder.mkdir(exist_ok=True)
    (folder / "headway.toml").write_text(f'[tasks.route]\nactions = ["a", "b"]\nrange = [0, 1]\n{more}')
    now = START + 60.0 * count
    with Project(folder, environ=environ, seed=1, clock=lambda: now) as project:
        for number in range(count):
            at, action = START + 60.0 * number, "ab"[number % 2]
            made = project.record("route", f"text {number}", action=action, propensity=0.5, at=at)
            project.signal(made.id, reward=1.0, at=at)
            after = changes(number, action)
            if after is not None and at + after <= now:
                project.signal(made.id, reward=0.0, at=at + after)
        yield project


def lags_of(project: Project, names: frozenset[str] = frozenset({"reward"})) -> ChangeLags:
    return change_lags(
        project.database, project.query, "route", names=names, reward_after_s=86_400.0, now=project.clock(),
        required=("reward",),
    )  # fmt: skip


def test_outcomes_that_never_change_need_no_age(tmp_path, environ) -> None:
    with log(tmp_path / "p", environ, 200, lambda number, action: None) as project:
        lags = lags_of(project)
        assert lags.final == {}
        assert lags.slowest == ("", 0.0)
        assert lags.seen_s == pytest.approx(200 * 60.0)


def test_corrections_of_one_action_are_measured_with_their_time(tmp_path, environ) -> None:
    with log(tmp_path / "p", environ, 400, lambda n, action: 2 * HOUR if action == "b" and n % 10 == 1 else None) as p:
        assert lags_of(p).final == {"b": 2 * HOUR}


def test_a_signal_that_nothing_reads_changes_nothing(tmp_path, environ) -> None:
    with log(tmp_path / "p", environ, 200, lambda number, action: None) as project:
        for decision in list(project.query.decisions("route"))[:100]:
            project.signal(decision.id, seen=1.0, at=decision.at + HOUR)
        assert lags_of(project).final == {}
        assert lags_of(project, frozenset({"reward", "seen"})).final


def test_a_flag_that_a_job_sets_later_is_a_change(tmp_path, environ) -> None:
    with log(tmp_path / "p", environ, 200, lambda number, action: None) as project:
        for decision in list(project.query.decisions("route"))[:60]:
            if decision.action == "b":
                project.signal(decision.id, safety_flag=1.0, at=decision.at + 2 * HOUR)
        assert lags_of(project, project.read_signals("route")).final == {"b": 2 * HOUR}


def test_a_withdrawal_is_a_change(tmp_path, environ) -> None:
    with log(tmp_path / "p", environ, 200, lambda number, action: None) as project:
        for decision in list(project.query.decisions("route"))[:20]:
            project.withdraw(decision.id, "reward")
        assert lags_of(project).final.keys() == {"a", "b"}


def test_one_change_of_a_rare_action_proves_nothing() -> None:
    ages = np.arange(60, dtype=np.float64) * 60.0
    lags = np.zeros(60)
    lags[50] = 30.0
    assert _settled_by(lags, ages) == 0.0
    lags[51] = 40.0
    assert _settled_by(lags, ages) > 0.0


def test_a_young_log_does_not_hide_that_outcomes_change() -> None:
    """A fifth changes after 6 h: in a log of 6.5 h, 1.5% of all decisions, but a fifth of those that are old enough."""
    ages = np.linspace(0.0, 6.5 * HOUR, 1300)
    lags = np.zeros(1300)
    lags[(ages >= 6 * HOUR) & (np.arange(1300) % 5 == 0)] = 6 * HOUR
    assert (lags > 0).mean() < 0.02
    assert _settled_by(lags, ages) == 6 * HOUR


@given(st.floats(0.02, 0.5), st.floats(60.0, 4 * HOUR), st.integers(0, 1000))
def test_the_age_covers_99_percent_of_the_changes_that_could_be_seen(share: float, mean: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    ages = rng.uniform(0.0, 24 * HOUR, 3000)
    when = np.where(rng.random(3000) < share, rng.exponential(mean, 3000), 0.0)
    seen = np.where(when <= ages, when, 0.0)
    age = _settled_by(seen, ages)
    assert np.mean(when > age) < 0.025


def test_outcomes_after_the_window_are_told_from_changes_within_it(tmp_path, environ) -> None:
    (tmp_path / "headway.toml").write_text(
        '[tasks.route]\nactions = ["a", "b"]\nrange = [0, 1]\nreward_after_s = 600\n'
    )
    with Project(tmp_path, environ=environ, seed=1, clock=lambda: START + 10 * HOUR) as project:
        for number in range(300):
            at, action = START + number, "ab"[number % 2]
            made = project.record("route", f"text {number}", action=action, propensity=0.5, at=at)
            project.signal(made.id, reward=1.0, at=at + (HOUR if action == "a" and number % 20 == 0 else 1.0))
        lags = change_lags(
            project.database, project.query, "route", names=frozenset({"reward"}), reward_after_s=600.0,
            now=project.clock(), required=("reward",),
        )  # fmt: skip
        assert lags.window == {"a": HOUR}
        assert lags.final == {"a": HOUR}


@pytest.mark.kits("formats")
def test_a_file_without_times_of_its_signals_is_named(tmp_path, environ) -> None:
    file = tmp_path / "log.csv"
    rows = [f"text {n},{'ab'[n % 2]},{n % 2},0.5,2026-01-01T00:{n % 60:02}:00Z" for n in range(120)]
    file.write_text("\n".join(["text,action,reward,propensity,at", *rows]) + "\n")
    (tmp_path / "headway.toml").write_text('[tasks.route]\nactions = ["a", "b"]\nrange = [0, 1]\n')
    with Project(tmp_path, environ=environ, seed=1) as project:
        columns = {name: name for name in ("text", "action", "reward", "propensity", "at")}
        project.import_file(file, task="route", columns=columns, candidates=("a", "b"))
        lags = lags_of(project)
        assert lags.untimed == 120
        assert lags.final == {}
