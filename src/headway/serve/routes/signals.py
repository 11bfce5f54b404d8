"""/v1/…/signals: record how a decision or an episode went. The key is the rater."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Literal

from headway.nouns import Signal, errors
from headway.serve.endpoints import Call, Reply, endpoint, strict
from headway.serve.wire import SignalBatch, Signals, SignalsAnswer

_MOST_KEY = 200
_MOST_WARNINGS = 20


class EarlyQuery(strict):
    """`early=true`: the decision may still be on its way; its signals wait for it."""

    early: bool = False


@endpoint(
    "POST",
    "/v1/decisions/{decision}/signals",
    takes=Signals,
    query=EarlyQuery,
    errors=(404, 409),
    scope="signal",
    hot=True,
)
async def signal(call: Call, body: Mapping[str, float | None]) -> Reply | None:
    """Named numbers about a decision; null withdraws one. With an `Idempotency-Key` a repeated request counts once.

    The header `Headway-Warning` names a signal that neither the reward nor a guard of the task reads.
    """
    query: EarlyQuery = call.query
    rows = _rows(call, call.params["decision"], body, key=_idempotency(call))
    await _store(call, rows, early=query.early)
    return _warned(call, rows)


@endpoint(
    "POST",
    "/v1/signals",
    takes=SignalBatch,
    gives=SignalsAnswer,
    errors=(404, 409),
    scope="signal",
    batch=True,
    hot=True,
)
async def signal_many(call: Call, body: SignalBatch) -> SignalsAnswer:
    """Signals about up to 1,000 decisions or episodes: all are stored, or none. `new` counts changes.

    `warnings` has a sentence for every signal that neither the reward nor a guard of its task reads.
    """
    rows: list[Signal] = []
    for signal in body.signals:
        rows += _rows(call, signal.subject, signal.signals, label=signal.label, key=signal.key)
    return SignalsAnswer(await _store(call, rows, early=body.early), _unread(call, rows))


@endpoint("POST", "/v1/tasks/{task}/episodes/{episode}/signals", takes=Signals, errors=(404, 409), scope="signal")
async def signal_episode(call: Call, body: Mapping[str, float | None]) -> Reply | None:
    """Named numbers about a whole episode. The header `Headway-Warning` names a signal that nothing reads."""
    project = call.server.project
    task = project.settings.task(call.params["task"]).name
    rows = _rows(call, project.episode(task, call.params["episode"]), body, key=_idempotency(call))
    await _store(call, rows)
    return _warned(call, rows)


class EndRequest(strict):
    ending: Literal["terminated", "truncated"] = "terminated"


@endpoint(
    "POST",
    "/v1/tasks/{task}/episodes/{episode}/end",
    takes=EndRequest,
    errors=(404, 409),
    scope="decide",
    optional=True,
)
def end_episode(call: Call, body: EndRequest) -> None:
    """End an episode: it accepts no more decisions."""
    project = call.server.project
    task = project.settings.task(call.params["task"]).name
    project.end_episode(task, call.params["episode"], body.ending, key=call.key)


def _rows(
    call: Call, subject: str, values: Mapping[str, float | None], *, label: str = "", key: str = ""
) -> list[Signal]:
    project = call.server.project
    given = {name: value for name, value in values.items() if value is not None}
    rows = project.checked_signals(subject, given, rater=call.key, key=key, label=label) if given else []
    taken_back = [name for name, value in values.items() if value is None]
    if taken_back:
        # Subject and name are checked with a value that every signal can have: one star, a thumb up, a count of one.
        checked = project.checked_signals(subject, dict.fromkeys(taken_back, 1.0), rater=call.key, key=key)
        rows += [
            Signal(subject=signal.subject, name=signal.name, value=None, rater=call.key, key=key, at=signal.at)
            for signal in checked
        ]
    return rows


def _unread(call: Call, rows: list[Signal]) -> list[str]:
    """Sentences about signals that nothing reads, each once."""
    warnings: dict[str, None] = {}
    for row in rows:
        if row.value is not None and len(warnings) < _MOST_WARNINGS:
            warnings.update(dict.fromkeys(call.server.project.unread_signals(row.subject, (row.name,))))
    return list(warnings)


def _warned(call: Call, rows: list[Signal]) -> Reply | None:
    warnings = _unread(call, rows)
    if not warnings:
        return None
    text = " ".join(warnings).encode("ascii", "backslashreplace").decode("ascii")  # headers are ASCII
    return Reply(status=204, headers={"headway-warning": text[:1000]})


async def _store(call: Call, rows: list[Signal], *, early: bool = False) -> int:
    stored = await asyncio.wrap_future(call.server.project.submit_signals(rows, early=early))
    call.server.metrics.count("signals", "all", len(rows))
    return int(stored[0] if isinstance(stored, tuple) else stored)


def _idempotency(call: Call) -> str:
    key = call.header("idempotency-key")
    if len(key) > _MOST_KEY or not key.isprintable():
        raise errors.InvalidInput(
            "The Idempotency-Key cannot be used.", code="bad_key", hint="Use up to 200 characters."
        )
    return key
