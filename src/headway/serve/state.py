"""The state of a running server, and its work between requests.

`watch` checks five times a second whether the store has changed. After a change it loads a new policy in a thread and
swaps one reference, reloads the keys, and publishes events to the page.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from headway.nouns import errors
from headway.observe import Changes, Keys, Links, worker_there
from headway.project import Project
from headway.serve.auth import Credentials, project_token
from headway.serve.connections import Connections, capacity
from headway.serve.events import Hub
from headway.serve.grouping import Grouping
from headway.serve.local import LocalCallers
from headway.serve.metrics import MetricFamily, Metrics, MetricSample, WorkerMetrics, metrics_text
from headway.serve.rate import Crowd, ReadingTime
from headway.serve.request_log import RequestLog
from headway.settings import ServerSettings

logger = logging.getLogger("headway.serve")
T = TypeVar("T")
CHECK_S = 0.2
_QUIET_S = 0.05
_LOOK_S = 60.0
_ALARM_TASKS = 100  # tasks whose alarms are in /metrics
_MOST_TASKS = 1000
_MOST_WAITING = 512
_MOST_FAR = 64
_THREADS = 4
_MOST_PAUSE_S = 0.1
_UNLIMITED = ("owner", "page")  # the project token and its page


class Server:
    """The server of one project; `worker`: its number among several processes."""

    def __init__(
        self, project: Project, settings: ServerSettings, *, log_requests: bool = True, worker: int | None = None
    ) -> None:
        self.project = project
        self.settings = settings
        self.keys = Keys(project.database)
        self.jobs = project.jobs
        token = project_token(project.home)
        self.credentials = Credentials(self.keys, Links(project.database), token, project.clock, settings.port)
        self.local = LocalCallers(settings, project.home)
        self.metrics = Metrics(worker)
        run = project.home / "run"
        self._worker_metrics = None if worker is None else WorkerMetrics(run, settings.port, worker, settings.workers)
        self.hub = Hub()
        self.grouping = Grouping(project, project.settings.store.queue)
        self.log = RequestLog(run / "requests.log" if log_requests else None, worker)
        self.observers: dict[str, Any] = {}  # of kits, by name
        self.document = b""  # /openapi.json
        self.stopping = False
        self.active = 0  # requests that are being answered
        self.entered = 0  # since the start
        self.started = time.monotonic()
        self.reading: dict[asyncio.Task[Any], float] = {}  # requests whose body is incomplete, and their deadline
        self._damage: errors.HeadwayError | None = None  # as of `_looked`
        self._looked = float("-inf")
        self.too_slow: set[asyncio.Task[Any]] = set()
        self.connections = Connections(settings, capacity(settings)[0])
        self._threads = ThreadPoolExecutor(_THREADS, "headway-serve")
        self.crowd = Crowd()
        self._turns: dict[tuple[str, int], asyncio.Semaphore] = {}  # by key, and how many at once
        self._reading_threads = ThreadPoolExecutor(4, "headway-reading")
        self._reading_times: dict[str, ReadingTime] = {}  # by key
        self._open_threads = ThreadPoolExecutor(4, "headway-open")  # of callers without a key
        self._open_waiting = 0
        self._far_threads = ThreadPoolExecutor(_MOST_FAR, "headway-far")  # that wait for other servers
        self._far = 0
        self._tasks = set(project.tasks())
        self.changes = Changes(project.database)
        project.servings.watched = True
        self.metrics.gauge(
            "queued_writes",
            "The number of writes that wait for the next commit.",
            lambda: project.queued + len(self.grouping),
        )
        self.metrics.gauge("connections", "Open connections.", lambda: self.connections.open)
        self.metrics.gauge("closed_connections", "Connections closed by limits.", lambda: self.connections.closed)
        self.metrics.gauge("event_streams", "Open event streams.", lambda: len(self.hub))
        self.metrics.gauge("active_requests", "Requests being answered.", lambda: self.active)
        self.metrics.gauge("uptime_seconds", "Since the server started.", lambda: time.monotonic() - self.started)

    async def in_thread(self, work: Callable[..., T], *values: Any) -> T:
        """Run work that may block: reads of many rows, locks, files."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *values)

    async def in_key_thread(self, key: str, work: Callable[..., T], *values: Any) -> T:
        """Work of a caller that may block: a key has half of the threads at once, or one while another key writes."""
        if not key:
            return await self.in_open_thread(work, *values)
        most = 1 if self.crowd.around(key) else _THREADS // 2
        return await self.in_order(key, most, lambda: self.in_thread(work, *values))

    async def in_order(self, key: str, most: int, work: Callable[[], Awaitable[T]]) -> T:
        """Work of which a key has at most so much in progress; where that is one, it pauses as long as it worked."""
        turn = self._turns.setdefault((key, most), asyncio.Semaphore(most))
        await turn.acquire()
        began = time.monotonic()
        try:
            return await work()
        finally:
            if most > 1:
                turn.release()
            else:
                pause = min(time.monotonic() - began, _MOST_PAUSE_S)
                asyncio.get_running_loop().call_later(pause, turn.release)

    async def in_turn(self, key: str, work: Callable[[], Awaitable[T]]) -> T:
        """Work that reads much, when it is this key's turn: every key but the owner's has a share of the time."""
        if not key or key in _UNLIMITED:
            return await work()
        async with self._reading_times.setdefault(key, ReadingTime()).taken():
            return await work()

    async def in_reading_thread(self, key: str, work: Callable[..., T], *values: Any) -> T:
        """The same for work that may block, in threads of its own."""
        if not key:
            return await self.in_open_thread(work, *values)
        loop = asyncio.get_running_loop()
        return await self.in_turn(key, lambda: loop.run_in_executor(self._reading_threads, work, *values))

    async def explained(self, error: BaseException) -> BaseException:
        """The damage of the store that may be behind an error that nobody expected; looks once a minute at most."""
        if time.monotonic() - self._looked > _LOOK_S:
            self._looked = time.monotonic()
            try:
                self._damage = await self.in_thread(self.project.damage)
            except errors.HeadwayError as unreadable:
                self._damage = unreadable
        return self._damage or error

    async def in_open_thread(self, work: Callable[..., T], *values: Any) -> T:
        """The same for callers without a key, in threads of their own, so that the others do not wait for them."""
        if self._open_waiting >= _MOST_WAITING:
            raise errors.Busy(
                f"{_MOST_WAITING} requests without a key wait already.", code="queue_full", retry_after_s=1
            )
        self._open_waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._open_threads, work, *values)
        finally:
            self._open_waiting -= 1

    async def in_far_thread(self, work: Callable[..., T], *values: Any, keyed: bool) -> T:
        """Run work that waits for another server; a quarter of the places is for callers with a key."""
        if self._far >= (_MOST_FAR if keyed else _MOST_FAR * 3 // 4):
            raise errors.Busy(f"{self._far} calls to other servers wait already.", code="queue_full", retry_after_s=1)
        self._far += 1
        working = asyncio.get_running_loop().run_in_executor(self._far_threads, work, *values)
        working.add_done_callback(self._far_done)  # the thread goes on when its caller is gone
        return await asyncio.shield(working)

    def _far_done(self, working: asyncio.Future[Any]) -> None:
        self._far -= 1
        if not working.cancelled():
            working.exception()  # nobody may be left to ask

    def need_worker(self) -> None:
        """503 `worker_missing` unless a worker of this project is alive: the server itself never trains."""
        if not worker_there(self.project.database):
            hint = "Start one in the project's folder: headway watch"
            raise errors.Unavailable("This needs a worker, and none is running.", code="worker_missing", hint=hint)

    def admit(self, task: str) -> None:
        """Refuses a new task if clients have created too many on first use."""
        if task in self._tasks or self.project.settings.declared:
            return
        if len(self._tasks) >= _MOST_TASKS:
            raise errors.Conflict(
                f"Clients created {_MOST_TASKS:,} tasks on first use; {task[:80]!r} would be one more.",
                code="too_many_tasks",
                hint="A task is a kind of decision, not a single one. Declare yours in headway.toml.",
            )
        self._tasks.add(self.project.settings.task(task).name)

    # -- between requests

    async def watch(self) -> None:
        """Runs until cancelled."""
        every = min(CHECK_S, self.settings.read_timeout_s / 4)
        while True:
            await asyncio.sleep(every)
            self._drop_slow()
            self.local.refresh()
            try:
                await self.in_thread(self.connections.sweep)
                await self.in_thread(self.log.flush)
                if self._worker_metrics is not None and self._worker_metrics.due():
                    await self.in_thread(self._worker_metrics.write, self.metrics.families())
                if await self._store_changed():
                    await self._reload()
            except (errors.HeadwayError, OSError) as error:  # a full disk must not stop the watch
                if not isinstance(error, errors.Unavailable) or error.code != "store_lost":
                    logger.warning("watch failed: %s", error)
                elif self.project.writer.failure is not error:  # said once; /health says it from now on
                    logger.error("%s", error)
                    self.project.writer.failure = error

    async def _store_changed(self) -> bool:
        """SQLite answers at once, and only for the thread that asks; a database server may be slow or down."""
        if self.project.database.engine == "sqlite":
            return self.changes.moved()
        return await self.in_thread(self.changes.moved)

    def _drop_slow(self) -> None:
        now = time.monotonic()
        for task, until in list(self.reading.items()):
            if now > until:
                self.too_slow.add(task)
                task.cancel()

    async def _reload(self) -> None:
        """Reload keys and policies in a thread, then publish the changes."""
        changes = await self.in_thread(self.changes.news)
        try:
            await self.in_thread(self.credentials.reload)
            await self.in_thread(self.project.servings.refresh)
        finally:  # last, so that a request caused by an event sees the new state
            for name, data in changes:
                self.hub.publish(name, data)

    def now(self) -> list[tuple[str, Any]]:
        """The present state: the first events of every stream."""
        return [
            ("hello", {"tasks": self.project.tasks()}),
            *((what, {"last": last}) for what, last in self.changes.last.items()),
        ]

    async def metrics_text(self) -> bytes:
        """The body of /metrics: the counters of all workers, from any of them."""
        own = self.metrics.families()
        others = [] if self._worker_metrics is None else await self.in_thread(self._worker_metrics.others)
        alarms = await self.in_thread(self._alarms)
        return await self.in_thread(metrics_text, [[*own, alarms], *others])

    def _alarms(self) -> MetricFamily:
        """From the ledger, so that every worker gives the same numbers."""
        name, ledger = "headway_open_alarms", self.project.ledger
        samples = [
            MetricSample(name, {"task": task}, float(ledger.heads(task).alarm is not None))
            for task in self.project.tasks()[:_ALARM_TASKS]
        ]
        return MetricFamily(name, "gauge", "1 while an alarm of the task is open: outcomes have changed.", samples)

    # -- stopping

    async def drain(self, limit_s: float) -> bool:
        """Finish open requests and refuse new ones, until none arrive; streams end. False: it took too long."""
        self.stopping = True
        self.hub.close()
        until, entered = time.monotonic() + limit_s, -1
        while self.active or self.entered != entered:
            if time.monotonic() > until:
                return not self.active
            entered = self.entered
            await asyncio.sleep(_QUIET_S)
        return True

    def close(self) -> None:
        """Commits queued writes and closes the files."""
        self.log.flush()
        for threads in (self._threads, self._reading_threads, self._open_threads, self._far_threads):
            threads.shutdown(wait=False, cancel_futures=True)
        self.project.close()
