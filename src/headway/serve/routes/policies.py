"""/v1/policies and /v1/ledger: learned policies, and changes of the live one."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Annotated

import msgspec
from msgspec import Meta

from headway.nouns import Header, PolicyRef, rfc3339
from headway.promote import Entry
from headway.serve.endpoints import Call, endpoint, strict
from headway.serve.wire import Task

Rater = Annotated[str, Meta(min_length=1, max_length=200)]
Why = Annotated[str, Meta(max_length=2000)]


class LedgerAnswer(msgspec.Struct, frozen=True):
    ledger: list[Entry]


class PolicyRow(msgspec.Struct, frozen=True, kw_only=True):
    policy: str
    policy_hash: str
    task: str
    state: str
    at: str
    name: str  # for people: given, or the day it was learned
    does: str  # "small for 53%, large for 47%"; empty if unknown


class LearnedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    policy: str
    text: str


class PoliciesAnswer(msgspec.Struct, frozen=True):
    policies: list[PolicyRow]


class TaskQuery(strict):
    task: Task | None = None


@endpoint("GET", "/v1/ledger", query=TaskQuery, gives=LedgerAnswer, errors=(404,), scope="train")
def ledger(call: Call) -> LedgerAnswer:
    """Every change of the live policy, oldest first."""
    rows = [row for name in tasks_of(call) for row in call.server.project.ledger.entries(name)]
    return LedgerAnswer(sorted(rows, key=lambda row: row.seq))


@endpoint("GET", "/v1/policies", query=TaskQuery, gives=PoliciesAnswer, errors=(404,), scope="open")
def policies(call: Call) -> PoliciesAnswer:
    """Every policy in the ledger, and its state: candidate, shadow, canary, current or retired."""
    from headway.project import policy_names  # not needed to decide, so not loaded at the start

    rows: list[PolicyRow] = []
    for name in tasks_of(call):
        states = call.server.project.ledger.states(name)
        last = {row.policy_hash: row for row in call.server.project.ledger.entries(name)}
        names = policy_names(call.server.project, name)
        rows += [
            PolicyRow(
                policy=last[digest].policy,
                policy_hash=digest,
                task=name,
                state=state,
                at=rfc3339(last[digest].at),
                name=names[ref].name if (ref := last[digest].policy) in names else "",
                does=names[ref].does if ref in names and call.reader.everything else "",
            )
            for digest, state in states.items()
        ]
    return PoliciesAnswer(rows)


class LearnedQuery(strict):
    policy: Annotated[str, Meta(max_length=100)] = "current"


@endpoint("GET", "/v1/tasks/{task}/learned", query=LearnedQuery, gives=LearnedAnswer, errors=(404,), scope="train")
def learned(call: Call) -> LearnedAnswer:
    """Which word, role or field best explains what a policy prefers, in one sentence."""
    from headway.project import learned_text

    query: LearnedQuery = call.query
    project = call.server.project
    task = project.settings.task(call.params["task"])
    ref, _ = project.servings.resolve(task, query.policy)
    return LearnedAnswer(policy=ref, text=learned_text(project, task.name, ref))


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyAnswer(Header):
    """The header of a policy, with its reference and hash."""

    policy: str
    policy_hash: str


@endpoint("GET", "/v1/policies/{policy}", gives=PolicyAnswer, errors=(404,), scope="open")
def header(call: Call) -> PolicyAnswer:
    """The header of a policy: its family, training data and baselines.

    What it took from decisions (actions, fields, numbers) is for the scope `train`, and empty for others.
    """
    registry = call.server.project.registry
    digest = registry.find(call.params["policy"])
    stored = registry.header(digest)
    if not call.reader.everything:
        stored = replace(stored, trained_on={}, split={}, metrics={}, baselines={}, extra={}, tensors=())
    values = {field.name: getattr(stored, field.name) for field in fields(stored)}
    return PolicyAnswer(policy=str(registry.ref(digest)), policy_hash=digest, **values)


class PromoteRequest(strict):
    task: Task | None = None  # needed only for built-in policies
    trust_keys: Annotated[tuple[Rater, ...], Meta(max_length=100)] = ()  # keys whose ratings alone may decide
    trust_claims: bool = False  # the evidence may rest on probabilities that a client sent
    predicts_only: bool = False  # better predictions of held-out rows are enough
    at_once: bool = False  # all of the traffic now, without steps
    why: Why = ""  # for the ledger, beside the verdict


@endpoint(
    "POST",
    "/v1/policies/{policy}/promote",
    takes=PromoteRequest,
    gives=Entry,
    errors=(404, 409),
    scope="admin",
    optional=True,
)
def promote(call: Call, body: PromoteRequest) -> Entry:
    """Make a policy current on its latest evidence; 409 `gate_refused` if the evidence does not suffice.

    Beyond the share at which it was proven, it takes over the traffic in steps: the answer is the row of the first one
    (`canary`, with `ramp` in its detail), or of what follows the running one; 409 `ramp_running` while that goes on.
    Evidence that depends on the ratings of a single key does not suffice, unless `trust_keys` names that key; nor does
    evidence that rests on probabilities that a client sent, or on held-out predictions, unless the request accepts it.
    """
    accepted = msgspec.structs.asdict(body)
    return call.server.project.promote(call.params["policy"], who=call.key, **accepted)


class CanaryRequest(strict):
    share: Annotated[float, Meta(ge=0.0, le=0.5)]
    task: Task | None = None


@endpoint(
    "POST",
    "/v1/policies/{policy}/canary",
    takes=CanaryRequest,
    gives=Entry,
    errors=(404, 409),
    scope="admin",
)
def canary(call: Call, body: CanaryRequest) -> Entry:
    """Let a candidate decide for a share of the traffic; 0 ends it."""
    project = call.server.project
    return project.canary(call.params["policy"], share=body.share, task=body.task, who=call.key)


class RollbackRequest(strict):
    to: Annotated[str, Meta(max_length=100)] | None = None
    why: Why = ""


@endpoint(
    "POST",
    "/v1/tasks/{task}/rollback",
    takes=RollbackRequest,
    gives=Entry,
    errors=(404, 409),
    scope="admin",
    optional=True,
)
def rollback(call: Call, body: RollbackRequest) -> Entry:
    """Make the previous policy (or `to`) current again, or end a promotion on its way; always allowed."""
    project = call.server.project
    task = project.settings.task(call.params["task"]).name
    if body.to is not None:
        PolicyRef.parse(body.to)
    return project.rollback(task, to=body.to, why=body.why, who=call.key)


def tasks_of(call: Call) -> list[str]:
    query: TaskQuery = call.query
    project = call.server.project
    if query.task is not None:
        return [project.settings.task(query.task).name]
    return project.tasks()
