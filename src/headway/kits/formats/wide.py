"""Evaluation sets: one row per prompt, and columns per model such as `gpt4_correct` and `gpt4_cost`.

    prompt, small_correct, small_cost, large_correct, large_cost

Every row gives one decision per model, with its outcome. One of them, drawn evenly and by the content of the row alone,
has the probability 1/k and can be evidence; the others have an unknown probability, so that they can be learned from
and prove nothing. Otherwise one prompt would count k times, and verdicts would be too sure.

The quality (`_correct`, `_score`, `_solved` …) becomes the signal `reward`, `_cost` becomes `cost_usd`, `_latency`
`latency_s`. `--map signal.solved=correct` renames one; `--map text=COLUMN`, `--map state.NAME=COLUMN` as in `columns`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from headway.kits.data import (
    Format,
    ImportedSignal,
    Item,
    Options,
    Problem,
    Record,
    Row,
    Wrong,
    checked_text,
    flat,
    number,
)
from headway.nouns import Candidate, errors

_QUALITY = ("correct", "score", "reward", "solved", "passed", "accuracy", "quality")
_OTHERS = {"cost_usd": "cost_usd", "cost": "cost_usd", "price": "cost_usd", "latency_s": "latency_s",
           "latency": "latency_s", "tokens": "tokens"}  # fmt: skip
_COLUMN = re.compile(rf"(?P<model>.+)[_./-](?P<what>{'|'.join((*_QUALITY, *_OTHERS))})\Z", re.IGNORECASE)
_TEXTS = ("text", "prompt", "question", "query", "input", "instruction")
_MOST_MODELS = 100
_BLOCK = 20_000  # rows that are shuffled together


def looks_wide(row: dict[str, Any]) -> bool:
    """At least two models with a quality, and no column that says which was chosen."""
    return "action" not in row and len(_models(row)) >= 2


def _models(columns: Iterable[str]) -> dict[str, dict[str, str]]:
    """Model → what → column, for models that have a quality."""
    models: dict[str, dict[str, str]] = {}
    for column in columns:
        match = _COLUMN.match(column) if isinstance(column, str) else None
        if match is not None:
            models.setdefault(match["model"], {})[match["what"].lower()] = column
    return {name: known for name, known in models.items() if any(what in _QUALITY for what in known)}


def read_wide(rows: Iterable[Row | Problem], options: Options) -> Iterator[Item]:
    """Decisions of each row. Rows are shuffled by their content: a sorted set must not look like a change."""
    plan: _WidePlan | None = None
    stream = iter(rows)
    while block := list(islice(stream, _BLOCK)):
        records: list[tuple[bytes, list[Record]]] = []
        for item in block:
            if isinstance(item, Problem):
                yield item
                continue
            line, row = item
            try:
                plan = plan or _WidePlan(row, options)
                content = hashlib.sha256(json.dumps(row, sort_keys=True, default=str).encode()).digest()
                records.append((content, list(plan.records(line, row, content))))
            except Wrong as wrong:
                yield Problem(line, wrong.field, wrong.message, wrong.cure)
        for _, made in sorted(records, key=lambda entry: entry[0]):
            yield from made


class _WidePlan:
    """The meaning of every column, from the first row."""

    def __init__(self, columns: Mapping[str, Any], options: Options) -> None:
        models = _models(columns)
        if not 2 <= len(models) <= _MOST_MODELS:
            raise Wrong("", f"{len(models)} models have a quality, expected 2 to {_MOST_MODELS}.")
        self._models = models
        self._candidates = tuple(Candidate(name) for name in models)
        self._signals = _signal_names(models, options.columns)
        mapped = {name: theirs for name, theirs in options.columns.items() if not _is_signal(name)}
        for ours, theirs in mapped.items():
            if theirs not in columns:
                raise errors.InvalidInput(
                    f"--map {ours}={theirs}: there is no column {theirs!r}.",
                    code="bad_mapping",
                    hint=errors.did_you_mean(theirs, list(columns)),
                )
        self._text = mapped.get("text") or next((name for name in _TEXTS if name in columns), "")
        self._state = [(name[6:], theirs) for name, theirs in mapped.items() if name.startswith("state.")]
        used = {self._text, *mapped.values(), *(column for known in models.values() for column in known.values())}
        self._ignored = tuple(name for name in columns if name not in used)

    def records(self, line: int, row: dict[str, Any], content: bytes) -> Iterator[Record]:
        prompt = row.get(self._text) if self._text else None
        text = checked_text(self._text, "" if prompt is None else str(prompt))
        values = {ours: row[theirs] for ours, theirs in self._state if row.get(theirs) is not None}
        state = flat(values, "state", left=[], words=True) if values else {}
        drawn = int.from_bytes(content[8:16], "big") % len(self._models)
        even = tuple(1.0 / len(self._models) for _ in self._models)
        for place, (model, columns) in enumerate(self._models.items()):
            signals = tuple(
                ImportedSignal(name=self._signals[what], value=value)
                for what, column in columns.items()
                if (value := _value(row, column)) is not None
            )
            yield Record(
                line=line,
                origin=f"{content.hex()[:24]}/{model}",
                action=model,
                candidates=self._candidates,
                text=text,
                state=state,
                probabilities=even if place == drawn else None,
                signals=signals,
                ignored=self._ignored if place == 0 else (),
            )


def _value(row: dict[str, Any], column: str) -> float | None:
    value = row.get(column)
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return float(value.strip().lower() == "true")
    return None if value is None else number({column: value}, column, optional=True, words=True)


def _is_signal(name: str) -> bool:
    return name == "reward" or name.startswith("signal.")


def _signal_names(models: Mapping[str, Mapping[str, str]], mapped: Mapping[str, str]) -> dict[str, str]:
    """What a column holds → the name of its signal; the first quality is the reward unless it is mapped."""
    kinds = list(dict.fromkeys(what for known in models.values() for what in known))
    names = {theirs.lower(): ours.removeprefix("signal.") for ours, theirs in mapped.items() if _is_signal(ours)}
    unknown = [what for what in names if what not in kinds]
    if unknown:
        raise errors.InvalidInput(
            f"No column ends in _{unknown[0]}.", code="bad_mapping", hint=errors.did_you_mean(unknown[0], kinds)
        )
    first = next(what for what in kinds if what in _QUALITY)
    for what in kinds:
        usual = "reward" if what == first and "reward" not in names.values() else _OTHERS.get(what, what)
        names.setdefault(what, usual)
    return names


WIDE = Format(
    name="wide",
    about="an evaluation set: a prompt per row, MODEL_correct and MODEL_cost per model",
    task="route",
    read=read_wide,
    looks=looks_wide,
    priority=90,
)
