"""API keys are stored as hashes; jobs are leased to workers."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.nouns.errors import Busy, Conflict, InvalidInput, UnknownName
from headway.observe.database import Database
from headway.observe.engines import open_database
from headway.observe.jobs import Job, Jobs, at_work, worker_there
from headway.observe.keys import Keys, digest_of


@pytest.fixture
def database(place: Path | str) -> Iterator[Database]:
    store = open_database(place)
    yield store
    store.close()


def test_only_the_hash_of_a_key_is_stored(database: Database, tmp_path: Path) -> None:
    secret = Keys(database).add("agent", ["signal", "decide"], now=100.0, expires=200.0)
    (key,) = Keys(database).list()
    assert (key.name, key.scopes, key.created, key.expires) == ("agent", ("decide", "signal"), 100.0, 200.0)
    assert key.sha256 == digest_of(secret)
    assert key.valid(199.0)
    assert not key.valid(200.0)
    assert all(secret.encode() not in path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    assert secret not in repr(database.query("SELECT * FROM keys"))


def test_rotating_replaces_the_secret_and_keeps_name_scopes_and_expiry(database: Database) -> None:
    keys = Keys(database)
    first = keys.add("agent", ["decide"], now=100.0, expires=200.0)
    second = keys.rotate("agent", now=150.0)
    (key,) = keys.list()
    assert first != second
    assert (key.sha256, key.scopes, key.expires) == (digest_of(second), ("decide",), 200.0)
    keys.rotate("agent", now=150.0, expires=300.0)
    assert keys.list()[0].expires == 300.0


def test_a_revoked_key_stays_revoked_and_its_name_is_not_reused(database: Database) -> None:
    keys = Keys(database)
    keys.add("agent", ["decide"], now=100.0)
    keys.revoke("agent", now=110.0)
    assert not keys.list()[0].valid(111.0)
    for change in (keys.revoke, keys.rotate):
        with pytest.raises(Conflict, match="revoked"):
            change("agent", now=120.0)
    with pytest.raises(Conflict, match="is or was"):
        keys.add("agent", ["decide"], now=120.0)
    with pytest.raises(UnknownName, match="No key"):
        keys.revoke("agnt", now=120.0)


@pytest.mark.parametrize("name", ["", "Agent", "a b", "../x", "agent\n", "owner", "page", "a" * 65])
def test_an_invalid_key_name_is_refused(database: Database, name: str) -> None:
    with pytest.raises(InvalidInput):
        Keys(database).add(name, ["decide"], now=0.0)
    assert Keys(database).list() == []


@pytest.mark.parametrize("scopes", [[], ["root"], ["decide", "everything"]])
def test_an_unknown_or_missing_scope_is_refused(database: Database, scopes: list[str]) -> None:
    with pytest.raises(InvalidInput):
        Keys(database).add("agent", scopes, now=0.0)


def test_jobs_are_claimed_in_order_by_one_worker_each(database: Database) -> None:
    jobs = Jobs(database)
    first, second = (jobs.add("learn", {"task": name}, now=1.0, key="page") for name in ("a", "b"))
    claimed = jobs.claim("w1", now=2.0, lease_s=10.0)
    assert claimed is not None
    assert (claimed.job, claimed.state, claimed.body, claimed.key) == (first.job, "running", {"task": "a"}, "page")
    other = jobs.claim("w2", now=2.0, lease_s=10.0)
    assert other is not None
    assert other.job == second.job
    assert jobs.claim("w3", now=3.0, lease_s=10.0) is None
    assert jobs.claim("w3", now=3.0, lease_s=10.0, kinds=("update",)) is None


def test_one_request_per_task_waits_and_a_key_may_make_six_a_minute(database: Database) -> None:
    jobs = Jobs(database)

    def request(task: str, now: float, key: str = "", seed: int = 1) -> Job:
        return jobs.request("learn", {"task": task, "seed": seed}, now=now, key=key, per_minute=6)

    first = request("a", 0.0)
    assert request("a", 1.0).job == first.job
    with pytest.raises(Conflict) as queued:
        request("a", 1.0, seed=2)
    assert queued.value.code == "job_queued"
    assert jobs.claim("w", now=1.0, lease_s=60) is not None
    assert request("a", 2.0).job > first.job  # the first one runs: rows that it does not see may have come
    for task in "bcde":
        request(task, 3.0)
    with pytest.raises(Busy) as limited:
        request("f", 30.0)
    assert (limited.value.code, limited.value.retry_after_s) == ("rate_limited", 30.0)
    assert request("f", 30.0, key="other").key == "other"
    assert request("g", 60.0).state == "queued"


def test_a_job_with_an_expired_lease_goes_to_another_worker(database: Database) -> None:
    jobs = Jobs(database)
    seq = jobs.add("learn", {}, now=1.0).job
    jobs.claim("w1", now=1.0, lease_s=10.0)
    jobs.progress(seq, 5, 10, worker="w1", now=9.0, lease_s=10.0)
    assert jobs.claim("w2", now=18.0, lease_s=10.0) is None
    taken = jobs.claim("w2", now=20.0, lease_s=10.0)
    assert taken is not None
    assert (taken.worker, taken.done, taken.total) == ("w2", 5, 10)
    with pytest.raises(Conflict, match="no longer holds the lease"):
        jobs.finish(seq, {"policy": "x"}, worker="w1", now=21.0)
    jobs.finish(seq, {"policy": "y"}, worker="w2", now=22.0)
    job = jobs.get(seq)
    assert (job.state, job.result, job.ended) == ("done", {"policy": "y"}, 22.0)
    with pytest.raises(Conflict):
        jobs.finish(seq, {}, worker="w2", now=23.0)
    with pytest.raises(UnknownName):
        jobs.get(99)


WORKER = """
import sys
from pathlib import Path
from headway.observe.engines import open_database
from headway.observe.jobs import at_work
place = sys.argv[1]
with at_work(open_database(place if place.startswith("postgresql:") else Path(place))):
    print("here", flush=True)
    sys.stdin.read()
"""


def test_a_killed_worker_no_longer_counts_as_running(database: Database, place: Path | str) -> None:
    assert not worker_there(database)
    with at_work(database), at_work(database):
        assert worker_there(database)
    assert not worker_there(database)
    with subprocess.Popen(
        [sys.executable, "-c", WORKER, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as worker:
        assert worker.stdout is not None
        worker.stdout.readline()
        assert worker_there(database)
        worker.kill()
        worker.wait()
    until = time.monotonic() + 10.0
    while worker_there(database) and time.monotonic() < until:
        pass  # the server detects a closed connection at its next read, shortly after
    assert not worker_there(database)
