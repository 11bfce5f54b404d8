"""SAGE: session journals, and routing rows of schema "1".

In a journal, `MODEL_ROUTING_DECISION` is the decision and `TRAJECTORY_STEP` its outcome. They are joined if they have
the same session, task, agent and model, and the step comes later; each decision takes one step. A step without a logged
decision becomes a decision whose only candidate is the model that it names.

Three mistakes that this reader avoids:

- sessions are never joined, even if they share a task id;
- a step gets only the reward, verification and failure of its own line: a later success does not count for it;
- the candidates are those in the row, never those of the current routing table.

`verification_passed` and `failed_reason` are in a step's `state` although they are outcomes: they become signals.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from headway.kits.data import (
    Format,
    ImportedSignal,
    Options,
    Problem,
    Record,
    Row,
    Skipped,
    Wrong,
    by_line,
    fields_left,
    flag,
    flat,
    moment,
    name_of,
    number,
    object_of,
)
from headway.nouns import Candidate, Source

STEP, DECISION = "TRAJECTORY_STEP", "MODEL_ROUTING_DECISION"
FIELDS = (
    "schema_version", "session_id", "task_id", "agent_role", "timestamp", "task_complexity_score",
    "primary_failure_count", "action_fallback", "primary_model", "fallback_model", "model_chosen", "reward",
    "terminal", "reward_version", "data_source", "state",
)  # fmt: skip
_OUTCOMES = ("verification_passed", "failed_reason")
_OPEN = 10_000  # open decisions at a time


def looks_like_routing(row: dict[str, Any]) -> bool:
    return "schema_version" in row and "model_chosen" in row and "agent_role" in row


def read_routing(line: int, row: dict[str, Any], _: Options) -> Record:
    version = row.get("schema_version")
    if version not in ("1", 1):
        raise Wrong(
            "schema_version", f"schema_version is {version!r}, expected '1'.", "Export the rows again with schema 1."
        )
    left = fields_left(row, FIELDS)
    session, task = name_of(row, "session_id"), name_of(row, "task_id")
    primary, fallback, chosen = (
        name_of(row, f"{which}") for which in ("primary_model", "fallback_model", "model_chosen")
    )
    marked = number(row, "action_fallback", optional=True)
    if (
        marked is not None
        and fallback != primary
        and (chosen in (primary, fallback))
        and bool(marked) != (chosen == fallback)
    ):
        raise Wrong(
            "action_fallback",
            f"action_fallback is {row['action_fallback']!r}, but {chosen!r} was chosen.",
            f"1 means the fallback model ({fallback!r}) was chosen, 0 that it was not.",
        )
    at = moment(row, "timestamp", optional=True)
    reward = number(row, "reward", optional=True)
    version_of_reward = name_of(row, "reward_version", optional=True)
    signals: tuple[ImportedSignal, ...] = (
        () if reward is None else (ImportedSignal(name="reward", value=reward, label=version_of_reward, at=at),)
    )
    signals += _terminal(row, at)
    state = {
        name: row[name] for name in ("task_complexity_score", "primary_failure_count") if row.get(name) is not None
    }
    inner, outcomes = _state(row, at, left)
    return Record(
        line=line,
        origin="",
        action=chosen,
        candidates=_models(primary, fallback, chosen),
        state={**inner, **flat(state, "row", left=left)},
        role=name_of(row, "agent_role"),
        episode=f"{session}/{task}",
        at=at,
        probabilities=_probabilities(row, _models(primary, fallback, chosen), chosen),
        source="synthetic" if name_of(row, "data_source", optional=True) == "synthetic" else "imported",
        signals=(*signals, *outcomes),
        ignored=tuple(left),
        schema=f"schema {version}",
        rest=json.dumps(row, ensure_ascii=False),
    )


def looks_like_journal(row: dict[str, Any]) -> bool:
    return row.get("type") in (STEP, DECISION)


@dataclass(slots=True)
class _OpenDecision:
    record: Record
    model: str


def read_journal(rows: Iterable[Row | Problem], options: Options) -> Iterator[Record | Skipped | Problem]:
    """Yield decisions with their step; a decision without one is yielded when no step can follow."""
    waiting: dict[tuple[str, str, str], _OpenDecision] = {}
    for item in rows:
        if isinstance(item, Problem):
            yield item
            continue
        line, row = item
        try:
            kind = name_of(row, "type", optional=True)
            if kind not in (STEP, DECISION):
                yield Skipped(line, f"{kind or 'a line without a type'} is neither a routing decision nor a step")
                continue
            session = name_of(row, "session_id", optional=True) or options.name
            task = name_of(row, "task_id", optional=True)
            agent = name_of(row, "agent", optional=True) or name_of(row, "agent_role", optional=True)
            key = (session, task, agent)
            if kind == DECISION:
                decision = _decision(line, row, session, task, agent)
                if key in waiting:
                    yield waiting.pop(key).record  # the next decision came before its step
                elif len(waiting) >= _OPEN:
                    yield waiting.pop(next(iter(waiting))).record
                waiting[key] = _OpenDecision(decision, decision.action)
                continue
            step = _step(line, row, session, task, agent)
            held = waiting.get(key)
            if held is not None and held.model == step.action:
                del waiting[key]
                yield _joined(held.record, step)
                yield Skipped(line, "a step that is the outcome of an earlier decision")
            else:
                yield step
        except Wrong as wrong:
            yield Problem(line, wrong.field, wrong.message, wrong.cure)
    for held in waiting.values():
        yield Skipped(held.record.line, "a decision without its step: import again when the journal has it")


def _decision(line: int, row: dict[str, Any], session: str, task: str, agent: str) -> Record:
    left = fields_left(row, (*_COMMON, *_CHOSEN, *_PRIMARY, *_FALLBACK, "propensity"))
    chosen = _first(row, _CHOSEN)
    if not chosen:
        raise Wrong("model_chosen", "model_chosen is missing, expected the model that was routed to.")
    state, outcomes = _state(row, None, left)
    candidates = _models(_first(row, _PRIMARY), _first(row, _FALLBACK), chosen)
    return Record(
        line=line,
        origin="",
        action=chosen,
        candidates=candidates,
        state=state,
        role=agent,
        episode=f"{session}/{task}" if task else None,
        at=moment(row, "timestamp", optional=True),
        probabilities=_probabilities(row, candidates, chosen),
        source=_extra(row),
        signals=outcomes,
        ignored=tuple(left),
        schema=DECISION,
    )


_COMMON = ("type", "timestamp", "session_id", "task_id", "agent", "agent_role", "state", "extra")
_CHOSEN = ("model_chosen", "model", "selected_model")
_PRIMARY = ("primary_model", "primary")
_FALLBACK = ("fallback_model", "fallback")


def _first(row: dict[str, Any], names: Iterable[str]) -> str:
    for name in names:
        if isinstance(row.get(name), str):
            return name_of(row, name)
    return ""


def _step(line: int, row: dict[str, Any], session: str, task: str, agent: str) -> Record:
    left = fields_left(row, (*_COMMON, "action", "reward", "terminal"))
    action = object_of(row, "action")
    chosen = name_of(action, "model_chosen")
    if not chosen:
        raise Wrong("action.model_chosen", "action.model_chosen is empty, expected the name of a model.")
    at, reward = moment(row, "timestamp", optional=True), number(row, "reward", optional=True)
    signals: tuple[ImportedSignal, ...] = (
        () if reward is None else (ImportedSignal(name="trajectory_reward", value=reward, at=at),)
    )
    signals += _terminal(row, at)
    state, outcomes = _state(row, at, left)
    candidates = _models(_first(action, _PRIMARY), _first(action, _FALLBACK), chosen)
    left += [f"action.{name}" for name in fields_left(action, ("model_chosen", *_PRIMARY, *_FALLBACK))]
    return Record(
        line=line,
        origin="",
        action=chosen,
        candidates=candidates,
        state=state,
        role=agent,
        episode=f"{session}/{task}" if task else None,
        at=at,
        probabilities=_probabilities(action, candidates, chosen),
        source=_extra(row),
        signals=(*signals, *outcomes),
        ignored=tuple(left),
        schema=STEP,
    )


def _terminal(row: dict[str, Any], at: float | None) -> tuple[ImportedSignal, ...]:
    """The last step of an agent is terminal, but other agents may follow, so it is a signal and not the end."""
    last = flag(row, "terminal")
    return () if last is None else (ImportedSignal(name="terminal", value=float(last), at=at),)


def _joined(decision: Record, step: Record) -> Record:
    """The decision with the outcome from its step."""
    return replace(
        decision,
        state={**step.state, **decision.state},
        signals=(*step.signals, *(signal for signal in decision.signals if signal.name not in step.labels())),
        source="synthetic" if "synthetic" in (step.source, decision.source) else decision.source,
        ignored=(*decision.ignored, *step.ignored),
        schema=f"{DECISION} + {STEP}",
    )


def _state(row: dict[str, Any], at: float | None, left: list[str]) -> tuple[dict[str, Any], tuple[ImportedSignal, ...]]:
    """The state that was known, and the outcomes that the row has in its state."""
    values = object_of(row, "state", optional=True)
    signals = []
    passed = flag(values, "verification_passed")
    if passed is not None:
        signals.append(ImportedSignal(name="verification_passed", value=float(passed), at=at))
    reason = values.get("failed_reason")
    if isinstance(reason, str) and reason:
        signals.append(
            ImportedSignal(name="timeout", value=float("timeout" in reason.lower()), label=reason[:200], at=at)
        )
    known = {name: value for name, value in values.items() if name not in _OUTCOMES}
    return flat(known, "state", left=left), tuple(signals)


def _models(primary: str, fallback: str, chosen: str) -> tuple[Candidate, ...]:
    return tuple(Candidate(name) for name in dict.fromkeys(name for name in (primary, fallback, chosen) if name))


def _probabilities(row: dict[str, Any], candidates: tuple[Candidate, ...], chosen: str) -> tuple[float, ...] | None:
    propensity = number(row, "propensity", optional=True)
    if propensity is None:
        return None
    if not 0.0 < propensity <= 1.0 or (len(candidates) == 1 and propensity != 1.0):
        raise Wrong("propensity", f"propensity is {propensity!r}, expected above 0 and at most 1 over the candidates.")
    rest = (1.0 - propensity) / (len(candidates) - 1) if len(candidates) > 1 else 0.0
    return tuple(propensity if candidate.name == chosen else rest for candidate in candidates)


def _extra(row: dict[str, Any]) -> Source:
    return "synthetic" if object_of(row, "extra", optional=True).get("synthetic") is True else "imported"


ROUTING = Format(
    name="sage-routing",
    about='SAGE routing rows, schema "1"',
    task="route",
    read=by_line(read_routing),
    looks=looks_like_routing,
    priority=30,
)


JOURNAL = Format(
    name="sage-journal",
    about="SAGE session journals: routing decisions and trajectory steps",
    task="route",
    read=read_journal,
    looks=looks_like_journal,
    label="trajectory_reward",
    priority=31,
)
