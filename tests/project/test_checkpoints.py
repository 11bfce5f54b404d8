"""A proof that goes on where the last one stopped equals one that reads every row, in every bit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings, strategies as some

from headway.nouns.errors import InvalidInput
from headway.observe import Database, frame as frames
from headway.observe.erase import DeletionFilter
from headway.project import Project
from headway.project.prove import checkpoints, logged
from headway.project.prove.checkpoints import Checkpoints
from headway.prove import LogStream, display
from tests.project.test_unread import STEPS, TOML, _do, watched_traffic


class Places:
    """Small chunks, and from how many rows on each proof went on."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(frames, "BLOCK", 16)
        patch.setattr(logged, "CHUNK", 4)
        patch.setattr(checkpoints, "_APART", 4)
        patch.setattr(display, "MOST_BYTES", 0)  # else the rows are kept for display
        self.starts: list[int] = []
        self.clock = 1_790_000_000.0
        resumed = Checkpoints.resumed

        def watched(places: Checkpoints, database: Database) -> tuple[LogStream, int]:
            stream, start = resumed(places, database)
            self.starts.append(start)
            return stream, start

        patch.setattr(Checkpoints, "resumed", watched)

    def check(self, project: Project, ref: str) -> int:
        """Prove twice, the second time from nothing; from where the first one went on."""
        self.starts.clear()
        went_on = evidence_of(project, ref)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Checkpoints, "resumed", lambda places, _: (LogStream(places._about, places._guards), 0))
            patch.setattr(Checkpoints, "keep", lambda *_: None)
            assert went_on == evidence_of(project, ref)
        return self.starts[0] if self.starts else 0


def evidence_of(project: Project, ref: str) -> Any:
    return msgspec.json.decode(msgspec.json.encode(project.prove(ref, against="uniform@0").evidence))


@pytest.fixture
def places() -> Iterator[Places]:
    with pytest.MonkeyPatch.context() as patch:
        yield Places(patch)


@pytest.fixture
def project(tmp_path: Path, environ: dict[str, str], places: Places) -> Iterator[Project]:
    (tmp_path / "headway.toml").write_text(TOML.replace("WEIGHT", "1.0"))
    with Project(tmp_path, environ=environ, seed=3, clock=lambda: places.clock) as opened:
        yield opened


def play(project: Project, places: Places, count: int, start: int = 0) -> list[str]:
    made = []
    for number in range(start, start + count):
        places.clock += 1.0
        made.append(project.decide("route", f"ask {number}", role="coder" if number % 3 else "").id)
        project.signal(made[-1], {"solved": number % 7 / 7}, rater="ann" if number % 2 else "bob")
    return made


def test_it_reads_only_the_rows_after_the_last_whole_chunk(project: Project, places: Places) -> None:
    play(project, places, 60)
    ref = project.learn("route")
    made = play(project, places, 60, start=60)
    assert places.check(project, ref) == 0
    rows = evidence_of(project, ref)["n"]
    assert places.check(project, ref) == (rows - 1) // 4 * 4 > 16
    play(project, places, 30, start=120)
    assert places.check(project, ref) == (rows - 1) // 4 * 4, "what is new comes after it"
    project.signal(made[-8], {"solved": 1.0}, rater="bob")
    late = places.check(project, ref)
    assert late <= rows - 8, "nothing is used that holds the late outcome"
    assert late == 64 or rows < 73, "it costs the rows since the place before it"
    assert places.check(project, ref) >= late


def test_a_second_rater_who_agrees_is_seen(project: Project, places: Places) -> None:
    play(project, places, 40)
    ref = project.learn("route")
    made = play(project, places, 60, start=40)
    before = evidence_of(project, ref)
    assert places.check(project, ref) > 0
    rewards = [row.reward for row in project.query.settled("route")]
    for number in range(92, 100):
        project.signal(made[number - 40], {"solved": number % 7 / 7}, rater="eve")
    places.clock += 1000.0  # else these outcomes could still change
    assert places.check(project, ref) <= before["n"] - 8, "nothing is used that holds a row that eve rated"
    assert [row.reward for row in project.query.settled("route")] == rewards
    assert {rater["name"] for rater in evidence_of(project, ref)["raters"]} - {
        rater["name"] for rater in before["raters"]
    } == {"eve"}


@pytest.mark.parametrize("change", ["damage", "reward", "settings", "deletion"])
def test_what_is_damaged_or_was_made_under_other_rules_is_not_used(
    project: Project, places: Places, environ: dict[str, str], change: str
) -> None:
    play(project, places, 40)
    ref = project.learn("route")
    made = play(project, places, 60, start=40)
    places.check(project, ref)
    assert places.check(project, ref) > 0
    database = project.database
    if change == "damage":
        for number, name, data in database.query("SELECT number, name, data FROM blocks WHERE name LIKE 'proof%'"):
            flipped = bytes(data[:-1]) + bytes([data[-1] ^ 1])
            with database.transaction() as connection:
                connection.execute("UPDATE blocks SET data = ? WHERE number = ? AND name = ?", (flipped, number, name))
    elif change == "deletion":
        project.erase(DeletionFilter(decision=made[-1]), rewrite=False)
        assert not database.query("SELECT 1 FROM blocks WHERE name LIKE 'proof%'")
    else:
        folder = project.folder
        toml = TOML.replace("WEIGHT", "2.0" if change == "reward" else "1.0")
        (folder / "headway.toml").write_text(toml + ("floor = 0.3\n" if change == "settings" else ""))
        with Project(folder, environ=environ, seed=3, clock=lambda: places.clock) as again:
            again.rescore("route")
            assert places.check(again, ref) == 0
        return
    assert places.check(project, ref) == 0


@pytest.mark.slow
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS, tick=some.sampled_from([1.0, 0.0]))
def test_the_evidence_is_the_same_whatever_happens_between_two_proofs(
    steps: list[tuple[str, int]], tick: float
) -> None:
    """Decided, rated, rated late, withdrawn, rescored, deleted and imported again, in any order."""
    with (
        TemporaryDirectory() as folder,
        watched_traffic(Path(folder)) as traffic,
        pytest.MonkeyPatch.context() as patch,
    ):
        places = Places(patch)
        traffic.tick = tick
        traffic.play(24)
        ref = traffic.learn()
        traffic.play(24)
        for what, number in steps:
            _do(traffic, what, number)
            with suppress(InvalidInput):  # nothing may speak
                places.check(traffic.project, ref)
