"""Requests that have been seen before: repeated by their client, or interrupted by the end of a server.

    resume(project, request, text, state)       # what is left to do of a repeated request
    end_interrupted(project)                    # when a server starts

A client names its request by the header `Idempotency-Key`. Under the same key of Headway, task and name there is one
request, whatever happens: while it runs, a second call is refused; if it failed or broke off, the call carries it on
with further attempts; if it was answered, the same upstream is asked again, because answers are not stored. All of that
is one unit, with the action and the probability of the first draw and the cost of all attempts.

An attempt whose server was killed is ended as failed, with the code `interrupted`, by the next server that starts.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from headway.kits.proxy.attempts import FAULTLESS, INTERRUPTED, RATER
from headway.kits.proxy.outages import is_gone, process
from headway.kits.proxy.upstreams import STREAM_TIMES
from headway.nouns import Decision, Detail, ExplainedAttempt, errors, ids

if TYPE_CHECKING:
    from headway.observe import Connection
    from headway.project import Project


KIT_NAME, REQUEST = "proxy", "request"
_MARK = "proxy_requests"  # every request up to this number of the store has ended
_PAGE = 1000
_DAY_S = 86_400.0  # how long a request can be resumed
FAILURES = "primary_failure_count"


class _Stored(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The detail of an attempt: which process calls, and which upstreams were no candidates because they were down."""

    server: str
    left_out: tuple[str, ...] = ()


def detail_of(left_out: tuple[str, ...]) -> Detail:
    """What is stored with the decision of an attempt."""
    return Detail(KIT_NAME, REQUEST, msgspec.json.encode(_Stored(server=process(), left_out=left_out)))


def left_out(data: bytes | None) -> tuple[str, ...]:
    """The upstreams that were down at a decision, from its detail."""
    try:
        return () if data is None else msgspec.json.decode(data, type=_Stored).left_out
    except msgspec.MsgspecError:
        return ()


class Resumed(NamedTuple):
    """A request that is resumed."""

    first: Decision
    made: int  # attempts so far
    served: str  # the upstream that answered it; empty: none did, or its answer broke off
    failed: str  # the upstream that failed last
    missed: set[str]  # upstreams whose outage has sent it elsewhere


def resume(project: Project, request: str, text: str, state: Mapping[str, Any]) -> Resumed | None:
    """What is left to do of a request; None: it is new; Conflict if it is another one, or still runs elsewhere."""
    earlier = project.query.request(request)
    if not earlier:
        return None
    first, last = earlier[0], earlier[-1]
    situation = first.situation
    late = project.clock() - first.at > _DAY_S
    if late or situation.text != text or _plain(situation.state) != _plain(state):
        raise errors.Conflict(
            f"The idempotency key belongs to {'a request of more than a day ago' if late else 'another request'}.",
            code="id_conflict",
            hint="Use a fresh key for a new request; repeat the same request to carry it on.",
        )
    said = _said(project, last)
    if not said:
        if not _over(project, last):
            raise errors.Conflict(
                "A request with this idempotency key is being answered.",
                code="request_in_progress",
                hint="Wait for its answer, or use another key for another request.",
            )
        end(project, last.id)
        said = {"failed": INTERRUPTED}
    missed = set[str]()
    for attempt, following in zip(earlier, (*earlier[1:], last), strict=True):
        missed.update(left_out(project.query.details(attempt.id, KIT_NAME).get(REQUEST)))
        if following.action != attempt.action and _said(project, attempt).get("failed", "") not in FAULTLESS:
            missed.add(attempt.action)
    served = last.action if said.keys().isdisjoint(("failed", "client_gone")) else ""
    return Resumed(first, len(earlier), served, "" if said.get("failed", "") in FAULTLESS else last.action, missed)


def _said(project: Project, attempt: Decision) -> dict[str, str]:
    """The proxy's signals about an attempt, with their labels."""
    signals = project.query.signals(attempt.id, live=True)
    return {signal.name: signal.label for signal in signals if signal.rater == RATER}


def _plain(state: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in state.items() if name != FAILURES}


def end(project: Project, decision: str) -> None:
    """Store that an attempt failed because its server ended."""
    project.signal(decision, {"failed": 1.0, "cost_unknown": 1.0}, rater=RATER, label=INTERRUPTED)


def _over(project: Project, attempt: Decision) -> bool:
    """Whether nobody can be working on an attempt any more."""
    data = project.query.details(attempt.id, KIT_NAME).get(REQUEST)
    return _ended(project, data, attempt.at, attempt.action)


def _ended(project: Project, data: bytes | None, at: float, upstream: str) -> bool:
    try:
        server = "" if data is None else msgspec.json.decode(data, type=_Stored).server
        gone = is_gone(server)
    except (msgspec.MsgspecError, ValueError):
        gone = None
    if gone:
        return True
    known = project.settings.upstreams.get(upstream)
    longest_s = (STREAM_TIMES + 1) * (3600.0 if known is None else known.timeout_s)
    return time.time() - at > longest_s if gone is None else False


def end_interrupted(project: Project) -> int:
    """End the attempts that processes which are gone did not; returns how many."""
    database, query = project.database, project.query
    last = database.query("SELECT MAX(seq) FROM decisions")[0][0] or 0
    rows = database.query("SELECT value FROM marks WHERE task_id = 0 AND name = ?", (_MARK,))
    after, ended = (rows[0][0], 0) if rows else (last, 0)
    rater = query.name_id("rater", RATER)
    while True:
        page = database.query(
            "SELECT d.seq, d.id, d.at, x.data FROM decisions d JOIN details x ON x.decision = d.id AND x.kit = ? "
            "AND x.name = ? WHERE d.seq > ? AND d.seq <= ? AND NOT EXISTS "
            "(SELECT 1 FROM signals g WHERE g.subject = d.id AND g.rater_id = ?) ORDER BY d.seq LIMIT ?",
            (KIT_NAME, REQUEST, after, last, rater, _PAGE),
        )
        for seq, raw, at, data in page:
            decision = query.decision(ids.text(bytes(raw)))
            if not _ended(project, bytes(data), at / 1e6, decision.action):
                last = min(last, seq - 1)  # looked at again next time
                continue
            end(project, decision.id)
            ended += 1
        if len(page) < _PAGE:
            break
        after = page[-1][0]
    project.writer.write(lambda connection: _mark(connection, last))
    return ended


def _mark(connection: Connection, value: int) -> None:
    connection.execute(
        "INSERT INTO marks (task_id, name, value) VALUES (0, ?, ?) "
        "ON CONFLICT (task_id, name) DO UPDATE SET value = excluded.value",
        (_MARK, value),
    )


def started(project: Project) -> None:
    """Called when a server starts: nothing of an earlier one stays open."""
    try:
        end_interrupted(project)
    except errors.HeadwayError:  # a store that cannot be written now; the next start tries again
        return


def explain(project: Project, decision: Decision) -> dict[str, Any]:
    """The attempts of a request; of a later attempt, the request that it belongs to."""
    if decision.unit and not ids.is_episode(decision.unit):
        return {"request": decision.unit}
    details = project.query.details(decision.id, KIT_NAME)
    attempts = [decision] if ids.is_episode(decision.unit) else project.query.request(decision.id)
    if len(attempts) == 1 and REQUEST not in details:
        return {}
    lanes = [_lane(project, attempt) for attempt in attempts]
    served = [lane.upstream for lane in lanes if lane.status == "answered"]
    return {"attempts": tuple(lanes), "served": served[-1] if served else ""}


def _lane(project: Project, attempt: Decision) -> ExplainedAttempt:
    signals = {signal.name: signal for signal in project.query.signals(attempt.id, live=True) if signal.rater == RATER}
    if not signals:  # an attempt that something else made says so by its own signals
        signals = {signal.name: signal for signal in project.query.signals(attempt.id, live=True)}
    values = {name: signal.value for name, signal in signals.items()}
    failed = signals["failed"].label or "failed" if values.get("failed") else ""
    http_status = values.get("http_status")
    tokens = {name: int(values.get(name) or 0) for name in ("prompt_tokens", "completion_tokens", "cached_tokens")}
    return ExplainedAttempt(
        id=attempt.id,
        upstream=attempt.action,
        at=attempt.at,
        propensity=attempt.propensity or None,
        status=_status(failed, values),
        code=failed,
        http_status=None if http_status is None else int(http_status),
        latency_s=values.get("latency_s"),
        first_token_s=values.get("first_token_s"),
        cost_usd=values.get("cost_usd"),
        left_out=left_out(project.query.details(attempt.id, KIT_NAME).get(REQUEST)),
        **{name: tokens[name] if name in values else None for name in tokens},
    )


def _status(failed: str, values: Mapping[str, float | None]) -> str:
    """How an attempt ended, from its failure and the proxy's signals about it."""
    if failed:
        return "interrupted" if failed == INTERRUPTED else "failed"
    if "client_gone" in values:
        return "left"
    if not values:
        return "running"
    http_status = values.get("http_status")
    return "answered" if http_status is None or http_status < 400 else "refused"
