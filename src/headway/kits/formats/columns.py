"""Any table (CSV, JSON lines or Parquet), with a mapping of its columns.

    --map text=question --map action=model --map reward=score --map propensity=p --map state.length=tokens

Our names: text, action, reward, propensity, candidates (a JSON list, or separated by |), id, at, episode, step, role,
source, failed, idempotency_key, `state.NAME` and `signal.NAME`. Columns with these names need no mapping; other columns
are ignored and reported. The probability of the action must be mapped or declared unknown (`--map propensity=unknown`),
so that a missing probability is never assumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from math import isfinite
from typing import Any

import msgspec

from headway.kits.data import (
    Format,
    ImportedSignal,
    Options,
    Problem,
    Record,
    Row,
    Wrong,
    checked_text,
    flat,
    integer,
    moment,
    name_of,
    number,
    shown,
)
from headway.nouns import SOURCES, Candidate, Source, errors

ROLES = (
    "text", "action", "reward", "propensity", "candidates", "id", "at", "episode", "step", "role", "source", "failed",
    "idempotency_key",
)  # fmt: skip
UNKNOWN = "unknown"
_Fields = Mapping[Any, Any]
_HEAD = 1000  # rows that are read to find the columns


def read_columns(rows: Iterable[Row | Problem], options: Options) -> Iterator[Record | Problem]:
    stream = iter(rows)
    first = list(islice(stream, _HEAD))
    names = dict.fromkeys(name for item in first if not isinstance(item, Problem) for name in item[1])
    plan = _Plan(_mapping(list(names), options), options.candidates) if names else None
    for item in chain(first, stream):
        if isinstance(item, Problem):
            yield item
            continue
        line, row = item
        if plan is None:
            plan = _Plan(_mapping(list(row), options), options.candidates)
        try:
            yield plan.record(line, row)
        except Wrong as wrong:
            yield Problem(line, wrong.field, wrong.message, wrong.cure)


def _mapping(columns: Sequence[str], options: Options) -> dict[str, str]:
    """Our name → column. A mapped column that does not exist is an error before anything is read."""
    mapping = dict(options.columns)
    for ours, theirs in mapping.items():
        if ours not in ROLES and not ours.startswith(("state.", "signal.")):
            known = (*ROLES, "state.NAME", "signal.NAME")
            raise errors.InvalidInput(
                f"--map {ours}=… is not a known name.", code="bad_mapping", hint=errors.did_you_mean(ours, known)
            )
        if theirs not in columns and (ours, theirs) != ("propensity", UNKNOWN):
            raise errors.InvalidInput(
                f"--map {ours}={theirs}: there is no column {theirs!r}.",
                code="bad_mapping",
                hint=errors.did_you_mean(theirs, columns),
            )
    for ours in ROLES:
        if ours in columns:
            mapping.setdefault(ours, ours)
    if "action" not in mapping:
        raise errors.InvalidInput(
            "No column says which action was chosen.",
            code="bad_mapping",
            hint=f"Name it with --map action=COLUMN. {errors.did_you_mean('action', columns)}",
        )
    if "propensity" not in mapping:
        raise errors.InvalidInput(
            "No column says with which probability the actions were chosen.",
            code="bad_mapping",
            hint="Name the column with --map propensity=COLUMN, or declare it unknown: --map propensity=unknown.",
        )
    return mapping


class _Plan:
    """The meaning of every column, computed once for all rows."""

    def __init__(self, mapping: Mapping[str, str], candidates: tuple[str, ...]) -> None:
        self._column: dict[Any, str] = dict(mapping)  # ours → theirs; a row has no field None
        # The name of a column in messages: the column, and our name if it differs.
        self._label = {ours: ours if ours == theirs else f"{theirs} ({ours})" for ours, theirs in mapping.items()}
        self._state = [(ours[6:], theirs) for ours, theirs in mapping.items() if ours.startswith("state.")]
        self._signals = [
            (ours.removeprefix("signal."), ours)
            for ours in mapping
            if ours in ("reward", "failed") or ours.startswith("signal.")
        ]
        self._used = frozenset(mapping.values())
        self._default = candidates
        self._sets: dict[tuple[str, ...], tuple[Candidate, ...]] = {}
        self._known: dict[object, tuple[tuple[Candidate, ...], tuple[float, ...] | None]] = {}

    def record(self, line: int, row: _Fields) -> Record:
        action = self._text(row, "action")
        if not 0 < len(action) <= 2000:
            field = self._label["action"]
            raise Wrong(field, f"{field} is {shown(action)}, expected 1 to 2,000 characters.")
        left: list[str] = []
        candidates, probabilities = self._chances(row, action)
        values = {ours: row[theirs] for ours, theirs in self._state if row.get(theirs) is not None}
        at = self._moment(row)
        signals = []
        for name, ours in self._signals:
            value = self._number(row, ours)
            if value is not None:
                signals.append(ImportedSignal(name=name, value=value, at=at))
        return Record(
            line=line,
            origin=self._name(row, "id"),
            idempotency_key=self._name(row, "idempotency_key"),
            action=action,
            candidates=candidates,
            text=self._text(row, "text"),
            state=flat(values, "state", left=left, words=True) if values else {},
            role=self._name(row, "role"),
            episode=self._name(row, "episode") or None,
            step=self._step(row),
            at=at,
            probabilities=probabilities,
            source=_source(self._name(row, "source")),
            signals=tuple(signals),
            ignored=(*left, *[name for name in row if name not in self._used and row[name] is not None]),
        )

    def _text(self, row: _Fields, ours: str) -> str:
        value = row.get(self._column.get(ours))
        if value is None:
            return ""
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            value = str(value)
        field = self._label[ours]
        if not isinstance(value, str):
            raise Wrong(field, f"{field} is {shown(value)}, expected a text.")
        return checked_text(field, value)

    def _name(self, row: _Fields, ours: str) -> str:
        value = row.get(self._column.get(ours))
        if value is None:
            return ""
        if type(value) is str and len(value) <= 200 and value.isascii() and value.isprintable():  # the common case
            return value
        field = self._label[ours]
        return name_of({field: value}, field)

    def _number(self, row: _Fields, ours: str) -> float | None:
        value = row.get(self._column.get(ours))
        if value is None:
            return None
        if type(value) is float and isfinite(value):  # the common case
            return value
        field = self._label[ours]
        return number({field: value}, field, optional=True, words=True)

    def _moment(self, row: _Fields) -> float | None:
        value = row.get(self._column.get("at"))
        if value is None:
            return None
        if type(value) is float and 0.0 <= value < 1e11:  # the common case: seconds
            return value
        field = self._label["at"]
        return moment({field: value}, field, optional=True)

    def _step(self, row: _Fields) -> int | None:
        value = row.get(self._column.get("step"))
        if value is None:
            return None
        field = self._label["step"]
        return integer({field: value}, field, words=True)

    def _chances(self, row: _Fields, action: str) -> tuple[tuple[Candidate, ...], tuple[float, ...] | None]:
        """The candidates and their probabilities, remembered: a log has few different ones."""
        listed, propensity = row.get(self._column.get("candidates")), row.get(self._column.get("propensity"))
        asked = tuple(listed) if type(listed) is list else listed
        try:
            known = self._known.get((asked, action, propensity))
        except TypeError:  # a list in a list: `_candidates` says what is wrong
            known = None
        if known is None:
            candidates = self._candidates(row, action)
            known = candidates, self._probabilities(row, candidates, action)
            if len(self._known) > 4096:
                self._known.clear()
            self._known[asked, action, propensity] = known
        return known

    def _candidates(self, row: _Fields, action: str) -> tuple[Candidate, ...]:
        """The candidates of the row, else those of the caller, else only the chosen action."""
        listed = row.get(self._column.get("candidates"))
        field = self._label.get("candidates", "")
        if isinstance(listed, str):
            listed = _listed(listed, field)
        if listed is not None and not (isinstance(listed, list) and all(isinstance(name, str) for name in listed)):
            raise Wrong(field, f"{field} is {shown(listed)}, expected a list of names.")
        names = tuple(listed) if listed else self._default or (action,)
        candidates = self._sets.get(names)
        if candidates is None:
            if "" in names or len(set(names)) < len(names):
                raise Wrong(field, f"{field} is {shown(list(names))}, expected different names.")
            if len(self._sets) > 4096:
                self._sets.clear()
            candidates = self._sets[names] = tuple(Candidate(name) for name in names)
        if action not in names:
            raise Wrong(
                self._label["action"],
                f"{action!r} is not among the candidates {shown(list(names))}.",
                "List all candidates.",
            )
        return candidates

    def _probabilities(self, row: _Fields, candidates: tuple[Candidate, ...], action: str) -> tuple[float, ...] | None:
        propensity = self._number(row, "propensity")
        if propensity is None:
            return None  # unknown for this row; other rows may have it
        field = self._label["propensity"]
        if not 0.0 < propensity <= 1.0:
            raise Wrong(
                field,
                f"{field} is {propensity!r}, expected above 0 and at most 1.",
                "It is the probability with which this action was chosen.",
            )
        if len(candidates) == 1 and propensity != 1.0:
            raise Wrong(
                field,
                f"{field} is {propensity!r}, but {action!r} is the only known candidate.",
                "Name the candidates: --map candidates=COLUMN, or --candidates small,large.",
            )
        rest = (1.0 - propensity) / (len(candidates) - 1) if len(candidates) > 1 else 0.0
        return tuple(propensity if candidate.name == action else rest for candidate in candidates)


def _listed(text: str, field: str) -> object:
    if not text.lstrip().startswith("["):
        return [name.strip() for name in text.split("|")]
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        raise Wrong(field, f"{field} is {shown(text)}, which is neither a JSON list nor names between |.") from None


def _source(value: str) -> Source:
    if not value:
        return "imported"
    for source in SOURCES:
        if source == value:
            return "imported" if source == "real" else source
    raise Wrong("source", f"source is {value!r}, expected one of {', '.join(SOURCES)}.")


def looks_like_columns(row: _Fields) -> bool:
    return "action" in row


COLUMNS = Format(
    name="columns",
    about="any CSV, JSON lines or Parquet, with --map",
    task="",
    read=read_columns,
    looks=looks_like_columns,
    priority=99,
)
