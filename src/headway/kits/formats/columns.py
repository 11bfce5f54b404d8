"""Any table (CSV, JSON lines or Parquet), with a mapping of its columns.

    --map text=question --map action=model --map reward=score --map propensity=p --map state.length=tokens

Our names: text, action, reward, propensity, candidates (a JSON list, or separated by |), id, at, episode, step, role,
source, failed, idempotency_key, `state.NAME` and `signal.NAME`. Columns with these names need no mapping; other columns
are ignored and reported. The probability of the action must be mapped or declared unknown (`--map propensity=unknown`),
so that a missing probability is never assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, groupby, islice
from math import inf, isfinite
from typing import Any, cast

import msgspec

from headway.kits.data import (
    MOST_NAME,
    MOST_TEXT,
    Format,
    ImportedSignal,
    Options,
    Problem,
    Records,
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
_NAMES = ("id", "idempotency_key", "role", "episode", "source")
_ABSENT: Mapping[str, Any] = {
    "ending": None, "schema": "", "id": "", "task": "", "policy": "", "unit": "", "position": 0, "details": (),
    "propensity": None, "place": None, "rest": None,
}  # fmt: skip
_TOGETHER = 2000  # rows that are read at once; the first show which columns there are
_MOST_ACTION = 2000  # characters
_EXACT = 2**53  # below, every whole number is a float
_TEXTS, _NUMBERS = {str, type(None)}, {float, type(None)}


def read_columns(rows: Iterable[Row | Problem], options: Options) -> Iterator[Records | Problem]:
    stream = iter(rows)
    plan: _Plan | None = None
    while items := list(islice(stream, _TOGETHER)):
        good = [item for item in items if not isinstance(item, Problem)]
        if plan is None and good:
            plan = _Plan(_mapping(list(dict.fromkeys(chain.from_iterable(row for _, row in good))), options), options)
        for unreadable, some in groupby(items, lambda item: isinstance(item, Problem)):
            if unreadable:
                yield from cast("Iterator[Problem]", some)
            elif plan is not None:
                yield from plan.read(cast("list[Row]", list(some)))


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

    def __init__(self, mapping: Mapping[str, str], options: Options) -> None:
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
        self._default = options.candidates
        self._sets: dict[tuple[str, ...], tuple[Candidate, ...]] = {}
        self._known: dict[object, tuple[tuple[Candidate, ...], tuple[float, ...] | None]] = {}

    def read(self, rows: Sequence[Row]) -> Iterator[Records | Problem]:
        """These rows as columns; where one is wrong, its half of them is read again."""
        try:
            yield self._records([line for line, _ in rows], [row for _, row in rows])
        except Wrong as wrong:
            if len(rows) == 1:
                yield Problem(rows[0][0], wrong.field, wrong.message, wrong.cure)
                return
            yield from self.read(rows[: len(rows) // 2])
            yield from self.read(rows[len(rows) // 2 :])

    def _records(self, lines: list[int], rows: Sequence[_Fields]) -> Records:
        action = self._texts(rows, "action", self._text, MOST_TEXT)
        for name in action if not all(action) or max(map(len, action)) > _MOST_ACTION else ():
            if not 0 < len(name) <= _MOST_ACTION:
                field = self._label["action"]
                raise Wrong(field, f"{field} is {shown(name)}, expected 1 to 2,000 characters.")
        chances = self._chances(rows, action)
        states = [{ours: row[theirs] for ours, theirs in self._state if row.get(theirs) is not None} for row in rows]
        left: list[list[str]] = [[] for _ in rows]
        at = self._numbers(rows, "at", self._moment, 1e11)
        signals: list[tuple[ImportedSignal, ...]] = [()] * len(rows)
        for name, ours in self._signals:
            for place, value in enumerate(self._numbers(rows, ours, partial(self._number, ours=ours))):
                if value is not None:
                    signals[place] += (ImportedSignal(name=name, value=value, at=at[place]),)
        return Records(
            line=lines,
            origin=self._texts(rows, "id", self._name, MOST_NAME),
            idempotency_key=self._texts(rows, "idempotency_key", self._name, MOST_NAME),
            action=action,
            candidates=[candidates for candidates, _ in chances],
            text=self._texts(rows, "text", self._text, MOST_TEXT),
            state=[
                flat(values, "state", left=more, words=True) if values else {}
                for values, more in zip(states, left, strict=True)
            ],
            role=self._texts(rows, "role", self._name, MOST_NAME),
            episode=[name or None for name in self._texts(rows, "episode", self._name, MOST_NAME)],
            step=[self._step(row) for row in rows],
            at=at,
            probabilities=[probabilities for _, probabilities in chances],
            source=list(map(_source, self._texts(rows, "source", self._name, MOST_NAME))),
            signals=signals,
            ignored=[
                (*more, *[name for name in row if name not in self._used and row[name] is not None])
                for row, more in zip(rows, left, strict=True)
            ],
            **{name: [none] * len(rows) for name, none in _ABSENT.items()},
        )

    def _texts(self, rows: Sequence[_Fields], ours: str, one: Callable[[_Fields, str], str], most: int) -> list[str]:
        """A column of texts: checked as a whole, or by `one` each if there is anything but short and plain texts."""
        theirs = self._column.get(ours)
        if theirs is None:
            return [""] * len(rows)
        column = [row.get(theirs) for row in rows]
        if set(map(type, column)) <= _TEXTS:
            texts = [text or "" for text in column]
            whole = "".join(texts)
            with suppress(UnicodeEncodeError):  # half of a surrogate pair
                whole.encode()
                if "\0" not in whole and max(map(len, texts)) <= most:
                    return texts
        return [one(row, ours) for row in rows]

    def _numbers(
        self, rows: Sequence[_Fields], ours: str, one: Callable[[_Fields], float | None], below: float = inf
    ) -> list[float | None]:
        """A column of numbers: checked as a whole, or by `one` each if there is anything but finite numbers."""
        theirs = self._column.get(ours)
        if theirs is None:
            return [None] * len(rows)
        column: list[Any] = [row.get(theirs) for row in rows]
        kinds = set(map(type, column))
        if kinds == {int} and -_EXACT < min(column) <= max(column) < _EXACT:
            column, kinds = list(map(float, column)), {float}
        if kinds <= _NUMBERS:
            given = [value for value in column if value is not None]
            if not given or (isfinite(sum(given)) and (below == inf or 0.0 <= min(given) <= max(given) < below)):
                return column
        return [one(row) for row in rows]

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

    def _chances(
        self, rows: Sequence[_Fields], actions: Sequence[str]
    ) -> list[tuple[tuple[Candidate, ...], tuple[float, ...] | None]]:
        """The candidates and their probabilities, remembered: a log has few different ones."""
        listed, propensity = self._column.get("candidates"), self._column.get("propensity")
        known, chances = self._known, []
        for row, action in zip(rows, actions, strict=True):
            asked = row.get(listed)
            key = (tuple(asked) if type(asked) is list else asked, action, row.get(propensity))
            try:
                found = known.get(key)
            except TypeError:  # a list in a list: `_candidates` says what is wrong
                found = None
            if found is None:
                candidates = self._candidates(row, action)
                found = candidates, self._probabilities(row, candidates, action)
                if len(known) > 4096:
                    known.clear()
                known[key] = found
            chances.append(found)
        return chances

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
