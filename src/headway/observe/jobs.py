"""Jobs: work that the server requests and a worker does. A job is queued, leased, and ends as done or failed.

    job = jobs.add("learn", {"task": "route"}, now=clock())
    jobs.claim("worker-1", now=clock(), lease_s=60)      # the oldest that is queued, or whose lease expired
    jobs.progress(job.job, 400, 4000, now=clock(), lease_s=60)
    jobs.finish(job.job, {"policy": "bandit@4f2a"}, now=clock())

An expired lease puts the job back in the queue, so work must be safe to repeat. A running worker holds a lock
(`at_work`, `worker_there`), which is released at once if the worker is killed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from headway.nouns import Internal, Time, errors
from headway.observe.database import Connection, Database, placeholders
from headway.observe.rows import dumps, loads, microseconds

JobState = Literal["queued", "running", "done", "failed"]
_WORKING = "run/worker"
_REQUESTING = "run/jobs"
_MINUTE_S = 60.0
_COLUMNS = "seq, kind, body, key, state, worker, done, total, result, at, ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Work of a worker: queued, running, done or failed."""

    job: int
    kind: str
    body: Internal[Mapping[str, Any]]
    key: Internal[str]  # the name of the API key that requested it
    state: JobState
    worker: Internal[str] = ""
    done: int = 0
    total: int | None = None
    result: Any = None
    at: Time = 0.0
    ended: Time | None = None


class Jobs:
    """The jobs of a project."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, kind: str, body: Mapping[str, Any], *, now: float, key: str = "") -> Job:
        with self._database.transaction() as connection:
            row = connection.execute(
                "INSERT INTO jobs (kind, body, key, state, worker, done, at) VALUES (?, ?, ?, 'queued', '', 0, ?) "
                f"RETURNING {_COLUMNS}",
                (kind, dumps(body), key, microseconds(now)),
            ).fetchone()
        return _job(row)

    def request(self, kind: str, body: Mapping[str, Any], *, now: float, key: str = "", per_minute: int) -> Job:
        """The job of a caller: the one that is queued already if it is the same.

        Another one for the same task is a Conflict while it waits; more than `per_minute` of a key is Busy.
        """
        with self._database.lock(_REQUESTING):
            rows = self._database.query(
                f"SELECT {_COLUMNS} FROM jobs WHERE kind = ? AND state = 'queued' ORDER BY seq", (kind,)
            )
            for job in map(_job, rows):
                if job.body == body:
                    return job
                if job.body.get("task") == body.get("task"):
                    raise errors.Conflict(
                        f"Job {job.job} of this task is queued already, with other settings.",
                        code="job_queued",
                        hint=f"Wait until it runs: GET /v1/jobs/{job.job}",
                    )
            times = self._database.query(
                "SELECT at FROM jobs WHERE kind = ? AND key = ? AND at > ? ORDER BY at DESC LIMIT ?",
                (kind, key, microseconds(now - _MINUTE_S), per_minute),
            )
            if len(times) >= per_minute:
                raise errors.Busy(
                    f"This key requested {per_minute} jobs within a minute.",
                    code="rate_limited",
                    hint="One job learns from everything that has come in; more of them bring nothing.",
                    retry_after_s=max(1.0, times[-1][0] / 1e6 + _MINUTE_S - now),
                )
            return self.add(kind, body, now=now, key=key)

    def begin(self, kind: str, body: Mapping[str, Any], *, worker: str, now: float, lease_s: float) -> Job:
        """A job that a worker starts by itself: its row is running from the start."""
        with self._database.transaction() as connection:
            row = connection.execute(
                "INSERT INTO jobs (kind, body, key, state, worker, lease, done, at) "
                f"VALUES (?, ?, '', 'running', ?, ?, 0, ?) RETURNING {_COLUMNS}",
                (kind, dumps(body), worker, microseconds(now + lease_s), microseconds(now)),
            ).fetchone()
        return _job(row)

    def waiting(self, kinds: tuple[str, ...], *, now: float) -> bool:
        """Whether `claim` would return a job; only reads."""
        rows = self._database.query(
            "SELECT 1 FROM jobs WHERE (state = 'queued' OR (state = 'running' AND lease < ?)) "
            f"AND kind IN ({placeholders(kinds)}) LIMIT 1",
            (microseconds(now), *kinds),
        )
        return bool(rows)

    def abandoned(self, worker: str, *, own: tuple[str, ...], result: Any, now: float) -> list[Job]:
        """Jobs that a dead worker of this name left running: its `own` kinds fail, others are queued again.

        Call it only if the worker is known to be dead, because this process now holds its lock.
        """
        with self._database.transaction() as connection:
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM jobs WHERE state = 'running' AND worker = ? ORDER BY seq", (worker,)
            ).fetchall()
            for row in rows:
                ended = row[1] in own
                connection.execute(
                    "UPDATE jobs SET state = ?, result = ?, ended = ?, lease = NULL WHERE seq = ?",
                    (
                        "failed" if ended else "queued",
                        dumps(result) if ended else None,
                        microseconds(now) if ended else None,
                        row[0],
                    ),
                )
        return [_job(row) for row in rows]

    def get(self, seq: int) -> Job:
        rows = self._database.query(f"SELECT {_COLUMNS} FROM jobs WHERE seq = ?", (seq,))
        if not rows:
            raise errors.UnknownName(f"There is no job {seq}.", code="unknown_job", hint="GET /v1/jobs lists them.")
        return _job(rows[0])

    def latest(self, limit: int = 100) -> list[Job]:
        return [
            _job(row)
            for row in self._database.query(f"SELECT {_COLUMNS} FROM jobs ORDER BY seq DESC LIMIT ?", (limit,))
        ]

    def last(self, kind: str) -> Job | None:
        """The newest job of a kind that has ended."""
        rows = self._database.query(
            f"SELECT {_COLUMNS} FROM jobs WHERE state IN ('done', 'failed') AND kind = ? ORDER BY seq DESC LIMIT 1",
            (kind,),
        )
        return _job(rows[0]) if rows else None

    def claim(self, worker: str, *, now: float, lease_s: float, kinds: tuple[str, ...] = ()) -> Job | None:
        """Lease the oldest waiting job to this worker; None if there is none."""
        only = f" AND kind IN ({placeholders(kinds)})" if kinds else ""
        with self._database.transaction() as connection:
            row = connection.execute(
                f"SELECT seq FROM jobs WHERE (state = 'queued' OR (state = 'running' AND lease < ?)){only} "
                "ORDER BY seq LIMIT 1",
                (microseconds(now), *kinds),
            ).fetchone()
            if row is None:
                return None
            return _job(
                connection.execute(
                    f"UPDATE jobs SET state = 'running', worker = ?, lease = ? WHERE seq = ? RETURNING {_COLUMNS}",
                    (worker, microseconds(now + lease_s), row[0]),
                ).fetchone()
            )

    def progress(self, seq: int, done: int, total: int | None, *, worker: str, now: float, lease_s: float) -> None:
        """Report progress and renew the lease. Raises Conflict if another worker has the job now."""
        with self._database.transaction() as connection:
            _check_lease(connection, seq, worker)
            connection.execute(
                "UPDATE jobs SET done = ?, total = ?, lease = ? WHERE seq = ?",
                (done, total, microseconds(now + lease_s), seq),
            )

    def finish(self, seq: int, result: Any, *, worker: str, now: float, failed: bool = False) -> None:
        with self._database.transaction() as connection:
            _check_lease(connection, seq, worker)
            connection.execute(
                "UPDATE jobs SET state = ?, result = ?, lease = NULL, ended = ? WHERE seq = ?",
                ("failed" if failed else "done", dumps(result), microseconds(now), seq),
            )


def _check_lease(connection: Connection, seq: int, worker: str) -> None:
    row = connection.execute("SELECT state, worker FROM jobs WHERE seq = ?", (seq,)).fetchone()
    if row is None or row != ("running", worker):
        raise errors.Conflict(
            f"This worker no longer holds the lease of job {seq}.",
            code="lease_lost",
            hint="Discard the result: another worker repeats the job.",
        )


def _job(row: tuple[Any, ...]) -> Job:
    seq, kind, body, key, state, worker, done, total, result, at, ended = row
    return Job(
        job=seq,
        kind=kind,
        body=loads(body),
        key=key,
        state=state,
        worker=worker,
        done=done,
        total=total,
        result=None if result is None else loads(result),
        at=at / 1e6,
        ended=None if ended is None else ended / 1e6,
    )


@contextmanager
def at_work(database: Database) -> Iterator[None]:
    """Mark this process as a running worker. Several processes may do so."""
    with database.lock(_WORKING, shared=True):
        yield


def worker_there(database: Database) -> bool:
    """Whether any worker of this store is alive."""
    with database.lock(_WORKING, wait=False) as free:
        return not free
