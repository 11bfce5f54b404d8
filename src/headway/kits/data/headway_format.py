"""Read files of `headway data export`: decisions keep their id, probabilities, details and signals.

JSON lines, Parquet or CSV. Derived fields (status, reward) are ignored: the store derives them again, in the order in
which the decisions settled before (`settled`), so that learning gives the same policy. Policy bundles, seeds and
configurations stay in the exporting project, so an imported decision cannot be replayed ("made elsewhere").

Details of kits in an export: kit → name → base64.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as BadBase64
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from headway.kits.data.cell import unguarded
from headway.kits.data.fields import Wrong, fields_left, finite, flat, integer, moment, name_of, shown, text_of
from headway.kits.data.formats import Format, by_line
from headway.kits.data.records import ImportedSignal, Options, Record
from headway.nouns import SOURCES, Candidate, Detail, Value, errors, ids
from headway.observe import checked

_USED = (
    "id", "task", "at", "text", "state", "episode", "step", "role", "candidates", "probabilities", "action",
    "propensity", "policy", "source", "signals", "details",
    "settled", "unit", "position",
)  # fmt: skip
_DERIVED = (
    "policy_hash", "config_hash", "encoder", "exploration", "seed", "draw", "assigned", "state_seq", "key", "status",
    "reward", "clipped", "weight", "reward_version",
)  # fmt: skip


def looks_like_export(row: dict[str, Any]) -> bool:
    return str(row.get("id", "")).startswith("dec_") and {"task", "candidates", "action", "signals"} <= row.keys()


def read_export(line: int, row: dict[str, Any], _: Options) -> Record:
    if isinstance(row.get("signals"), str):  # CSV: an apostrophe protects cells from being run as formulas
        row = {name: unguarded(value) if isinstance(value, str) else value for name, value in row.items()}
    try:
        identifier = ids.parse_decision(name_of(row, "id"))
    except errors.InvalidInput as error:
        raise Wrong("id", error.message, error.hint) from None
    unit = name_of(row, "unit", optional=True)
    if row.get("draw") and row["draw"] != unit:
        raise Wrong(
            "draw",
            "the decision repeats an earlier draw of its episode, and an import cannot restore that link.",
            "Skip such lines (--on-error skip): their outcome belongs to the draw.",
        )
    left = fields_left(row, (*_USED, *_DERIVED))
    if _decoded(row, "episode_signals", []):
        left.append("episode_signals")
    elif "episode_signals" in left:
        left.remove("episode_signals")
    action = text_of(row, "action", most=2000)
    candidates = _candidates(_decoded(row, "candidates", []))
    if action not in {candidate.name for candidate in candidates}:
        raise Wrong("action", f"action is {action!r}, which is not among the candidates.")
    at = moment(row, "at")
    source = name_of(row, "source", optional=True)
    state = _decoded(row, "state", {})
    if not isinstance(state, dict):
        raise Wrong("state", f"state is {shown(state)}, expected an object.")
    signals = _decoded(row, "signals", [])
    if not isinstance(signals, list):
        raise Wrong("signals", f"signals is {shown(signals)}, expected a list of objects.")
    probabilities = _probabilities(_decoded(row, "probabilities", []), candidates, action)
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
        probabilities=probabilities,
        propensity=_propensity(row) if probabilities is None else None,
        policy=name_of(row, "policy", optional=True),
        unit=_unit(unit),
        position=integer(row, "position", words=True) or 0,
        source=next((known for known in SOURCES if known == source and known != "real"), "imported"),
        signals=tuple(_signal(signal, place) for place, signal in enumerate(signals)),
        details=_details(_decoded(row, "details", {}), identifier),
        place=integer(row, "settled", words=True),
        ignored=tuple(left),
    )


def _unit(unit: str) -> str:
    try:
        return ids.text(ids.raw(unit)) if unit else ""
    except errors.InvalidInput as error:
        raise Wrong("unit", error.message, error.hint) from None


def _details(raw: object, decision: str) -> tuple[Detail, ...]:
    try:
        details = from_text(raw)
        checked(decision, details)
    except ValueError as error:
        raise Wrong("details", f"details is {shown(raw)}: {error}.") from None
    except errors.InvalidInput as error:
        raise Wrong("details", error.message, error.hint) from None
    return details


def _decoded(row: dict[str, Any], field: str, missing: Any) -> Any:
    """A field that may be JSON text, as in CSV and Parquet."""
    value = row.get(field)
    if value is None:
        return missing
    if isinstance(value, str):
        try:
            return msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            raise Wrong(field, f"{field} is {shown(value)}, expected JSON.") from None
    return value


def _candidates(raw: object) -> tuple[Candidate, ...]:
    if not isinstance(raw, list) or not raw:
        raise Wrong("candidates", f"candidates is {shown(raw)}, expected a list of names or objects.")
    candidates = []
    for item in raw:
        features: dict[str, Value] = {}
        name = item
        if isinstance(item, dict):
            name = item.get("name")
            features = flat({key: value for key, value in item.items() if key != "name"}, "candidates", left=[])
        if not isinstance(name, str) or not 0 < len(name) <= 2000:
            raise Wrong("candidates", f"a candidate is {shown(item)}, expected a name.")
        candidates.append(Candidate(name, features))
    if len({candidate.name for candidate in candidates}) < len(candidates):
        raise Wrong("candidates", "a candidate appears twice.")
    return tuple(candidates)


def _probabilities(raw: object, candidates: tuple[Candidate, ...], action: str) -> tuple[float, ...] | None:
    if raw == []:
        return None
    if not isinstance(raw, list) or len(raw) != len(candidates):
        raise Wrong("probabilities", f"probabilities is {shown(raw)}, expected {len(candidates)} numbers.")
    probabilities = tuple(finite("probabilities", value) for value in raw)
    chosen = next(value for value, candidate in zip(probabilities, candidates, strict=True) if candidate.name == action)
    if any(not 0.0 <= value <= 1.0 for value in probabilities) or abs(sum(probabilities) - 1.0) > 1e-6 or chosen <= 0.0:
        raise Wrong(
            "probabilities",
            f"probabilities is {shown(raw)}, expected a distribution with a positive probability of {action!r}.",
        )
    return probabilities


def _propensity(row: dict[str, Any]) -> float | None:
    """Of an action of several heads: its probabilities are in the details."""
    value = _decoded(row, "propensity", None)
    if value is None:
        return None
    propensity = finite("propensity", value)
    if not 0.0 < propensity <= 1.0:
        raise Wrong("propensity", f"propensity is {shown(value)}, expected a number above 0 and at most 1.")
    return propensity


def _signal(raw: object, place: int) -> ImportedSignal:
    path = f"signals[{place}]"
    if not isinstance(raw, dict):
        raise Wrong(path, f"{path} is {shown(raw)}, expected an object.")
    return ImportedSignal(
        name=name_of(raw, "name"),
        value=finite(f"{path}.value", raw.get("value")),
        rater=name_of(raw, "rater", optional=True),
        label=text_of(raw, "label", optional=True, most=10_000),
        key=name_of(raw, "key", optional=True),
        at=moment(raw, "at", optional=True),
    )


HEADWAY_FORMAT = Format(
    name="headway",
    about="what `headway data export` writes",
    task="",
    read=by_line(read_export),
    looks=looks_like_export,
    priority=10,
)


def as_text(details: Iterable[Detail]) -> dict[str, dict[str, str]]:
    """Kit → name → base64, as an export holds them."""
    by_kit: dict[str, dict[str, str]] = {}
    for detail in details:
        by_kit.setdefault(detail.kit, {})[detail.name] = b64encode(detail.data).decode("ascii")
    return by_kit


def from_text(value: object) -> tuple[Detail, ...]:
    """The details that `as_text` wrote; a ValueError with a readable message for anything else."""
    if not isinstance(value, Mapping):
        raise ValueError("expected an object of kits")
    details = []
    for kit, by_name in value.items():
        if not isinstance(by_name, Mapping):
            raise ValueError(f"expected an object of names for the kit {kit!r}")
        for name, text in by_name.items():
            try:
                data = b64decode(text, validate=True)
            except (BadBase64, TypeError, ValueError):
                raise ValueError(f"expected base64 for {name!r} of the kit {kit!r}") from None
            details.append(Detail(str(kit), str(name), data))
    return tuple(details)
