"""Stored columns after a crash, on a full disk and beside a deletion: nothing is lost, a reader never sees half."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import headway
from headway.nouns.errors import HeadwayError
from headway.observe import frame as frames
from headway.observe.erase import DeletionFilter
from headway.observe.frame import seal
from headway.observe.totals import forget_blocks, unreadable
from tests.cli.terminal import headway as command
from tests.observe.conftest import Ground, lay
from tests.observe.test_frame import columns_of, route, rows_of, small_blocks, stored
from tests.observe.test_settle import no_wait, run

__all__ = ["small_blocks"]


def _seal_again_and_again(place: str, started: object) -> None:
    ground = lay(place)
    while True:
        with ground.database.transaction() as connection:
            forget_blocks(connection)
        seal(ground.database, route(ground), progress=lambda _: started.set())  # type: ignore[attr-defined]


@pytest.mark.parametrize("kills", [3, pytest.param(40, marks=pytest.mark.slow)])
def test_a_sealer_that_is_killed_leaves_whole_blocks_and_the_next_one_completes_them(
    ground: Ground, decision, small_blocks: None, kills: int
) -> None:
    ground.add(*(decision(text=f"text {number}") for number in range(60)))
    run(ground, judge=no_wait)
    right, random = columns_of(ground), Random(5)
    context = multiprocessing.get_context("fork")
    for _ in range(kills):
        started = context.Event()
        child = context.Process(target=_seal_again_and_again, args=(str(ground.place), started))
        child.start()
        assert started.wait(60)
        for _ in range(random.randrange(4)):  # somewhere in the next rounds
            assert columns_of(ground) == right, "a reader beside a sealer"
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        assert columns_of(ground) == right == rows_of(ground)
        assert not any(unreadable(ground.database, route(ground)).values()), "no half of a block"
        seal(ground.database, route(ground), check=True)
        assert unreadable(ground.database, route(ground)) == {}
        assert columns_of(ground) == right


def test_a_full_disk_stores_no_half_of_a_block(tmp_path: Path, decision, small_blocks: None) -> None:
    ground = lay(tmp_path / "headway.db")
    for _ in range(20):
        ground.add(*(decision(text=f"text {number}") for number in range(20)))
    right = columns_of(ground)
    with ground.database.transaction() as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count={pages + 3}")
    with pytest.raises(HeadwayError) as error:
        seal(ground.database, route(ground))
    assert error.value.code == "disk_full"
    assert not any(unreadable(ground.database, route(ground)).values())
    assert columns_of(ground) == right
    connection.execute("PRAGMA max_page_count=1000000")
    seal(ground.database, route(ground))
    assert unreadable(ground.database, route(ground)) == {}
    assert columns_of(ground) == right
    ground.writer.close()
    ground.database.close()


@pytest.fixture
def played(tmp_path: Path, small_blocks: None) -> Iterator[headway.Project]:
    """A project whose columns are stored, with words that only one decision and one rater have."""
    with headway.open(tmp_path, environ={}, seed=3) as project:
        for number in range(40):
            pick = project.decide("route", f"planted-words-{number}", ["small", "large"])
            project.signal(pick.id, reward=1.0, rater=f"planted-rater-{number % 3}")
        project.settle("route")
        assert seal(project.database, project.query.name_id("task", "route")) > 3
        yield project


@pytest.mark.parametrize(
    ("wanted", "mark"),
    [(DeletionFilter(rater="planted-rater-1"), b"planted-rater-1"), (DeletionFilter(before=2e9), b"planted-words")],
)
def test_what_is_deleted_is_in_no_block_on_the_disk(
    played: headway.Project, wanted: DeletionFilter, mark: bytes
) -> None:
    assert any(mark in file.read_bytes() for file in played.home.glob("headway.db*"))
    played.erase(wanted)
    ground = played.database
    assert not ground.query("SELECT 1 FROM blocks WHERE task_id > 0 AND number = 0")
    seal(ground, played.query.name_id("task", "route"))
    for file in (path for path in played.home.rglob("*") if path.is_file()):
        assert mark not in file.read_bytes(), file


def test_doctor_finds_a_damaged_block_and_repair_stores_it_again(played: headway.Project) -> None:
    def damage(sql: str) -> None:
        with played.database.transaction() as connection:
            connection.execute(sql)

    folder = played.folder
    assert command("-C", folder, "doctor").code == 0
    damage("UPDATE blocks SET data = zeroblob(8) WHERE number = 1 AND name = 'decided'")
    damage("DELETE FROM blocks WHERE number = 2")
    done = command("-C", folder, "doctor")
    assert done.code == 1
    assert "1 blocks damaged, 1 not stored: read from their rows instead" in done.out
    assert "headway doctor --repair" in done.out
    done = command("-C", folder, "doctor", "--repair")
    assert done.code == 0
    assert "repaired: 2 blocks of route stored again." in done.out
    assert unreadable(played.database, played.query.name_id("task", "route")) == {}


def test_small_blocks_are_what_these_tests_rest_on(ground: Ground, decision, small_blocks: None) -> None:
    ground.add(*(decision() for _ in range(20)))
    assert frames.BLOCK == 7
    seal(ground.database, route(ground))
    assert len(stored(ground)) == 4
