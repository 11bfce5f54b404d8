"""Tells people about alarms and outages: a webhook, a command, or both, as `[alerts]` in headway.toml says.

    alerts = Alerts(clock)
    alerts.use(project)
    alerts.add(alarm)        # begun or ended: a row in `jobs`, so that a restart sends what was not sent
    alerts.pump()            # send the next one, note how the last one went; never waits

Alerts are sent one at a time, to the webhook and the command at once, in threads of their own. A receiver that hangs,
fails, redirects or answers without end costs its thread and nothing else: it has a deadline, answers are cut at 64 KiB,
redirects are not followed, and a temporary failure is retried once. How it went is the job's result, which `headway
status` shows if it failed.

Not covered: an alarm that ends while no loop runs; the page, the ledger and `headway status` tell that.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from headway.client import run
from headway.kits.models import CallFailed, Outgoing
from headway.kits.proxy import BEGUN, ENDED, tell, told
from headway.nouns import Alarm, Outage, document, errors, rfc3339
from headway.project import Project
from headway.settings import Url, Variable

logger = logging.getLogger("headway.loop")
KIND = "alert"
_WORKER = "watch"
_OLD_S = 86_400.0  # an outage that ended before is not told any more
_LEASE_S = 3600.0
_TRIES = 2
_MOST_BYTES = 65_536
_STARTS_S = 5.0  # for starting threads and commands on a busy machine
_SLACK_S = 30.0  # after all time limits: then a thread is left alone
_ABANDONED = 4  # threads that may be left alone before alerts stop


@dataclass(slots=True)
class _Sending:
    """An alert on its way. The threads write `results`, and `done` last."""

    job: int
    task: str
    ways: Mapping[str, Callable[[], str]]  # whom to tell
    until: float  # of the monotonic clock
    results: dict[str, str] = field(default_factory=dict)
    done: threading.Event = field(default_factory=threading.Event)


class Alerts:
    """The alerts of one project. Call it from one thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._sending: _Sending | None = None
        self._waiting = True  # there may be some of an earlier run
        self._abandoned = 0
        self._open: dict[str, set[int]] = {}  # task → the open alarms that are followed

    def use(self, project: Project) -> None:
        """Use this project and its settings from now on; alarms that are being sent are not interrupted."""
        settings = project.settings
        self._project = project
        self._settings: AlertSettings = settings.kit_tables.get("alerts", AlertSettings())
        self._key = settings.keys.get(self._settings.key_env, "")
        self._jobs = project.jobs

    def add(self, alarm: Alarm) -> None:
        """Queue and send the alert about an alarm, if anybody wants one; an open one is followed until it ends."""
        if alarm.open:
            self._open.setdefault(alarm.task, set()).add(alarm.seq)
        if self._settings.webhook or self._settings.command:
            self._jobs.add(KIND, alert_body(alarm, self._project.settings.directory.resolve().name), now=self._clock())
            self._waiting = True
            self.pump()

    def check(self, task: str) -> None:
        """Queue alerts about alarms that have ended since the last call, whoever ended them, and about outages."""
        self._check_outages()
        before = self._open.get(task, set())
        if not before and self._project.ledger.heads(task).alarm is None:
            return
        alarms = self._project.alarms(task)
        for alarm in alarms:
            if alarm.seq in before and not alarm.open:
                self.add(alarm)
        self._open[task] = {alarm.seq for alarm in alarms if alarm.open}

    def _check_outages(self) -> None:
        """Queue the outages that were not reported yet; one that is over is reported as such."""
        if not (self._settings.webhook or self._settings.command):
            return
        for outage, level in told(self._project):
            wanted = BEGUN if outage.open else ENDED
            if level < wanted and self._clock() - (outage.until or outage.since) < _OLD_S:
                tell(self._project, outage, wanted)
                self._jobs.add(KIND, outage_body(outage, self._project), now=self._clock())
                self._waiting = True
        self.pump()

    def pump(self) -> None:
        """Finish what was sent, and start the next; returns at once."""
        if self._sending is not None and not self._finished(self._sending):
            return
        self._sending = None
        if not self._waiting or self._abandoned >= _ABANDONED:
            return
        job = self._jobs.claim(_WORKER, now=self._clock(), lease_s=_LEASE_S, kinds=(KIND,))
        self._waiting = job is not None
        if job is not None:
            self._sending = _Sending(
                job.job, job.body["task"], self._ways(job.body), time.monotonic() + self.longest_s + _SLACK_S
            )
            _thread(_send, self._sending)

    @property
    def longest_s(self) -> float:
        """The longest that one alert takes: every try of the webhook, and a pause between them."""
        return self._settings.timeout_s * (_TRIES + 1) + _STARTS_S

    def wait(self, timeout_s: float) -> bool:
        """Whether everything was sent, well or not, within this time."""
        until = time.monotonic() + timeout_s
        self.pump()
        while self._sending is not None:
            if not self._sending.done.wait(max(0.0, until - time.monotonic())):
                return False
            self.pump()
        return True

    def _finished(self, sending: _Sending) -> bool:
        """Whether an alert is over; notes its result."""
        if not sending.done.is_set():
            if time.monotonic() < sending.until:
                return False
            self._abandoned += 1
        results = {name: sending.results.get(name, "did not end in time") for name in sending.ways}
        failures = [f"{name} {what}" for name, what in results.items() if what != "ok"]
        if failures:
            logger.warning("alert failed task=%s why=%r", sending.task, "; ".join(failures))
        body: dict[str, Any] = {"task": sending.task, **results}
        if failures:
            body["error"] = {"code": "alert_failed", "message": f"The {'; the '.join(failures)}.", "hint": ""}
        else:
            body["summary"] = f"told {' and '.join(results) or 'nobody: [alerts] is empty'}"
        try:
            self._jobs.finish(sending.job, body, worker=_WORKER, now=self._clock(), failed=bool(failures))
        except errors.HeadwayError as error:
            logger.warning("alert not recorded: %s", error)
        return True

    def _ways(self, document: Mapping[str, Any]) -> dict[str, Callable[[], str]]:
        """Whom to tell; each returns "ok" or why not."""
        settings, body = self._settings, msgspec.json.encode(document)
        ways: dict[str, Callable[[], str]] = {}
        if settings.webhook:
            ways["webhook"] = partial(_post, settings, self._key, body)
        if settings.command:
            words = (*settings.command, f"{document['task']}: {document['text']}")
            ways["command"] = partial(_run, words, body, settings.timeout_s)
        return ways


def _thread(target: Callable[..., None], *arguments: object) -> threading.Thread:
    thread = threading.Thread(target=target, args=arguments, name="headway-alert", daemon=True)
    thread.start()
    return thread


def _send(sending: _Sending) -> None:
    """In a thread of its own, and one for each receiver: a webhook that hangs does not hold up the command."""
    for thread in [_thread(_tell, sending.results, name, way) for name, way in sending.ways.items()]:
        thread.join()
    sending.done.set()


def _tell(results: dict[str, str], name: str, way: Callable[[], str]) -> None:
    try:
        results[name] = way()
    except Exception as error:  # noqa: BLE001 — a thread that fails silently would leave the alert open
        results[name] = f"failed: {type(error).__name__}"


def alert_body(alarm: Alarm, project: str) -> dict[str, Any]:
    """What a receiver gets; never a text of a decision."""
    identifier = f"{project}-{alarm.task}-{alarm.seq}"  # the same if it is sent again
    ended = {} if alarm.ended_at is None else {"ended": alarm.ended, "ended_at": rfc3339(alarm.ended_at)}
    return {
        "event": "alarm" if alarm.open else "alarm_ended",
        "id": identifier if alarm.open else f"{identifier}-ended",
        "project": project,
        "task": alarm.task,
        "stream": alarm.stream,
        "action": alarm.action,
        "segment": alarm.segment,
        "since": rfc3339(alarm.since),
        "from_decision": alarm.from_decision,
        "before": alarm.before,
        "after": alarm.after,
        "rows": list(alarm.rows),
        "key": alarm.key,
        "policy": alarm.policy,
        "at": rfc3339(alarm.at),
        **ended,
        "text": str(alarm) if alarm.open else f"The alarm has ended ({alarm.ended}): {alarm}",
    }


def outage_body(outage: Outage, project: Project) -> dict[str, Any]:
    """What a receiver gets about an upstream that is down, or answers again."""
    name, settings = project.settings.directory.resolve().name, project.settings
    tasks = [task.name for task in settings.tasks.values() if outage.upstream in (task.actions or settings.upstreams)]
    identifier = f"{name}-{outage.upstream}-{round(outage.since)}"
    return {
        "event": "outage" if outage.open else "outage_ended",
        "id": identifier if outage.open else f"{identifier}-ended",
        "project": name,
        "task": ", ".join(tasks),
        **document(outage),
    }


def _post(settings: AlertSettings, key: str, body: bytes) -> str:
    try:
        with Outgoing(settings.webhook, key=key, timeout_s=settings.timeout_s, most_bytes=_MOST_BYTES) as server:
            server.post("", body, tries=_TRIES, wait=partial(_pause, settings.timeout_s))
    except CallFailed as failure:
        return failure.what
    return "ok"


def _pause(most_s: float, pause_s: float, _failure: CallFailed) -> bool:
    """Wait before the next try, but no longer than a try may take, whatever `Retry-After` says."""
    time.sleep(min(pause_s, most_s))
    return True


def _run(words: Sequence[str], body: bytes, timeout_s: float) -> str:
    try:
        output = run(words, body, timeout_s=timeout_s, most_bytes=_MOST_BYTES)
    except OSError as error:
        return f"cannot be started ({error.strerror})"
    if output.timed_out:
        return f"did not end within {timeout_s:g} s"
    return "ok" if output.status == 0 else f"ended with {output.ended}"


class AlertSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whom the background loop tells about an alarm."""

    webhook: Url = ""  # gets a POST with JSON
    key_env: Variable = ""  # the variable with its bearer key
    command: tuple[str, ...] = ()  # gets the sentence as its last argument and the JSON as its standard input
    timeout_s: Annotated[float, Meta(gt=0, le=600)] = 10.0  # of each
