"""Outages of upstreams as breakers saw them, told as one per upstream and time; the checks of `headway doctor`.

    log = OutageLog(project)
    outage = log.begin("small", since, now, "upstream_status", 5, 0)
    log.count(outage, 5, 3)
    log.end(outage, now, 5, 3)
    outages(project)                               # of all processes, oldest first
    told(project)                                  # the same, with what was told of each; tell(project, outage, ENDED)

A row is written when a breaker opens, and kept up to date by the process that owns it. The open rows of a process that
is gone are adopted by the next one, so an outage goes on over a restart.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from headway.nouns import Finding, Outage, errors
from headway.settings import Settings

if TYPE_CHECKING:
    from headway.observe import Connection
    from headway.project import Project


logger = logging.getLogger("headway.serve")
BEGUN, ENDED = 1, 2  # what people were told of an outage
_UNPRICED = "price unknown, so its calls do not count in savings: set price_in and price_out (0: free)"
_FAR_S = 600.0  # a process on another machine that has written nothing for so long is taken to be gone


def process() -> str:
    """The name of this process, which no later process has."""
    return _process(os.getpid())


@cache
def _process(pid: int) -> str:
    return f"{socket.gethostname()}/{pid}/{time.time_ns():x}"


def is_gone(name: str) -> bool | None:
    """Whether the process of that name has ended; None: it was on another machine."""
    me = process()
    host, pid, _ = name.rsplit("/", 2)
    my_host, my_pid, _ = me.rsplit("/", 2)
    if host != my_host:
        return None
    if pid == my_pid:
        return name != me
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


@dataclass(frozen=True, slots=True)
class OpenOutage:
    """A stored outage that has not ended."""

    id: str
    upstream: str
    since: float
    failures: int
    elsewhere: int


class OutageLog:
    """Writes the outages that one process sees; never waits, except for what it adopts at the start."""

    def __init__(self, project: Project) -> None:
        self._project, self._me = project, process()

    def adopted(self, upstreams: Iterable[str]) -> list[OpenOutage]:
        """The open outages of processes that are gone: from now on this one's, one for each upstream."""
        names = set(upstreams)
        columns = "id, upstream, since, failures, elsewhere, server, seen"
        sql = f"SELECT {columns} FROM outages WHERE ended IS NULL ORDER BY since"  # noqa: S608 — our own names
        adopted: dict[str, OpenOutage] = {}
        now = self._project.clock()
        for identifier, upstream, since, failures, elsewhere, server, seen in self._project.database.query(sql):
            gone = is_gone(server)
            if not (now - seen / 1e6 > _FAR_S if gone is None else gone):
                continue
            if upstream not in names or upstream in adopted:
                self.end(identifier, seen / 1e6, failures, elsewhere)
            elif self._take(identifier, server):
                adopted[upstream] = OpenOutage(identifier, upstream, since / 1e6, failures, elsewhere)
        return list(adopted.values())

    def _take(self, identifier: str, server: str) -> bool:
        def take(connection: Connection) -> bool:
            sql = "UPDATE outages SET server = ?, seen = ? WHERE id = ? AND server = ? AND ended IS NULL"
            values = (self._me, _micros(self._project.clock()), identifier, server)
            return bool(connection.execute(sql, values).rowcount)

        return self._project.writer.write(take)

    def begin(self, upstream: str, since: float, now: float, code: str, failures: int, elsewhere: int) -> str:
        """A breaker has opened; returns the id of the outage."""
        identifier = os.urandom(8).hex()
        values = (identifier, upstream, self._me, _micros(since), _micros(now), code, failures, elsewhere, _micros(now))
        self._write(
            "INSERT INTO outages (id, upstream, server, since, opened, code, failures, elsewhere, seen, told) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0)",
            values,
        )
        return identifier

    def count(self, outage: str, failures: int, elsewhere: int) -> None:
        """The counts of an open outage."""
        self._write(
            "UPDATE outages SET failures = ?, elsewhere = ?, seen = ? WHERE id = ? AND ended IS NULL",
            (failures, elsewhere, _micros(self._project.clock()), outage),
        )

    def end(self, outage: str, now: float, failures: int, elsewhere: int) -> None:
        """The upstream answers again."""
        self._write(
            "UPDATE outages SET ended = ?, failures = ?, elsewhere = ?, seen = ? WHERE id = ? AND ended IS NULL",
            (_micros(now), failures, elsewhere, _micros(now), outage),
        )

    def _write(self, sql: str, values: tuple[Any, ...]) -> None:
        def write(connection: Connection) -> None:
            connection.execute(sql, values)

        try:
            self._project.writer.submit(write)
        except errors.HeadwayError as error:  # a full queue: the next count says the same
            logger.warning("outage not stored: %s", error.message)


def outages(project: Project) -> list[Outage]:
    """Every outage, oldest first; what several processes saw of one is one outage."""
    return [outage for outage, _ in told(project)]


def told(project: Project) -> list[tuple[Outage, int]]:
    """Every outage, oldest first, and how much of it people were told: nothing, that it has `BEGUN` or `ENDED`."""
    places: dict[str, int] = {}  # of the latest one of an upstream
    known: list[tuple[Outage, int]] = []
    rows = project.database.query(
        "SELECT upstream, since, opened, ended, code, failures, elsewhere, told FROM outages ORDER BY since"
    )
    for upstream, since, opened, ended, code, failures, elsewhere, level in rows:
        outage = Outage(
            upstream=upstream,
            since=since / 1e6,
            opened=opened / 1e6,
            until=None if ended is None else ended / 1e6,
            code=code,
            failures=failures,
            elsewhere=elsewhere,
        )
        before, least = known[places[upstream]] if upstream in places else (None, 0)
        if before is None or (before.until is not None and before.until < outage.since):
            places[upstream] = len(known)
            known.append((outage, level))
            continue
        ends = before.until, outage.until
        merged = replace(
            before,
            until=None if None in ends else max(end for end in ends if end is not None),
            failures=before.failures + failures,
            elsewhere=before.elsewhere + elsewhere,
        )
        known[places[upstream]] = merged, max(least, level)
    return known


def tell(project: Project, outage: Outage, level: int) -> None:
    """Remember that people were told of an outage, whichever processes saw it."""
    values = (level, outage.upstream, _micros(outage.since), _micros(outage.until or project.clock()), level)
    sql = "UPDATE outages SET told = ? WHERE upstream = ? AND since BETWEEN ? AND ? AND told < ?"
    project.writer.write(lambda connection: connection.execute(sql, values).rowcount)


def _micros(seconds: float) -> int:
    return round(seconds * 1e6)


def check(settings: Settings) -> Iterator[Finding]:
    """The upstreams, and the tasks that choose between some of them."""
    for name, upstream in settings.upstreams.items():
        variable = upstream.key_env
        if variable and not settings.keys.get(variable):
            cure = f"Set the key, and start again: export {variable}=…"
            yield Finding(name=f"upstream {name}", ok=False, found=f"{variable} is not set: never called", cure=cure)
        else:
            price = f"${upstream.price_in or 0}/${upstream.price_out or 0} per million tokens"
            cost = (
                price
                if upstream.price_in or upstream.price_out
                else "counted as free"
                if upstream.priced
                else _UNPRICED
            )
            yield Finding(name=f"upstream {name}", ok=True, found=f"{upstream.model} at {upstream.url}, {cost}")
    for task in settings.tasks.values():
        missing = [action for action in task.actions if action not in settings.upstreams]
        if missing and len(missing) < len(task.actions):
            names = ", ".join(repr(action) for action in missing)
            near = errors.did_you_mean(missing[0], settings.upstreams)
            yield Finding(
                name=f"actions of {task.name}",
                ok=False,
                found=f"no [upstreams.*] for {names}: the proxy never chooses it",
                cure=f"Declare [upstreams.{missing[0]}] with url and model in headway.toml. {near}".strip(),
            )
