"""Watches a project and runs the cycles that are due, one at a time, until it is stopped.

    with Watch(Path("."), say=print) as watch:
        watch.check()         # every task once, in turn: the result, or the reason for doing nothing
        watch.run()           # until SIGTERM or Ctrl-C

One watch per project (`.headway/run/watch.lock`). A cycle is a row in `jobs` with its progress and result; the server
sees nothing else of it. A task whose cycle fails is tried again after growing pauses; the others continue. Nothing
that a restart needs is kept in memory: what is due is read from ledger and store.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from headway.loop.cycle import WHO, CycleResult, cycle
from headway.loop.due import Due, Marks, due
from headway.loop.lock import alone, held
from headway.loop.stop import Stopped, stoppable
from headway.loop.when import Machine, machine, not_now
from headway.nouns import Clock, Progress, Teller, errors, load, plural
from headway.observe import UNREADABLE, Job, Jobs, at_work
from headway.project import Project
from headway.promote import Standing, next_step

__all__ = ["LOCK", "WORKER", "Stopped", "TaskCheck", "Watch"]

logger = logging.getLogger("headway.loop")
LOCK = Path("run", "watch.lock")
WORKER = "watch"
_STORE_ERRORS = (errors.HeadwayError, OSError, *UNREADABLE)
_LEASE_S = 60.0
_TICK_S = 0.5  # how soon work that the server requests is started
_SETTLE_S = 1.0  # outcomes are brought up to date, and an online policy gets a snapshot, once a second at most
_REPORT_S = 0.3
_RETAIN_S = 3600.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 30.0, 3600.0  # after a failed cycle
_PARTS = {"settle": (0, 10), "guard": (10, 20), "prove": (60, 95)}  # percent of a cycle; learning is between
_INTERRUPTED = {"error": {"code": "interrupted", "message": "The worker ended during this.", "hint": ""}}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCheck:
    """The result of checking one task: something done, a reason for doing nothing, or an error."""

    task: str
    done: CycleResult | None = None
    skipped: str = ""
    error: str = ""

    def __str__(self) -> str:
        return f"{self.task}: {self.done.summary if self.done else self.error or self.skipped}"


class Watch:
    """The loop of one project. Holds the project's watch lock while it is open."""

    def __init__(
        self,
        folder: Path,
        *,
        say: Callable[[str], None] = lambda _line: None,
        clock: Clock = time.time,
        machine: Callable[[Path], Machine] = machine,
        timed: bool = True,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self._say = say
        self._clock = clock
        self._machine = machine
        self._timed = timed  # whether `window` and `idle_s` of [watch] apply
        self._environ = environ
        self._marks: dict[str, Marks] = {}
        self._settled = 0.0
        self._retained = float("-inf")
        self._version = -1
        self._stack = ExitStack()
        self._wake = threading.Event()
        self._stop_if_asked: Callable[[], None] = lambda: None
        self.tellers: dict[str, Teller] = {}  # of kits, by name

    def __enter__(self) -> Self:
        home = self.folder / ".headway"
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        with ExitStack() as stack:
            stack.enter_context(held(home / LOCK, "headway watch"))
            self._open()
            stack.callback(self._close)  # not `project.close`: the project is reopened when its settings change
            stack.enter_context(alone(self.project.database, "headway watch"))
            stack.enter_context(at_work(self.project.database))
            self._remember()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    # -- continuously

    def run(self) -> None:
        """Check every `interval_s`; in between, fold online policies and run what the server requests."""
        with contextlib.suppress(Stopped), stoppable() as self._stop_if_asked:
            next_check = 0.0
            while True:
                self._stop_if_asked()
                if time.monotonic() >= next_check:
                    self.check()
                    next_check = time.monotonic() + self.project.settings.watch.interval_s
                self._between()
                self._wake.wait(min(_TICK_S, self.project.settings.watch.interval_s))

    def _between(self) -> None:
        try:
            for teller in self.tellers.values():
                teller.pump()
            version = self.project.database.version()
            if version == self._version:
                return
            self._version = version
            self._settle()
            self._run_requests()
        except _STORE_ERRORS as error:  # a full disk, a locked store: the next tick tries again
            logger.warning("failed between two checks: %s", error)

    # -- one check

    def check(self) -> list[TaskCheck]:
        """Check every task once, the one that waited longest first."""
        self._reopen_if_changed()
        self._retain()
        checks = []
        for task in sorted(self._tasks(), key=lambda name: self._marks.setdefault(name, Marks()).last):
            self._check_outcomes(task)
            check = self._check_task(task)
            checks.append(check)
            self._report(check)
        return checks

    def _check_outcomes(self, task: str) -> None:
        """Raise an alarm if the outcomes of what is served have changed, also where cycles fail or may not run."""
        try:
            self.project.settle(task)
            for teller in self.tellers.values():
                teller.check(task)
            entry = self.project.check_alarm(task, who=WHO)
            if entry is None:
                return
            alarm = self.project.alarms(task)[-1]
            logger.warning(
                "alarm task=%s stream=%r before=%.3f after=%.3f", task, alarm.stream, alarm.before, alarm.after
            )
            self._say(f"{task}: alarm: {alarm}")
            for teller in self.tellers.values():
                teller.add(alarm)
        except _STORE_ERRORS as error:
            logger.warning("outcomes not checked task=%s: %s", task, error)

    def _check_task(self, task: str) -> TaskCheck:
        marks = self._marks.setdefault(task, Marks())
        try:
            if (wait := marks.not_before - self._clock()) > 0:
                return TaskCheck(task=task, skipped=f"the last cycle failed; tried again in {wait:.0f} s")
            why_not = self._not_now()
            self.project.settle(task)
            standing = self.project.standing(task)
            work = due(standing, marks, may_train=not why_not)
            if not work.why:
                return TaskCheck(task=task, skipped=_nothing_due(standing, why_not))
            marks.last = self._clock()
            done = self._cycle(task, work, marks)
        except Exception as error:  # noqa: BLE001 — an error in one task must not stop the others
            return self._failed(task, marks, error)
        marks.failures, marks.not_before = 0, 0.0
        return TaskCheck(task=task, done=done)

    def _cycle(self, task: str, work: Due, marks: Marks) -> CycleResult:
        """Run the cycle as a job: running, then done or failed with its result."""
        project, jobs = self.project, self.project.jobs
        started_at, started = self._clock(), time.monotonic()
        job = jobs.begin("cycle", {"task": task, "why": work.why}, worker=WORKER, now=started_at, lease_s=_LEASE_S)
        try:
            done = cycle(project, task, work, marks, self._progress(jobs, job, task))
            took = time.monotonic() - started
            paths = ((kit, path) for kit in project.catalogue for path in kit.cycles)
            pages = [tell(project, done, job.job, started_at, took) for _, tell in project.catalogue.usable(paths)]
        except (Exception, Stopped) as error:
            jobs.finish(job.job, _error(error), worker=WORKER, now=self._clock(), failed=True)
            raise
        body = {**done.body(), "report": next(filter(None, pages), ""), "seconds": round(took, 3)}
        jobs.progress(job.job, 100, 100, worker=WORKER, now=self._clock(), lease_s=_LEASE_S)
        jobs.finish(job.job, body, worker=WORKER, now=self._clock())
        return done

    def _failed(self, task: str, marks: Marks, error: Exception) -> TaskCheck:
        marks.failures += 1
        marks.not_before = self._clock() + min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** (marks.failures - 1))
        if isinstance(error, UNREADABLE):
            error = self.project.damage() or error
        if isinstance(error, errors.HeadwayError):
            logger.warning("cycle failed task=%s code=%s", task, error.code)
            return TaskCheck(task=task, error=f"failed: {error}")
        logger.error("cycle failed task=%s", task, exc_info=error)
        return TaskCheck(task=task, error=f"failed: {type(error).__name__}: {error}")

    def _not_now(self) -> str:
        latest = self.project.query.latest(None, 1)
        return not_now(
            self.project.settings.watch,
            now=datetime.fromtimestamp(self._clock(), UTC).astimezone(),
            last_decision=latest[0].at if latest else None,
            state=self._machine(self.folder),
            timed=self._timed,
        )

    def _report(self, check: TaskCheck) -> None:
        """Report changes; a verdict or a reason is reported only once."""
        marks = self._marks[check.task]
        done = check.done
        text = check.skipped or check.error
        if done is not None:
            text = f"{done.proved} {done.verdict.state}" if done.verdict is not None else done.summary
            if done.learned or done.promoted or done.canary or done.experiment or done.rolled_back:
                marks.reported = ""
        if text in (marks.reported, "nothing is due", "nothing changed") or text.startswith("the last cycle failed"):
            return
        marks.reported = text
        self._say(str(check))

    # -- other work

    def _retain(self) -> None:
        """Once an hour: delete what is older than `keep_days`."""
        if self._clock() - self._retained < _RETAIN_S:
            return
        self._retained = self._clock()
        try:
            done = self.project.retain()
        except (errors.HeadwayError, OSError) as error:
            logger.warning("retention failed: %s", error)
            self._say(f"decisions older than keep_days could not be deleted: {error}")
            return
        if done is not None:
            learned = f"; {', '.join(done.bundles)} learned from them" if done.bundles else ""
            self._say(f"deleted {plural(done.decisions, 'decision')} older than keep_days{learned}")

    def _settle(self) -> None:
        """Bring outcomes up to date, for all who only read them, and online policies with them."""
        now = time.monotonic()
        if now - self._settled < _SETTLE_S:
            self._version = -1  # look again at the next tick
            return
        self._settled = now
        for task in self._tasks():
            try:
                if self.project.settings.task(task).online == "live":
                    self.project.fold(task)
                else:
                    self.project.settle(task)
            except errors.HeadwayError as error:
                if not isinstance(error, errors.Conflict):  # a promotion came in between: the next fold starts from it
                    logger.warning("not settled task=%s code=%s", task, error.code)

    def _run_requests(self) -> None:
        """Run the jobs that callers requested from the server."""
        jobs = self.project.jobs
        for kind, run in self.project.catalogue.all("jobs").items():  # a kit is loaded when one of its jobs waits
            if jobs.waiting((kind,), now=self._clock()):
                load(run)(self.project, WORKER, self._clock, self._say)
        while jobs.waiting(("learn",), now=self._clock()):
            job = jobs.claim(WORKER, now=self._clock(), lease_s=_LEASE_S, kinds=("learn",))
            if job is None:
                return
            task = str(job.body["task"])
            try:
                ref = self.project.learn(
                    task,
                    family=job.body.get("family"),
                    seed=job.body.get("seed"),
                    progress=self._progress(jobs, job, task),
                )
            except Exception as error:  # noqa: BLE001 — one request must not end the loop
                logger.warning("learn failed task=%s error=%s", task, error)
                jobs.finish(job.job, _error(error), worker=WORKER, now=self._clock(), failed=True)
                continue
            jobs.finish(job.job, {"task": task, "policy": ref}, worker=WORKER, now=self._clock())
            self._say(f"{task}: learned {ref} on request")

    # -- the project

    def _tasks(self) -> list[str]:
        """The tasks that have settings; a task that is no longer declared is skipped."""
        settings = self.project.settings
        return [name for name in self.project.tasks() if name in settings.tasks or not settings.declared]

    def _close(self) -> None:
        for teller in self.tellers.values():
            teller.wait(0.0)  # note what was sent
        self.project.close()

    def _open(self) -> None:
        self.project = Project(self.folder, environ=self._environ, clock=self._clock)
        for name, path in self.project.catalogue.all("tellers").items():
            self.tellers[name] = self.tellers.get(name) or load(path)(self._clock)
            self.tellers[name].use(self.project)
        self._read = _stamp(self.project.settings.file)

    def _reopen_if_changed(self) -> None:
        """Reopen the project after headway.toml was edited; keep the old settings while it is invalid."""
        file = self.folder / "headway.toml"
        if _stamp(file) == self._read:
            return
        before = self.project
        try:
            before.database.version()  # a store that was lost is not replaced by a new one
            self._open()
        except errors.HeadwayError as error:
            self._read = _stamp(file)
            logger.warning("headway.toml ignored: %s", error)
            self._say(f"headway.toml has an error, so the old settings stay in use: {error}")
            return
        before.close()
        self._version = -1

    def _remember(self) -> None:
        """Close the jobs that the last watch left running; a task that ended it repeatedly has to wait."""
        jobs = self.project.jobs
        jobs.abandoned(WORKER, own=("cycle",), result=_INTERRUPTED, now=self._clock())
        ended: dict[str, bool] = {}
        for job in jobs.latest(100):
            task = str(job.body.get("task", ""))
            if job.kind != "cycle" or ended.get(task):
                continue
            marks = self._marks.setdefault(task, Marks())
            marks.last = max(marks.last, job.at)
            if job.state == "failed" and job.result == _INTERRUPTED:
                marks.failures += 1
            else:
                ended[task] = True
        for marks in self._marks.values():
            if marks.failures >= 3:
                marks.not_before = marks.last + min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** (marks.failures - 3))

    def _progress(self, jobs: Jobs, job: Job, task: str) -> Progress:
        """Percent of the cycle, written a few times a second at most."""
        rows = max(1, self.project.query.count_settled(task))
        reported = 0.0

        def report(what: str, done: int, of: int | None) -> None:
            nonlocal reported
            self._stop_if_asked()
            now = time.monotonic()
            if now - reported < _REPORT_S:
                return
            reported = now
            first, last = _PARTS.get(what, (20, 60))
            percent = first + int((last - first) * min(1.0, done / (of or rows)))
            jobs.progress(job.job, percent, 100, worker=WORKER, now=self._clock(), lease_s=_LEASE_S)

        return report


def _nothing_due(standing: Standing, why_not: str) -> str:
    if standing.kit_missing:
        return f"kit_missing: {next_step(standing).why}"
    if standing.waits:
        return f"a proven candidate waits for you: {next_step(standing).command}"
    return f"not now: {why_not}" if why_not else "nothing is due"


def _error(error: BaseException) -> dict[str, Any]:
    if isinstance(error, Stopped):
        return {"error": {"code": "stopped", "message": "The loop was stopped during this.", "hint": ""}}
    if isinstance(error, errors.HeadwayError):
        return {"error": {"code": error.code, "message": error.message, "hint": error.hint}}
    return {"error": {"code": "failed", "message": f"{type(error).__name__}: {error}"[:500], "hint": ""}}


def _stamp(file: Path | None) -> tuple[int, int] | None:
    try:
        state = None if file is None else file.stat()
    except OSError:
        return None
    return None if state is None else (state.st_mtime_ns, state.st_size)
