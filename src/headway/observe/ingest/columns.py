"""Any table: CSV, JSON lines or Parquet, with a word about which column means what.

    --map text=question --map action=model --map reward=score --map propensity=p --map state.length=tokens

Our names: text, action, reward, propensity, candidates (a JSON list, or separated by |), id, at, episode, step, role,
source, failed, `state.NAME` and `signal.NAME`. A column that goes by one of them need not be mapped; other columns are
left out and reported. The probability of the action has to be mapped or declared unknown (`--map propensity=unknown`):
a table that is silent about it would be taken for one that knows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from headway.nouns.errors import InvalidInput, did_you_mean
from headway.nouns.records import SOURCES, Candidate, Source
from headway.observe.ingest.fields import Wrong, checked_text, flat, integer, moment, name_of, number, shown
from headway.observe.ingest.records import Options, Problem, Record, Row, Told

__all__ = ["ROLES", "read_columns"]

ROLES = (
    "text", "action", "reward", "propensity", "candidates", "id", "at", "episode", "step", "role", "source", "failed",
)  # fmt: skip
UNKNOWN = "unknown"


def read_columns(rows: Iterable[Row | Problem], options: Options) -> Iterator[Record | Problem]:
    mapping: dict[str, str] | None = None
    sets: dict[tuple[str, ...], tuple[Candidate, ...]] = {}
    for each in rows:
        if isinstance(each, Problem):
            yield each
            continue
        line, row = each
        if mapping is None:
            mapping = _mapping(row, options)
        try:
            yield _record(line, row, mapping, options, sets)
        except Wrong as wrong:
            yield Problem(line, wrong.field, wrong.message, wrong.cure)


def _mapping(row: dict[str, Any], options: Options) -> dict[str, str]:
    """Our name → their column. What is mapped and not there is an error before anything is read."""
    given = dict(options.columns)
    for ours in given:
        if ours not in ROLES and not ours.startswith(("state.", "signal.")):
            known = (*ROLES, "state.NAME", "signal.NAME")
            raise InvalidInput(
                f"--map {ours}=… is not one of our names.", code="bad_mapping", hint=did_you_mean(ours, known)
            )
    for ours in ROLES:
        if ours not in given and ours in row:
            given[ours] = ours
    if "action" not in given:
        raise InvalidInput(
            "No column says which action was chosen.",
            code="bad_mapping",
            hint=f"Name it with --map action=COLUMN. {did_you_mean('action', map(str, row))}",
        )
    if "propensity" not in given:
        raise InvalidInput(
            "Nothing says with which probability the actions were chosen.",
            code="bad_mapping",
            hint="Name the column with --map propensity=COLUMN, or say that it is not known: --map propensity=unknown.",
        )
    return given


def _record(
    line: int,
    row: dict[str, Any],
    mapping: dict[str, str],
    options: Options,
    sets: dict[tuple[str, ...], tuple[Candidate, ...]],
) -> Record:
    told = {ours: row.get(theirs) for ours, theirs in mapping.items()}
    named = {ours: f"{theirs} ({ours})" if ours != theirs else ours for ours, theirs in mapping.items()}
    values = {named[ours]: value for ours, value in told.items()}

    def name(ours: str, *, optional: bool = True) -> str:
        return name_of(values, named[ours], optional=optional) if ours in named else ""

    def real(ours: str) -> float | None:
        return number(values, named[ours], optional=True, words=True) if ours in named else None

    action = _text(values, named["action"])
    if not action or len(action) > 2000:
        raise Wrong(named["action"], f"{named['action']} is {shown(told['action'])}, expected 1 to 2,000 characters.")
    candidates = _candidates(told.get("candidates"), named.get("candidates", ""), action, options, sets)
    left: list[str] = []
    state = {ours[6:]: value for ours, value in told.items() if ours.startswith("state.") and value is not None}
    at = moment(values, named["at"], optional=True) if "at" in named else None
    signals = [("reward", real("reward")), ("failed", real("failed"))]
    signals += [(ours[7:], real(ours)) for ours in mapping if ours.startswith("signal.")]
    used = {*mapping.values()}
    return Record(
        line=line,
        origin=name("id"),
        action=action,
        candidates=candidates,
        text=_text(values, named["text"]) if "text" in named else "",
        state=flat(state, "state", left=left, words=True),
        role=name("role"),
        episode=name("episode") or None,
        step=integer(values, named["step"], words=True) if "step" in named else None,
        at=at,
        probabilities=_probabilities(told, mapping, named, candidates, action),
        source=_source(name("source")),
        signals=tuple(Told(name=each, value=value, at=at) for each, value in signals if value is not None),
        ignored=(*left, *(str(theirs) for theirs in row if theirs not in used)),
    )


def _text(values: dict[str, Any], field: str) -> str:
    found = values.get(field)
    if found is None:
        return ""
    if isinstance(found, (int, float)) and not isinstance(found, bool):
        found = str(found)
    if not isinstance(found, str):
        raise Wrong(field, f"{field} is {shown(found)}, expected a text.")
    return checked_text(field, found)


def _candidates(
    given: object, field: str, action: str, options: Options, sets: dict[tuple[str, ...], tuple[Candidate, ...]]
) -> tuple[Candidate, ...]:
    """What could be chosen: the row's word, else the caller's, else only what was chosen is known."""
    if isinstance(given, str):
        given = _listed(given, field)
    if given is not None and not (isinstance(given, list) and all(isinstance(each, str) and each for each in given)):
        raise Wrong(field, f"{field} is {shown(given)}, expected a list of names.")
    names = tuple(given) if isinstance(given, list) else options.candidates or (action,)
    if action not in names:
        raise Wrong("action", f"{action!r} is not among the candidates {shown(list(names))}.", "Name every candidate.")
    if len(set(names)) < len(names):
        raise Wrong(field, f"{field} names a candidate twice: {shown(list(names))}.")
    found = sets.get(names)
    if found is None:
        if len(sets) > 4096:
            sets.clear()
        found = sets[names] = tuple(Candidate(each) for each in names)
    return found


def _listed(text: str, field: str) -> object:
    import msgspec

    if not text.lstrip().startswith("["):
        return [each.strip() for each in text.split("|")]
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        raise Wrong(field, f"{field} is {shown(text)}, which is neither a JSON list nor names between |.") from None


def _probabilities(
    told: dict[str, Any],
    mapping: dict[str, str],
    named: dict[str, str],
    candidates: tuple[Candidate, ...],
    action: str,
) -> tuple[float, ...] | None:
    if mapping["propensity"] == UNKNOWN and told["propensity"] is None:
        return None
    given = number({"propensity": told["propensity"]}, "propensity", optional=True, words=True)
    if given is None:
        return None  # this row does not know; others may
    field = named["propensity"]
    if not 0.0 < given <= 1.0:
        raise Wrong(
            field,
            f"{field} is {given!r}, expected above 0 and at most 1.",
            "It is the probability with which this action was chosen.",
        )
    if len(candidates) == 1 and given != 1.0:
        raise Wrong(
            field,
            f"{field} is {given!r}, and only {action!r} is known to have been possible.",
            "Say what could be chosen: --map candidates=COLUMN, or --candidates small,large.",
        )
    rest = (1.0 - given) / (len(candidates) - 1) if len(candidates) > 1 else 0.0
    found = tuple(given if each.name == action else rest for each in candidates)
    assert math.isclose(math.fsum(found), 1.0, abs_tol=1e-9)
    return found


def _source(said: str) -> Source:
    if not said:
        return "imported"
    for each in SOURCES:
        if each == said:
            return "imported" if each == "real" else each
    raise Wrong("source", f"source is {said!r}, expected one of {', '.join(SOURCES)}.")
