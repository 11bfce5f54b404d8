"""A log as arrays to store, and back, so that others can recompute an evidence from its rows.

    tensors, words = packed(chunks)      # numbers, and the names that some of them refer to
    chunks = unpacked(tensors, words)    # the same rows in the same chunks: the same sums, digit for digit

Groups (users, episodes, situations) are stored as numbers that many of them share: what they are cannot be read back.

Not covered: where the rows came from. The arrays hold what was logged; they do not prove that it happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.nouns import errors
from headway.prove import PLACES, Log, RowOrigin

_PLAIN = ("reward", "action", "logged", "target", "baseline", "features", "status")
_ORDER = "settled_seq"  # the tensor with the order of the rows
_MAYBE = ("replayed", "decided_at", "settled_at")
_LABELS = ("keys", "sources")
_FLAGS = ("chosen_only", "beyond", "claimed")
Tensors = Mapping[str, NDArray[Any]]


def packed(chunks: Iterable[Log]) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The rows of all chunks as one array per column; labels as numbers, with their names among the words."""
    logs = [chunk for chunk in chunks if len(chunk)]
    words: dict[str, Any] = {"rows": [len(log) for log in logs], "arms": [], "labels": {}, "guards": []}
    tensors: dict[str, NDArray[Any]] = {}
    if not logs:
        return tensors, words
    first = logs[0]
    words["arms"], words["guards"] = list(first.arms), list(first.guards)
    tensors |= _numbers(logs)
    for name, column in _labels(logs).items():
        names, codes = np.unique(column, return_inverse=True)
        words["labels"][name] = names.tolist()
        tensors[name] = codes.astype(np.int32)
    columns, listed = _packed_raters(logs)
    tensors, words = tensors | columns, words | listed
    if first.origin is not None:
        columns, words["origin"] = _packed_origin([log.origin or RowOrigin() for log in logs])
        tensors |= columns
    return {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}, words


def _numbers(logs: Sequence[Log]) -> dict[str, NDArray[Any]]:
    known = [name for name in _MAYBE if getattr(logs[0], name) is not None]
    ours = {**{name: name for name in (*_PLAIN, "worst", *known)}, _ORDER: "order"}
    columns = {name: np.concatenate([getattr(log, our) for log in logs]) for name, our in ours.items()}
    guards = {f"guard.{name}": np.concatenate([log.guards[name] for log in logs]) for name in logs[0].guards}
    return columns | guards


def _labels(logs: Sequence[Log]) -> dict[str, NDArray[Any]]:
    """The columns of texts: segments, keys and sources."""
    columns = {f"segment.{name}": [log.segments[name] for log in logs] for name in logs[0].segments}
    columns |= {name: [getattr(log, name) for log in logs] for name in _LABELS if getattr(logs[0], name) is not None}
    return {name: np.concatenate(parts) for name, parts in columns.items()}


def _packed_raters(logs: Sequence[Log]) -> tuple[dict[str, NDArray[Any]], dict[str, list[str]]]:
    """Which rows each rater rated, and the reward without each; numbered, and the names in that order."""
    raters = sorted({name for log in logs for name in log.raters})
    without = sorted({name for log in logs for name in log.without})
    tensors: dict[str, NDArray[Any]] = {}
    for place, name in enumerate(raters):
        rated = [log.raters.get(name, np.zeros(len(log), dtype=np.bool_)) for log in logs]
        tensors[f"rater.{place}"] = np.concatenate(rated)
    for place, name in enumerate(without):
        tensors[f"without.{place}"] = np.concatenate([log.without.get(name, log.reward) for log in logs])
    return tensors, {"raters": raters, "without": without}


def _packed_origin(origins: Sequence[RowOrigin]) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """How the rows came about; a chunk has only the groups that its decisions have, so each names its chunks."""
    tensors: dict[str, NDArray[Any]] = {}
    groups: dict[str, list[int]] = {}
    for number, origin in enumerate(origins):
        for name in origin.groups:
            groups.setdefault(name, []).append(number)
    for place, (name, numbers) in enumerate(groups.items()):
        codes = np.concatenate([origins[number].groups[name] for number in numbers])
        tensors[f"group.{place}"] = (codes % PLACES).astype(np.int32)  # all that the check of repetition reads
    for name in _FLAGS:
        flags = [getattr(origin, name) for origin in origins]
        if all(flag is not None for flag in flags):
            tensors[f"origin.{name}"] = np.concatenate(flags)
    return tensors, {"groups": groups, "columns": list(origins[0].columns), "cuts": dict(origins[0].stored_cuts)}


def unpacked(tensors: Tensors, words: Mapping[str, Any]) -> Iterator[Log]:
    """The packed chunks; inconsistent arrays are an InvalidInput."""
    try:
        lengths = [int(word) for word in words["rows"]]
        if not lengths:
            return
        whole = _whole(tensors, words)
        origins = _origins(tensors, words["origin"], lengths) if "origin" in words else [None] * len(lengths)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise errors.InvalidInput(
            f"The stored rows are inconsistent: {error}.", code="bad_pack", hint="Make the pack again."
        ) from error
    if sum(lengths) != len(whole) or min(lengths) < 1:
        raise errors.InvalidInput(
            f"The chunks add up to {sum(lengths)} rows, but there are {len(whole)}.",
            code="bad_pack",
            hint="Make the pack again.",
        )
    start = 0
    for length, origin in zip(lengths, origins, strict=True):
        yield replace(whole.rows(start, start + length), origin=origin)
        start += length


def _whole(tensors: Tensors, words: Mapping[str, Any]) -> Log:
    """The rows of all chunks, without how they came about."""
    columns: dict[str, Any] = {name: tensors[name] for name in _PLAIN}
    columns["order"] = tensors[_ORDER]
    columns |= {name: tensors[name] for name in ("worst", *_MAYBE) if name in tensors}
    labels = {name: np.asarray(names, dtype=np.str_)[tensors[name]] for name, names in dict(words["labels"]).items()}
    columns |= {name: labels[name] for name in _LABELS if name in labels}
    return Log.of(
        **columns,
        arms=tuple(str(word) for word in words["arms"]),
        segments={name.removeprefix("segment."): labels[name] for name in labels if name.startswith("segment.")},
        guards={name: tensors[f"guard.{name}"] for name in words["guards"]},
        raters={name: tensors[f"rater.{place}"] for place, name in enumerate(words.get("raters", ()))},
        without={name: tensors[f"without.{place}"] for place, name in enumerate(words.get("without", ()))},
    )


def _origins(tensors: Tensors, words: Mapping[str, Any], lengths: Sequence[int]) -> list[RowOrigin | None]:
    """How the rows of every chunk came about."""
    groups: list[dict[str, NDArray[np.int64]]] = [{} for _ in lengths]
    for place, (name, numbers) in enumerate(words["groups"].items()):
        codes = tensors[f"group.{place}"].astype(np.int64)
        for number, part in zip(numbers, _cut(codes, [lengths[number] for number in numbers]), strict=True):
            groups[number][name] = part
    flags: dict[str, list[NDArray[Any]]] = {
        name: _cut(tensors[f"origin.{name}"], lengths) for name in _FLAGS if f"origin.{name}" in tensors
    }
    return [
        RowOrigin(
            groups=groups[number],
            columns=tuple(words["columns"]),
            stored_cuts={name: tuple(map(float, cuts)) for name, cuts in words.get("cuts", {}).items()},
            **{name: parts[number] for name, parts in flags.items()},
        )
        for number in range(len(lengths))
    ]


def _cut(column: NDArray[Any], lengths: Sequence[int]) -> list[NDArray[Any]]:
    if column.ndim != 1 or column.size != sum(lengths):
        raise ValueError(f"a column of {column.size} rows, expected {sum(lengths)}")
    return np.split(column, np.cumsum(lengths)[:-1])
