"""Which span is a decision, and which event is a signal: OpenTelemetry's gen_ai, OpenInference and Langfuse.

conventions.toml names the attributes. The text is the latest user message; an ERROR status is `failed`; a result of an
evaluation, as a log record or an event of the span, is a signal. A span that carries headway.candidates and
headway.probabilities, as ours do, keeps them; no other has a propensity. A cost that is not there follows from the
price of the upstream with this model.

Not covered: several models in one span; an evaluation that names neither a span nor a decision of Headway.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Struct

from headway.files import read_regular
from headway.kits.data import ImportedSignal, Record, Wrong, checked_text
from headway.kits.otel.otlp import Span
from headway.nouns import Candidate, errors, ids
from headway.settings import Settings, Upstream

EVALUATION = "gen_ai.evaluation.result"
DECISION = "headway.decision"
_MOST_TEXT = 100_000
_MOST_JSON = 1_000_000  # characters of a value that is opened
_MOST_CANDIDATES = 1000
_NAMES = tomllib.loads(read_regular(Path(__file__).with_suffix(".toml")).decode())
_OTHER = re.compile(r"[^A-Za-z0-9_.-]+")
Attributes = Annotated[tuple[str, ...], Meta(max_length=100)]


class TraceSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[traces]: what becomes of spans that are sent to /v1/traces."""

    task: str = "traced"  # of their decisions
    task_from: str = ""  # an attribute that names the task; where it is missing, `task`
    action: Attributes = ()  # attributes, before those that are known
    state: Attributes = ()
    text: bool = True  # whether the latest user message is stored, if spans have it
    when: Mapping[str, tuple[str, ...]] = {}  # attribute → values: which spans count; empty: calls of a model
    signals: Mapping[str, str] = {}  # signal → attribute
    evaluations: Mapping[str, str] = {}  # name of an evaluation → signal


class EvaluationEvent(NamedTuple):
    """A result about a span, or about a decision of Headway."""

    trace: str
    span: str
    decision: str  # empty: of the span
    name: str
    value: float
    label: str
    at: float


def is_decision(span: Span, wanted: TraceSettings) -> bool:
    """Whether a span is the choice of a model, and not a tool, an agent's run or a retrieval."""
    has = span.attributes
    if wanted.when:
        return all(str(has.get(name)) in values for name, values in wanted.when.items())
    operation, kind = has.get("gen_ai.operation.name"), has.get("openinference.span.kind")
    observation = has.get("langfuse.observation.type")
    if operation is not None:
        return operation in _NAMES["calls"]
    if kind is not None or observation is not None:
        return kind == "LLM" or observation == "generation"
    return "headway.action" in has or "gen_ai.request.model" in has


def record_of(span: Span, wanted: TraceSettings, settings: Settings, *, id: str, key: str) -> Record:
    """The decision of a span, sent with this API key; Wrong says what it lacks."""
    has = span.attributes
    action = action_of(span, wanted)
    named = has.get("headway.task") or has.get(wanted.task_from) or wanted.task
    task = settings.task(str(named)[:200])
    upstream = next((one for one in settings.upstreams.values() if action in (one.name, one.model)), None)
    if upstream is not None and action not in task.actions:
        action = upstream.name
    candidates, probabilities = drawn_on(has, action)
    if not candidates:
        others = task.actions if action in task.actions else (action,)
        candidates = tuple(Candidate(name) for name in others)
    if not 0.0 < span.at < 1e11 or span.ended < 0:
        raise Wrong("time", f"its start is {span.at:g} s", "A span starts after 1970.")
    measured = measured_of(span, wanted, upstream)
    label = checked_text("error.type", str(has.get("error.type") or ""), 1000)
    return Record(
        line=0,
        id=id,
        origin=f"{span.trace}:{span.id}",
        task=task.name,
        action=action,
        candidates=candidates,
        probabilities=probabilities,
        text=_text(has) if wanted.text else "",
        state={name: _value(name, has[name]) for name in wanted.state if name in has},
        at=span.at,
        policy=str(has.get("headway.policy") or ""),
        signals=tuple(
            ImportedSignal(
                name=name, value=value, rater=key, label=label if name == "failed" else "", at=span.ended or span.at
            )
            for name, value in measured.items()
        ),
    )


def action_of(span: Span, wanted: TraceSettings) -> str:
    """What was chosen."""
    action = checked_text("action", str(_first(span.attributes, (*wanted.action, *_NAMES["action"])) or ""), 200)
    if not action:
        raise Wrong("action", "it names no model", "Name the attribute: [traces] action.")
    return action


def measured_of(span: Span, wanted: TraceSettings, upstream: Upstream | None) -> dict[str, float]:
    """The signals of a span: its tokens, cost, latency and failure, under the names that the proxy gives them."""
    has = span.attributes
    measured = {
        name: number for name, paths in _NAMES["numbers"].items() if (number := _number(_first(has, paths))) is not None
    }
    for path, keys in _NAMES["json"].items():
        opened = _json(has.get(path))
        for name, inner in keys.items() if isinstance(opened, dict) else ():
            number = _number(_first(opened, inner))
            if number is not None:
                measured.setdefault(name, number)
    if span.ended > span.at:
        measured["latency_s"] = span.ended - span.at
    if span.failed:
        measured["failed"] = 1.0
    if "cost_usd" not in measured and upstream is not None and upstream.priced and "prompt_tokens" in measured:
        measured["cost_usd"] = upstream.cost_usd(
            measured["prompt_tokens"], measured.get("completion_tokens", 0.0), measured.get("cached_tokens", 0.0)
        )
    for name, attribute in wanted.signals.items():
        number = _number(has.get(attribute))
        if number is not None:
            measured[name] = number
    return measured


def evaluation_of(
    row: Span, name: str, has: Mapping[str, Any], at: float, wanted: TraceSettings
) -> EvaluationEvent | str:
    """The result in a log record or an event; a text says why it has none."""
    called = str(has.get("gen_ai.evaluation.name") or "")
    label = str(has.get("gen_ai.evaluation.score.label") or "")[:200]
    value = _number(has.get("gen_ai.evaluation.score.value"))
    if value is None:
        value = _NAMES["labels"].get(label.lower())
    if not row.trace and not decision_named(has):
        return f"{name} of {called[:80]!r} is in no span, and names no decision"
    signal = wanted.evaluations.get(called) or _OTHER.sub("_", called.strip())[:64]
    if not signal or value is None:
        return (
            f"the event {name!r} of the evaluation {called[:80]!r} has no score.value, and no label that is a verdict"
        )
    return EvaluationEvent(row.trace, row.id, decision_named(has), signal, value, label, at)


def decision_named(has: Mapping[str, Any]) -> str:
    """The decision of Headway that a span or an event names; empty if it names none."""
    for name in (DECISION, "gen_ai.response.id"):
        text = str(has.get(name) or "")
        if text.startswith("dec_"):
            with suppress(errors.InvalidInput):
                return ids.parse_decision(text)
    return ""


def drawn_on(has: Mapping[str, Any], action: str) -> tuple[tuple[Candidate, ...], tuple[float, ...] | None]:
    """The candidates and their probabilities, of a span that says both."""
    names, chances = has.get("headway.candidates"), has.get("headway.probabilities")
    if not isinstance(names, list) or not isinstance(chances, list):
        return (), None
    numbers = [_number(chance) for chance in chances]
    sound = [number for number in numbers if number is not None and 0.0 <= number <= 1.0]
    texts = [checked_text("headway.candidates", str(name), 200) for name in names[:_MOST_CANDIDATES]]
    fits = len(texts) == len(names) == len(sound) == len(numbers) == len(set(texts)) and action in texts
    if not fits or abs(math.fsum(sound) - 1.0) > 1e-6 or sound[texts.index(action)] <= 0.0:
        raise Wrong("headway.probabilities", "headway.candidates and headway.probabilities do not fit one another")
    return tuple(Candidate(name) for name in texts), tuple(sound)


def _text(has: Mapping[str, Any]) -> str:
    """The latest user message."""
    for place in range(9, -1, -1):  # OpenInference writes each message as attributes of its own
        if has.get(f"llm.input_messages.{place}.message.role") == "user":
            content = has.get(f"llm.input_messages.{place}.message.content")
            if isinstance(content, str):
                return checked_text("text", content[:_MOST_TEXT], _MOST_TEXT)
    given = _first(has, _NAMES["text"])
    value = _json(given)
    if isinstance(value, dict):
        value = value.get("messages", value.get("input", given))
    found = _message(value) if isinstance(value, list) else value
    text = found if isinstance(found, str) else given if isinstance(given, str) else ""
    return checked_text("text", text[:_MOST_TEXT], _MOST_TEXT)


def _message(rows: Sequence[Any]) -> str | None:
    for row in reversed(rows):
        if isinstance(row, dict) and row.get("role") == "user":
            content = row.get("content", row.get("parts"))
            if isinstance(content, list):
                parts = [one.get("text", one.get("content")) for one in content if isinstance(one, dict)]
                content = "\n".join(part for part in parts if isinstance(part, str))
            if isinstance(content, str):
                return content
    return None


def _value(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return checked_text(name, value, 10_000)
    if isinstance(value, bool) or (isinstance(value, (int, float)) and math.isfinite(value) and abs(value) < 2**53):
        return value
    raise Wrong(name, f"{name} is not a number, a text, or true or false")


def _first(has: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((has[name] for name in names if has.get(name) is not None), None)


def _number(value: Any) -> float | None:
    if isinstance(value, (int, float)) and abs(value) < 1e18 and math.isfinite(value):
        return float(value)
    return None


def _json(value: Any) -> Any:
    """What a text holds, if it is JSON."""
    if not isinstance(value, str) or value[:1] not in ("{", "[") or len(value) > _MOST_JSON:
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return value
