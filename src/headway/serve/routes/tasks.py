"""/v1/tasks: the policy and the state of each task; learning as a job."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from headway.nouns.errors import Unavailable, UnknownName, did_you_mean
from headway.nouns.status import TaskStatus
from headway.nouns.times import rfc3339
from headway.observe.jobs import Job, worker_there
from headway.serve.endpoint import Call, endpoint, strict
from headway.serve.wire import matching

_LEARNS_PER_MINUTE = 6  # of a key; callers on this machine without one share it
START_WORKER = "Start one in the project's folder: headway watch"


class NextStepAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The next command for a task, the reason, and the evidence behind it."""

    verb: str
    command: str
    why: str
    evidence: str | None


class AlarmAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The outcomes of what is served have changed: what, where and since when."""

    stream: str
    action: str
    segment: str
    since: str
    from_decision: int
    before: float
    after: float
    rows: list[int]
    at: str
    key: str
    text: str


class ExperimentAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate that gets a share of the traffic until its test ends; `ended` is empty while it runs."""

    task: str
    policy: str
    policy_hash: str
    against: str
    share: float
    since: str
    who: str
    from_decision: int
    decisions: int
    needed: int | None  # for 80% power at `uplift`
    uplift: float | None
    most: int  # decisions after which it ends without a difference
    running: bool
    progress: float | None  # of the needed decisions, at most 1
    ended: str
    ended_at: str | None
    per_day: float | None
    expected_end: str | None
    verdict: str | None
    difference: float | None  # only if the verdict shows an estimate
    interval: tuple[float, float] | None
    waiting: int  # decisions that could not be counted yet, because their outcomes are not in


class TaskVerdictAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on a task's candidate: better, worse, too early, no difference or cannot tell, and one sentence."""

    word: str
    text: str
    candidate: str
    against: str
    more: int | None  # rows that are still needed, about, and not made yet
    until: str | None  # when they will have come at the present rate; with `more` 0, when those made will count
    evidence: str


class MeasureAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A number with its 95% interval."""

    value: float
    low: float
    high: float


class WorthAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the current policy saves per 1,000 requests, and the quality that it keeps, against one action."""

    state: str  # known, too early or unknown
    text: str  # the sentence
    policy: str
    promoted: bool
    against: str
    unit: str  # "$"; empty: the unit of the signal
    cost: str  # the signal that counts the money
    saved: MeasureAnswer | None  # per 1,000 requests; negative: it costs more
    ratio: MeasureAnswer | None  # of quality: 0.98
    gap: MeasureAnswer | None  # of quality per request, where a ratio means nothing
    decisions: int  # that the numbers rest on
    cost_known: float  # the share of them that has a cost
    since: str | None  # of the promotion
    requests: int  # since then
    saved_since: float | None  # about
    weight: str  # what the reward says: "solved = 1 is worth $0.05"


class TaskAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One task: its current policy, candidate and counts."""

    task: str
    kind: str
    family: str
    current: str
    current_hash: str
    canary: str | None
    experiment: ExperimentAnswer | None  # the one that is running
    candidates: list[str]
    decisions: int
    signals: int
    outcomes: dict[str, int]
    sources: dict[str, int]
    until_retrain: int
    evidence: str | None
    verdict: TaskVerdictAnswer | None  # on the candidate; null without fresh evidence
    worth: WorthAnswer | None  # null without decisions
    next: NextStepAnswer
    kit_missing: str | None  # the family of the current policy, if no installed kit has it: the rules decide
    alarms: list[AlarmAnswer]  # the open ones
    warnings: list[str]  # signals of the latest decisions that nothing reads


class TasksAnswer(msgspec.Struct, frozen=True):
    tasks: list[TaskAnswer]


@endpoint("GET", "/v1/tasks", gives=TasksAnswer, scope="open")
def tasks(call: Call) -> TasksAnswer:
    """Every task of the project."""
    return TasksAnswer([_task(call, status) for status in call.server.project.status().tasks])


@endpoint("GET", "/v1/tasks/{task}", gives=TaskAnswer, errors=(404,), scope="open")
def task(call: Call) -> TaskAnswer:
    """One task."""
    project, name = call.server.project, call.params["task"]
    project.settings.task(name)
    statuses = project.status()
    status = statuses.task(name)
    if status is None:
        known = [task.task for task in statuses.tasks]
        raise UnknownName(f"Nothing was decided for {name!r} yet.", code="unknown_task", hint=did_you_mean(name, known))
    return _task(call, status)


def _task(call: Call, status: TaskStatus) -> TaskAnswer:
    if not call.reader.everything:  # these name actions, fields and signals that other keys have sent
        next_step = replace(status.next, why="")
        status = replace(status, alarms=(), warnings=(), verdict=None, worth=None, next=next_step)
    return msgspec.convert(status.document(), TaskAnswer)


class JobAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Work of a worker: queued, running, done or failed."""

    job: int
    kind: str
    state: str
    done: int
    total: int | None
    result: Any
    at: str
    ended: str | None


class JobsAnswer(msgspec.Struct, frozen=True):
    jobs: list[JobAnswer]


class LearnRequest(strict):
    family: Annotated[str, matching("[a-z][a-z0-9_]{0,31}", 32)] | None = None
    seed: Annotated[int, Meta(ge=0, lt=2**53)] | None = None


@endpoint(
    "POST",
    "/v1/tasks/{task}/learn",
    takes=LearnRequest,
    gives=JobAnswer,
    status=202,
    errors=(404, 409),
    scope="train",
    optional=True,
)
def learn(call: Call, body: LearnRequest) -> JobAnswer:
    """Request a new candidate from a worker; the job shows its progress."""
    name = call.server.project.settings.task(call.params["task"]).name
    need_worker(call)
    asked = {"task": name, "family": body.family, "seed": body.seed}
    now = call.server.project.clock()
    return _job(call.server.jobs.request("learn", asked, now=now, key=call.key, per_minute=_LEARNS_PER_MINUTE))


@endpoint("GET", "/v1/jobs", gives=JobsAnswer, scope="train")
def jobs(call: Call) -> JobsAnswer:
    """The latest jobs, newest first."""
    return JobsAnswer([_job(job) for job in call.server.jobs.latest()])


@endpoint("GET", "/v1/jobs/{job}", gives=JobAnswer, errors=(404,), scope="train")
def job(call: Call) -> JobAnswer:
    """One job."""
    number = call.params["job"]
    if not (number.isascii() and number.isdigit() and len(number) < 18):
        raise UnknownName(f"There is no job {number[:40]!r}.", code="unknown_job")
    return _job(call.server.jobs.get(int(number)))


def need_worker(call: Call) -> None:
    """503 `worker_missing` unless a worker of this project is alive: the server itself never trains."""
    if not worker_there(call.server.project.database):
        raise Unavailable("This needs a worker, and none is running.", code="worker_missing", hint=START_WORKER)


def _job(job: Job) -> JobAnswer:
    return JobAnswer(
        job=job.seq,
        kind=job.kind,
        state=job.state,
        done=job.done,
        total=job.total,
        result=job.result,
        at=rfc3339(job.at),
        ended=None if job.ended is None else rfc3339(job.ended),
    )
