"""/v1/tasks: the policy and the state of each task; learning as a job."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import msgspec
from msgspec import Meta

from headway.nouns import TaskStatus, errors
from headway.observe import Job
from headway.serve.endpoints import Call, endpoint, strict
from headway.serve.wire import matching

_LEARNS_PER_MINUTE = 6  # of a key; callers on this machine without one share it


class TasksAnswer(msgspec.Struct, frozen=True):
    tasks: list[TaskStatus]


@endpoint("GET", "/v1/tasks", gives=TasksAnswer, scope="open")
def tasks(call: Call) -> TasksAnswer:
    """Every task of the project."""
    return TasksAnswer([_task(call, status) for status in call.server.project.status().tasks])


@endpoint("GET", "/v1/tasks/{task}", gives=TaskStatus, errors=(404,), scope="open")
def task(call: Call) -> TaskStatus:
    """One task."""
    from headway.project import task_status  # not needed to decide, so not loaded at the start

    project, name = call.server.project, call.params["task"]
    settings, known = project.settings.task(name), project.tasks()
    if name not in known:
        raise errors.UnknownName(
            f"Nothing was decided for {name!r} yet.", code="unknown_task", hint=errors.did_you_mean(name, known)
        )
    return _task(call, task_status(project, settings))


def _task(call: Call, status: TaskStatus) -> TaskStatus:
    if not call.reader.everything:  # these name actions, fields and signals that other keys have sent
        next_step = replace(status.next, why="")
        return replace(status, alarms=(), warnings=(), verdict=None, worth=None, next=next_step)
    return status


class JobsAnswer(msgspec.Struct, frozen=True):
    jobs: list[Job]


class LearnRequest(strict):
    family: Annotated[str, matching("[a-z][a-z0-9_]{0,31}", 32)] | None = None
    seed: Annotated[int, Meta(ge=0, lt=2**53)] | None = None


@endpoint(
    "POST",
    "/v1/tasks/{task}/learn",
    takes=LearnRequest,
    gives=Job,
    status=202,
    errors=(404, 409),
    scope="train",
    optional=True,
)
def learn(call: Call, body: LearnRequest) -> Job:
    """Request a new candidate from a worker; the job shows its progress."""
    name = call.server.project.settings.task(call.params["task"]).name
    call.server.need_worker()
    asked = {"task": name, "family": body.family, "seed": body.seed}
    now = call.server.project.clock()
    return call.server.jobs.request("learn", asked, now=now, key=call.key, per_minute=_LEARNS_PER_MINUTE)


@endpoint("GET", "/v1/jobs", gives=JobsAnswer, scope="train")
def jobs(call: Call) -> JobsAnswer:
    """The latest jobs, newest first."""
    return JobsAnswer(call.server.jobs.latest())


@endpoint("GET", "/v1/jobs/{job}", gives=Job, errors=(404,), scope="train")
def job(call: Call) -> Job:
    """One job."""
    number = call.params["job"]
    if not (number.isascii() and number.isdigit() and len(number) < 18):
        raise errors.UnknownName(f"There is no job {number[:40]!r}.", code="unknown_job")
    return call.server.jobs.get(int(number))
