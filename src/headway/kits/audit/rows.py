"""The rows of log files as choices and outcomes; the first that cannot be used is reported with its line and field."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import Any

from headway.kits.audit.options import AuditOptions
from headway.kits.audit.shape import SHAPES, LogShape, first_of, look
from headway.kits.data import Problem, Wrong, kind_of, parsed_time, rows_of, shown
from headway.kits.otel import exported_rows, is_export
from headway.nouns import errors

# A reward model's estimates: of the logged action, of the audited policy (Σ_a π(a) q(a)), and of the other policy
MODEL = ("model_estimate_logged", "model_estimate_target", "model_estimate_baseline")
_SAMPLE = 50
_LONGEST = 200  # characters of an action
_EMPTY = frozenset({"", "nan", "na", "n/a", "null", "none", "nil", "\\n", "-"})  # words for "no value"
_WORDS = {"true": 1.0, "false": 0.0, "success": 1.0, "failure": 0.0}
LISTED = 5  # skipped lines that are named


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One row in which something was chosen."""

    place: str  # "log.jsonl line 3"
    action: str
    unit: str
    keys: tuple[str, ...]
    propensity: float | None = None
    probabilities: Mapping[str, float] | None = None
    reward: float | None = None
    at: float | None = None
    group: str = ""
    columns: Mapping[str, float] = field(default_factory=dict)  # other policies' probabilities of the action


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceOutcome:
    """One row that says how a choice went."""

    key: str
    name: str
    value: float
    at: float | None


@dataclass(slots=True, kw_only=True)
class LogRows:
    """All rows of the files."""

    choices: list[Choice] = field(default_factory=list)
    outcomes: dict[str, list[ChoiceOutcome]] = field(default_factory=dict)
    names: Counter[str] = field(default_factory=Counter)  # of outcomes
    one_of: Counter[str] = field(default_factory=Counter)  # experiments, functions
    fields: dict[str, None] = field(default_factory=dict)  # of choices, in order
    skipped: list[str] = field(default_factory=list)
    duplicates: int = 0
    filtered: int = 0


def guess(paths: Sequence[Path]) -> LogShape:
    """The shape that most of the first rows have."""
    votes: Counter[str] = Counter()
    for path in paths:
        for item in islice(rows_of(path), _SAMPLE):
            if not isinstance(item, Problem):
                votes.update([next(shape.name for shape in SHAPES if shape.looks(item[1]))])
    specific = [shape for shape in SHAPES[:-1] if votes[shape.name]]
    return max(specific, key=lambda shape: votes[shape.name], default=SHAPES[-1])


def fields_of(paths: Sequence[Path]) -> set[str]:
    """The fields of the first rows."""
    first = (item for path in paths for item in islice(_read(path), _SAMPLE))
    return {name for item in first if not isinstance(item, Problem) for name in _paths(item[1])}


def read_rows(paths: Sequence[Path], shape: LogShape, options: AuditOptions, columns: Sequence[str]) -> LogRows:
    """Read every row. `columns` are fields with another policy's probability of the logged action."""
    rows, seen = LogRows(), set[str]()
    for path in paths:
        word = "row" if kind_of(path) == "parquet" else "line"
        for item in _read(path):
            try:
                if isinstance(item, Problem):
                    raise Wrong(item.field, item.message, item.cure)
                _add(rows, item[1], f"{path.name} {word} {item[0]}", shape, options, columns, seen)
            except Wrong as wrong:
                line = item.line if isinstance(item, Problem) else item[0]
                place = f"{path.name} {word} {line}"
                if not options.skip_invalid:
                    raise _invalid(place, wrong) from None
                rows.skipped.append(f"{place}: {wrong.message}")
    return rows


def _read(path: Path) -> Iterator[tuple[int, Mapping[str, Any]] | Problem]:
    """The rows of a file with their lines; a line of a collector's file holds many spans."""
    for item in rows_of(path):
        if isinstance(item, Problem) or not is_export(item[1]):
            yield item
            continue
        try:
            for row in exported_rows(item[1]):
                if isinstance(row, str):
                    yield Problem(item[0], "span", f"a span cannot be used: {row}.")
                else:
                    yield item[0], row
        except errors.InvalidInput as error:
            yield Problem(item[0], "span", error.message, error.hint or "")


def _invalid(place: str, wrong: Wrong) -> errors.InvalidInput:
    cure = wrong.cure or "Correct the row, or leave such rows out with --on-error skip."
    return errors.InvalidInput(f"{place}: {wrong.message}", code="bad_log_value", hint=f"Nothing was estimated. {cure}")


def _add(
    rows: LogRows,
    row: Mapping[str, Any],
    place: str,
    shape: LogShape,
    options: AuditOptions,
    columns: Sequence[str],
    seen: set[str],
) -> None:
    if shape.outcome is not None and shape.outcome.looks(row):
        _keep(rows, shape, row)
        return
    if any(_text(look(row, path)) != wanted for path, wanted in options.where.items()):
        rows.filtered += 1
        return
    identity = _text(first_of(row, shape.id)[1]) if shape.id else ""
    if identity and identity in seen:
        rows.duplicates += 1
        return
    choice = _choice(row, place, shape, options, columns)
    seen.add(identity)
    rows.choices.append(choice)
    if len(rows.choices) <= _SAMPLE:
        rows.fields.update(dict.fromkeys(_paths(row)))
    rows.one_of.update([_text(first_of(row, shape.one_of)[1])] if shape.one_of else ())
    for score in _listed(first_of(row, shape.scores)[1]):
        _keep(rows, shape, {"trace_id": choice.keys[0] if choice.keys else "", **score})


def _keep(rows: LogRows, shape: LogShape, row: Mapping[str, Any]) -> None:
    """Keep the outcome of a row; one without a value says nothing."""
    assert shape.outcome is not None
    key = _text(first_of(row, shape.outcome.key)[1])
    path, value = first_of(row, shape.outcome.value)
    if not key or value is None:
        return
    name = _text(first_of(row, shape.outcome.name)[1])
    outcome = ChoiceOutcome(key=key, name=name, value=_number(path, value), at=_time(row, shape.outcome.at))
    rows.outcomes.setdefault(key, []).append(outcome)
    rows.names[name] += 1


def _choice(
    row: Mapping[str, Any], place: str, shape: LogShape, options: AuditOptions, columns: Sequence[str]
) -> Choice:
    action = _action(row, shape, options, columns)
    keys = (_text(look(row, path)) for path in shape.keys)
    probabilities = _probabilities(row, shape, action)
    return Choice(
        place=place,
        action=action,
        unit=_text(first_of(row, shape.unit)[1]) if shape.unit else "",
        keys=tuple(dict.fromkeys(key for key in keys if key)),
        propensity=_propensity(row, shape, options, probabilities, action),
        probabilities=probabilities,
        reward=_reward(row, shape, options),
        at=_time(row, shape.at),
        group=_text(first_of(row, shape.group)[1]) if shape.group else "",
        columns={path: _column(path, look(row, path)) for path in columns},
    )


def _action(row: Mapping[str, Any], shape: LogShape, options: AuditOptions, columns: Sequence[str]) -> str:
    paths = shape.action if options.action is None else (options.action,)
    path, value = first_of(row, paths)
    if value is None and options.action is None and columns:  # a table of probabilities need not name the action
        return "-"
    text = _text(value)
    if not 0 < len(text) <= _LONGEST:
        have = ", ".join(list(_paths(row))[:12])
        raise Wrong(
            path or paths[0],
            f"{path or paths[0]} is {shown(value) if value is not None else 'missing'}, expected the chosen action.",
            f"Name the field with the action: --action FIELD. The row has {have}.",
        )
    return text


def _reward(row: Mapping[str, Any], shape: LogShape, options: AuditOptions) -> float | None:
    path, value = first_of(row, shape.reward if options.reward is None else (options.reward,))
    if value is None or (isinstance(value, str) and value.strip().lower() in _EMPTY):
        return None
    return _number(path, value)


def _probabilities(row: Mapping[str, Any], shape: LogShape, action: str) -> dict[str, float] | None:
    path, value = first_of(row, shape.weights)
    if value is not None:
        weights = _listed_numbers(path, value)
        return {str(place): weight for place, weight in enumerate(weights)}
    path, value = first_of(row, shape.probabilities)
    if not isinstance(value, dict):
        return None
    read = {str(arm): _probability(f"{path}.{arm}", number, zero=True) for arm, number in value.items()}
    total = sum(read.values())
    if abs(total - 1.0) > 1e-4:
        raise Wrong(path, f"{path} sums to {total:g}, expected 1.", "Log the probability of every action.")
    if action not in read:
        raise Wrong(path, f"{path} does not name the chosen action {action!r}.", "Log the probability of every action.")
    return read


def _propensity(
    row: Mapping[str, Any],
    shape: LogShape,
    options: AuditOptions,
    probabilities: Mapping[str, float] | None,
    action: str,
) -> float | None:
    if options.split is not None:
        if isinstance(options.split, float):
            return options.split
        if action not in options.split:
            raise Wrong(
                shape.action[0],
                f"the action {action!r} has no declared propensity.",
                f"Add --propensity {action}=P, or leave such rows out with --where.",
            )
        return options.split[action]
    path, value = first_of(row, shape.propensity if options.propensity is None else (options.propensity,))
    if value is not None:
        stated = _probability(path, value)
        if probabilities is not None and abs(stated - probabilities.get(action, stated)) > 1e-4:
            other = probabilities[action]
            raise Wrong(path, f"{path} is {stated:g}, but the probabilities say {other:g} for {action!r}.")
        return stated
    if probabilities is not None and probabilities.get(action, 0.0) > 0.0:
        return probabilities[action]
    return None


def _column(path: str, value: Any) -> float:
    """Another policy's probability of the action, or an estimate of a reward model."""
    return _number(path, value) if path in MODEL else _probability(path, value, zero=True)


def _probability(path: str, value: Any, *, zero: bool = False) -> float:
    number = float("nan") if value is None else _number(path, value)
    if not (0.0 < number <= 1.0 or (zero and number == 0.0)):
        what = "missing" if value is None else shown(value)
        raise Wrong(path, f"{path} is {what}, expected a probability {'from 0' if zero else 'above 0, up'} to 1.")
    return number


def _number(path: str, value: Any) -> float:
    word = _WORDS.get(value.strip().lower(), value) if isinstance(value, str) else value
    try:
        number = float(word)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if not isfinite(number):
        raise Wrong(path, f"{path} is {shown(value)}, expected a finite number.")
    return number


def _time(row: Mapping[str, Any], paths: Sequence[str]) -> float | None:
    path, value = first_of(row, paths)
    if value is None:
        return None
    at = parsed_time(value.replace(" UTC", "Z") if isinstance(value, str) else value)
    if at is None:
        raise Wrong(path, f"{path} is {shown(value)}, expected a time.", "Write 2026-06-01T12:00:00Z, or seconds.")
    return at


def _text(value: Any) -> str:
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # Parquet and Excel write whole numbers so
    if value is None or isinstance(value, (dict, list)) or (isinstance(value, int) and abs(value) >= 1 << 63):
        return ""
    return str(value)


def _listed(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _listed_numbers(path: str, value: Any) -> list[float]:
    if isinstance(value, str):
        value = value.strip("[] ").split(",")
    if not isinstance(value, list) or not value:
        raise Wrong(path, f"{path} is {shown(value)}, expected a list of weights.")
    weights = [_probability(path, item, zero=True) for item in value]
    if abs(sum(weights) - 1.0) > 1e-3:
        raise Wrong(path, f"{path} sums to {sum(weights):g}, expected 1.")
    return [weight / sum(weights) for weight in weights]


def _paths(row: Mapping[str, Any], before: str = "") -> Iterator[str]:
    """The fields of a row, and of the objects in it."""
    for name, value in row.items():
        if isinstance(value, dict) and before.count(".") < 2:
            yield from _paths(value, f"{before}{name}.")
        else:
            yield f"{before}{name}"
