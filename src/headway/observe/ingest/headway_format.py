"""Our own exports, read back: every decision keeps its id, probabilities, details, and signals with rater and key.

The files of `headway data export`, as JSON lines, Parquet or CSV. What is derived (status, reward) is not read: the
store derives it again. What belongs to the project that exported (policy bundles, seeds, configurations) stays there,
so that an imported decision says "made elsewhere" when it is asked to be replayed.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headway.nouns.errors import InvalidInput
from headway.nouns.ids import parse_decision_id
from headway.nouns.records import SOURCES, Candidate, Detail, Value
from headway.observe.details import checked, from_text
from headway.observe.ingest.fields import Wrong, fields_left, finite, flat, integer, moment, name_of, shown, text_of
from headway.observe.ingest.formats import Format, by_line
from headway.observe.ingest.records import ImportedSignal, Options, Record

__all__ = ["HEADWAY_FORMAT", "looks_like_export", "read_export"]

_USED = (
    "id", "task", "at", "text", "state", "episode", "step", "role", "candidates", "probabilities", "action",
    "propensity", "policy", "source", "signals", "details",
)  # fmt: skip
_DERIVED = (
    "policy_hash", "config_hash", "encoder", "exploration", "seed", "draw", "assigned", "state_seq", "key", "status",
    "reward", "clipped", "weight", "reward_version",
)  # fmt: skip


def looks_like_export(row: dict[str, Any]) -> bool:
    return str(row.get("id", "")).startswith("dec_") and {"task", "candidates", "action", "signals"} <= row.keys()


def read_export(line: int, row: dict[str, Any], _: Options) -> Record:
    if isinstance(row.get("signals"), str):  # a CSV: its cells are guarded from spreadsheets by an apostrophe
        row = {name: _unguarded(value) for name, value in row.items()}
    try:
        identifier = parse_decision_id(name_of(row, "id"))
    except InvalidInput as error:
        raise Wrong("id", error.message, error.hint) from None
    if row.get("draw"):
        raise Wrong(
            "draw",
            "the decision repeats an earlier draw of its episode, which an import cannot tie together again.",
            "Leave such lines out (--on-error skip): their outcome belongs to the draw.",
        )
    left = fields_left(row, (*_USED, *_DERIVED))
    if _decoded(row, "episode_signals", []):
        left.append("episode_signals")
    elif "episode_signals" in left:
        left.remove("episode_signals")
    action = text_of(row, "action", most=2000)
    candidates = _candidates(_decoded(row, "candidates", []))
    if action not in {each.name for each in candidates}:
        raise Wrong("action", f"action is {action!r}, which is not among the candidates.")
    at = moment(row, "at")
    source = name_of(row, "source", optional=True)
    state = _decoded(row, "state", {})
    if not isinstance(state, dict):
        raise Wrong("state", f"state is {shown(state)}, expected an object.")
    signals = _decoded(row, "signals", [])
    if not isinstance(signals, list):
        raise Wrong("signals", f"signals is {shown(signals)}, expected a list of objects.")
    return Record(
        line=line,
        origin=identifier,
        id=identifier,
        task=name_of(row, "task"),
        action=action,
        candidates=candidates,
        text=text_of(row, "text", optional=True),
        state=flat(state, "state", left=left),
        role=name_of(row, "role", optional=True),
        episode=name_of(row, "episode", optional=True) or None,
        step=integer(row, "step", words=True),
        at=at,
        probabilities=_probabilities(_decoded(row, "probabilities", []), candidates, action),
        policy=name_of(row, "policy", optional=True),
        source=next((each for each in SOURCES if each == source and each != "real"), "imported"),
        signals=tuple(_signal(each, place) for place, each in enumerate(signals)),
        details=_details(_decoded(row, "details", {}), identifier),
        ignored=tuple(left),
    )


def _details(given: object, decision: str) -> tuple[Detail, ...]:
    try:
        details = from_text(given)
        checked(decision, details)
    except ValueError as error:
        raise Wrong("details", f"details is {shown(given)}: {error}.") from None
    except InvalidInput as error:
        raise Wrong("details", error.message, error.hint) from None
    return details


def _unguarded(value: Any) -> Any:
    guarded = isinstance(value, str) and value[:1] == "'" and value[1:2] in ("=", "+", "-", "@", "\t", "\r")
    return value[1:] if guarded else value


def _decoded(row: dict[str, Any], field: str, missing: Any) -> Any:
    """CSV and Parquet keep structures as JSON text."""
    found = row.get(field)
    if found is None:
        return missing
    if isinstance(found, str):
        try:
            return msgspec.json.decode(found)
        except (msgspec.DecodeError, RecursionError):
            raise Wrong(field, f"{field} is {shown(found)}, expected JSON.") from None
    return found


def _candidates(given: object) -> tuple[Candidate, ...]:
    if not isinstance(given, list) or not given:
        raise Wrong("candidates", f"candidates is {shown(given)}, expected a list of names or objects.")
    found = []
    for each in given:
        features: dict[str, Value] = {}
        name = each
        if isinstance(each, dict):
            name = each.get("name")
            features = flat({key: value for key, value in each.items() if key != "name"}, "candidates", left=[])
        if not isinstance(name, str) or not 0 < len(name) <= 2000:
            raise Wrong("candidates", f"a candidate is {shown(each)}, expected a name.")
        found.append(Candidate(name, features))
    if len({each.name for each in found}) < len(found):
        raise Wrong("candidates", "a candidate is there twice.")
    return tuple(found)


def _probabilities(given: object, candidates: tuple[Candidate, ...], action: str) -> tuple[float, ...] | None:
    if given == []:
        return None
    if not isinstance(given, list) or len(given) != len(candidates):
        raise Wrong("probabilities", f"probabilities is {shown(given)}, expected {len(candidates)} numbers.")
    found = tuple(finite("probabilities", each) for each in given)
    chosen = next(value for value, each in zip(found, candidates, strict=True) if each.name == action)
    if any(not 0.0 <= each <= 1.0 for each in found) or abs(sum(found) - 1.0) > 1e-6 or chosen <= 0.0:
        raise Wrong(
            "probabilities", f"probabilities is {shown(given)}, expected a distribution that can do {action!r}."
        )
    return found


def _signal(given: object, place: int) -> ImportedSignal:
    path = f"signals[{place}]"
    if not isinstance(given, dict):
        raise Wrong(path, f"{path} is {shown(given)}, expected an object.")
    return ImportedSignal(
        name=name_of(given, "name"),
        value=finite(f"{path}.value", given.get("value")),
        rater=name_of(given, "rater", optional=True),
        label=text_of(given, "label", optional=True, most=10_000),
        key=name_of(given, "key", optional=True),
        at=moment(given, "at", optional=True),
    )


HEADWAY_FORMAT = Format(
    name="headway",
    about="what `headway data export` writes",
    task="",
    read=by_line(read_export),
    looks=looks_like_export,
    priority=10,
)
