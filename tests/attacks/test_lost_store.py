"""A store that vanishes under a running server: within a second nothing is acknowledged any more."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import headway
from headway.nouns import ids
from headway.nouns.errors import HeadwayError
from tests.postgres import Server
from tests.serve.conftest import Running, served  # noqa: F401 — a fixture


def _replace(store: Path, other: Path) -> None:
    shutil.copy(other, other.with_name("copy.db")).replace(store)


def _garbage(store: Path, _other: Path) -> None:
    with store.open("r+b") as file:
        file.write(os.urandom(4096))


def _log(store: Path) -> Path:
    return Path(f"{store}-wal")


LOSSES: dict[str, Callable[[Path, Path], object]] = {
    "deleted": lambda store, _other: store.unlink(),
    "moved away": lambda store, _other: store.rename(store.with_name("away.db")),
    "replaced": _replace,
    "overwritten": lambda store, other: store.write_bytes(other.read_bytes()),
    "emptied": lambda store, _other: os.truncate(store, 0),
    "cut off": lambda store, _other: os.truncate(store, store.stat().st_size - 4096),
    "garbage": _garbage,
    "log deleted": lambda store, _other: _log(store).unlink(),
    "log emptied": lambda store, _other: os.truncate(_log(store), 0),
    "log overwritten": lambda store, _other: _log(store).write_bytes(os.urandom(_log(store).stat().st_size)),
    "index deleted": lambda store, _other: Path(f"{store}-shm").unlink(),
    "all deleted": lambda store, _other: [path.unlink() for path in store.parent.glob("headway.db*")],
}


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another store, with decisions of its own."""
    folder = tmp_path_factory.mktemp("other")
    with headway.open(folder, environ={}) as project:
        for number in range(200):
            project.decide("route", f"other {number}" * 20, ["small", "large"])
    return folder / ".headway" / "headway.db"


def _until_refused(running: Running) -> tuple[float, str]:
    """Decide without a pause until it is refused; how long that took, and the refusal."""
    began = time.monotonic()
    while True:
        answer = running.decide()
        assert answer.status_code in (201, 503), answer.text
        if answer.status_code == 503:
            return time.monotonic() - began, answer.json()["error"]["code"]
        assert time.monotonic() - began < 30, "decisions are acknowledged without a store"


def _is_lost(running: Running, name: str) -> None:
    took, code = _until_refused(running)
    assert code in ("store_lost", "store_damaged"), code  # SQLite itself may meet the damage first
    health = running.client.get("/health")
    assert health.status_code == 503
    took_s = time.monotonic() + 10
    while health.json()["error"]["code"] != "store_lost":
        assert time.monotonic() < took_s, health.text
        health = running.client.get("/health")
    assert took < 1.0 or os.getloadavg()[0] > 2, f"{name}: noticed after {took:.2f} s"
    for _ in range(20):
        assert running.decide().status_code == 503


@pytest.mark.parametrize("loss", LOSSES)
def test_a_lost_store_acknowledges_nothing_more_and_no_other_process_makes_a_new_one(
    loss: str,
    tmp_path: Path,
    other: Path,
    served: Callable[..., Running],  # noqa: F811
) -> None:
    running = served()
    store = tmp_path / ".headway" / "headway.db"
    for _ in range(60):
        assert running.decide().status_code == 201
    with sqlite3.connect(store) as connection:  # pages in the file, not only in the log
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
    connection.close()
    for _ in range(20):
        assert running.decide().status_code == 201, "a checkpoint of another program is no loss"
    LOSSES[loss](store, other)
    _is_lost(running, loss)
    before = sorted(path.name for path in store.parent.glob("headway.db*") if "lock" not in path.name)
    for command in (["watch", "--once"], ["doctor", "--quick"]):
        done = subprocess.run(
            [sys.executable, "-m", "headway", "-C", str(tmp_path), *command],
            capture_output=True,
            text=True,
            timeout=120,
        )
        said = done.stdout + done.stderr
        assert done.returncode == 1, said
        assert "Traceback" not in said
        assert "nothing is stored any more" in " ".join(said.split()), said
        assert "headway restore" in " ".join(said.split()), said
    after = sorted(path.name for path in store.parent.glob("headway.db*") if "lock" not in path.name)
    assert set(after) <= set(before), "nothing new beside a running server"


def _middle_page(store: Path, *, of: str) -> int:
    """Where a page in the middle of a table begins, in bytes; the server writes to its end only."""
    with closing(sqlite3.connect(store)) as connection:
        size = connection.execute("PRAGMA page_size").fetchone()[0]
        (text,) = connection.execute(f"SELECT text FROM {of} WHERE seq = 400").fetchone()
    place = store.read_bytes().index(text.encode())
    return int(place // size * size)


@pytest.mark.parametrize("change", ["pages", "nothing"])
def test_bytes_that_another_program_changes_in_the_middle_of_the_file_are_noticed(
    change: str,
    tmp_path: Path,
    served: Callable[..., Running],  # noqa: F811
) -> None:
    with headway.open(tmp_path, environ={}) as project:
        for number in range(800):
            project.decide("route", f"a text with the number {number:04}", ["small", "large"])
    running = served()
    store = tmp_path / ".headway" / "headway.db"
    assert running.decide().status_code == 201
    size, place = store.stat().st_size, _middle_page(store, of="decisions")
    time.sleep(0.3)  # several looks
    with store.open("r+b") as file:
        file.seek(place)
        file.write(b"\xff" * 64 if change == "pages" else file.read(0))
    if change == "pages":
        assert store.stat().st_size == size
        _is_lost(running, change)
        assert "another program" in running.client.get("/health").text
    else:
        store.touch()
        until = time.monotonic() + 2.0
        while time.monotonic() < until:
            assert running.decide().status_code == 201


def test_bytes_that_change_right_after_the_first_write_are_noticed(tmp_path: Path) -> None:
    """The first write begins a new log, and that looked like a checkpoint, which may change the file."""
    with headway.open(tmp_path, environ={}) as project:
        for number in range(800):
            project.decide("route", f"a text with the number {number:04}", ["small", "large"])
    store = tmp_path / ".headway" / "headway.db"
    place = _middle_page(store, of="decisions")
    change = f"file = open({str(store)!r}, 'r+b'); file.seek({place}); file.write(b'\\xff' * 64)"
    with headway.open(tmp_path, environ={}) as project:
        project.decide("route", "the first", ["small", "large"])
        subprocess.run([sys.executable, "-c", change], check=True)
        until = time.monotonic() + 20
        with pytest.raises(HeadwayError) as lost:
            while time.monotonic() < until:
                project.database.version()  # as the server and the loop do
        assert lost.value.code == "store_lost"


def test_doctor_finds_a_changed_value_that_an_index_has(tmp_path: Path) -> None:
    with headway.open(tmp_path, environ={}) as project:
        known = [project.decide("route", f"text {number}", ["small", "large"]).id for number in range(50)][20]
    store = tmp_path / ".headway" / "headway.db"
    body = store.read_bytes()
    place = body.index(ids.raw(known))
    store.write_bytes(body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :])
    done = subprocess.run(
        [sys.executable, "-m", "headway", "-C", str(tmp_path), "doctor"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1
    assert "missing from index" in " ".join((done.stdout + done.stderr).split())


def test_no_command_makes_a_new_store_beside_a_server_whose_folder_was_deleted(
    tmp_path: Path,
    served: Callable[..., Running],  # noqa: F811
) -> None:
    running = served()
    for _ in range(20):
        assert running.decide().status_code == 201
    shutil.rmtree(tmp_path / ".headway")
    for command in (["watch", "--once"], ["status"], ["decide", "route", "hello", "--candidates", "small,large"]):
        done = subprocess.run(
            [sys.executable, "-m", "headway", "-C", str(tmp_path), *command],
            capture_output=True,
            text=True,
            timeout=120,
        )
        said = " ".join((done.stdout + done.stderr).split())
        assert (done.returncode, "nothing is stored any more" in said) == (1, True), said
        assert not (tmp_path / ".headway" / "headway.db").exists()
    _is_lost(running, "folder deleted")
    running.stop()
    shutil.rmtree(tmp_path / ".headway")
    with headway.open(tmp_path, environ={}) as project:  # nobody uses the old one any more
        assert project.query.counts("route").decisions == 0


def test_a_file_that_is_put_back_continues_with_every_row(tmp_path: Path, served: Callable[..., Running]) -> None:  # noqa: F811
    running = served()
    store = tmp_path / ".headway" / "headway.db"
    decided = {running.decide().json()["id"] for _ in range(50)}
    store.rename(tmp_path / "away.db")
    _is_lost(running, "moved away")
    running.stop()
    with pytest.raises(HeadwayError) as lost:
        headway.open(tmp_path, environ={})
    assert lost.value.code == "store_lost"
    (tmp_path / "away.db").rename(store)
    with headway.open(tmp_path, environ={}) as project:
        assert decided <= {decision.id for decision in project.query.decisions("route")}


def test_processes_that_come_and_go_raise_no_alarm(tmp_path: Path) -> None:
    """Each opens, writes and closes; the last one of a moment deletes the log, which is no loss for the next."""
    program = (
        "import sys, headway\n"
        "for number in range(25):\n"
        "    with headway.open(sys.argv[1], environ={}) as project:\n"
        "        project.decide('route', str(number), ['small', 'large'])\n"
    )
    crowd = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    assert [process.communicate(timeout=120)[1] for process in crowd] == [""] * 4
    with headway.open(tmp_path, environ={}) as project:
        assert project.query.counts("route").decisions == 100


@pytest.mark.parametrize("loss", ["tables", "created again", "database"])
def test_a_postgresql_store_that_was_dropped_is_lost(
    loss: str,
    tmp_path: Path,
    postgres: Server,
    served: Callable[..., Running],  # noqa: F811
) -> None:
    postgres.execute("DROP DATABASE IF EXISTS doomed WITH (FORCE)")
    postgres.execute("CREATE DATABASE doomed")
    url = postgres.url("doomed")
    running = served(env={**os.environ, "HEADWAY_STORE_URL": url})
    for _ in range(20):
        assert running.decide().status_code == 201
    if loss == "database":
        postgres.execute("DROP DATABASE doomed WITH (FORCE)")
    else:
        import psycopg

        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
            if loss == "created again":
                connection.execute("CREATE TABLE decisions (seq BIGINT)")
    _is_lost(running, loss)
    with pytest.raises(HeadwayError) as beside:
        headway.open(tmp_path, environ={"HEADWAY_STORE_URL": url})
    assert beside.value.code in ("store_lost", "store_missing")
