"""Crews: results in order, whatever happens to the workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headway.kits.crews.processes import ProcessCrew, crew
from headway.nouns.errors import InvalidInput, Unavailable, UnknownName
from headway.nouns.kit import catalogue
from tests.loop.running import until

WORK = "tests.kits.crews.crew_work"


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", str(root))


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_the_order_of_the_shards(workers: int) -> None:
    seen: list[tuple[str, int, int | None]] = []
    results = ProcessCrew(workers).map(
        f"{WORK}:square", range(7), what="squares", progress=lambda *row: seen.append(row)
    )
    assert list(results) == [0, 1, 4, 9, 16, 25, 36]
    assert seen == [("squares", done, 7) for done in range(1, 8)]


@pytest.mark.slow
def test_shards_run_in_other_processes_and_in_no_more_than_asked() -> None:
    pids = set(ProcessCrew(2).map(f"{WORK}:process", range(8)))
    assert 1 <= len(pids) <= 2
    assert os.getpid() not in pids


def test_a_worker_that_is_killed_loses_nothing_and_changes_no_result(tmp_path: Path) -> None:
    shards = [(str(tmp_path), number) for number in range(8)]
    assert list(ProcessCrew(2).map(f"{WORK}:dies_first", shards)) == list(range(8))
    assert len(list(tmp_path.iterdir())) == 3  # so many workers were killed


@pytest.mark.slow
def test_a_shard_that_ends_every_worker_is_an_error_and_not_an_endless_loop() -> None:
    with pytest.raises(Unavailable, match="SIGKILL") as caught:
        list(ProcessCrew(1).map(f"{WORK}:always_dies", [0]))
    assert caught.value.code == "crew_failed"


def test_an_error_of_ours_keeps_its_code_and_hint() -> None:
    with pytest.raises(InvalidInput) as caught:
        list(ProcessCrew(2).map(f"{WORK}:refuses", range(5)))
    assert (caught.value.code, caught.value.hint) == ("bad_shard", "Use another.")


@pytest.mark.slow
def test_any_other_exception_brings_its_traceback() -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        list(ProcessCrew(1).map(f"{WORK}:breaks", [0]))


def test_workers_that_are_held_stay_and_keep_their_shards_until_they_die() -> None:
    with ProcessCrew(2).held() as crew:
        first = list(crew.map(f"{WORK}:process", range(4)))
        assert list(crew.map(f"{WORK}:process", range(4))) == first
        assert (first[0], first[1]) == (first[2], first[3])
        os.kill(first[0], signal.SIGKILL)
        again = list(crew.map(f"{WORK}:process", range(4)))
        assert again[0] not in first
        assert again[1] == first[1]
        with pytest.raises(InvalidInput):
            list(crew.map(f"{WORK}:refuses", range(4)))
        assert list(crew.map(f"{WORK}:square", range(3))) == [0, 1, 4]


def test_ending_the_iteration_ends_the_workers(tmp_path: Path) -> None:
    crew = ProcessCrew(2)
    results = crew.map(f"{WORK}:dies_first", [(str(tmp_path), 0), (str(tmp_path), 2), (str(tmp_path), 3)])
    assert next(results) == 0
    results.close()  # type: ignore[attr-defined]  # a generator
    # that nothing is left behind is checked for every test


def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    code = f"from headway.kits.crews.processes import *; list(ProcessCrew(1).map('{WORK}:waits', [{str(mark)!r}]))"
    parent = subprocess.Popen([sys.executable, "-c", code])
    until(lambda: mark.exists() and bool(mark.read_text()), "the worker")
    worker = int(mark.read_text())
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    until(lambda: not Path(f"/proc/{worker}").exists(), "its end")


def test_a_crew_is_found_by_name() -> None:
    assert crew(catalogue(), 2).workers == 2
    with pytest.raises(UnknownName) as caught:
        crew(catalogue(), 2, "proceses")
    assert (caught.value.code, "processes" in caught.value.hint) == ("unknown_crew", True)


@pytest.mark.parametrize("workers", [0, -1, 1000])
def test_a_crew_without_workers_is_refused(workers: int) -> None:
    with pytest.raises(InvalidInput) as caught:
        ProcessCrew(workers)
    assert caught.value.code == "bad_workers"


def test_no_shards_need_no_worker() -> None:
    assert list(ProcessCrew(2).map("no.such:module", [])) == []
