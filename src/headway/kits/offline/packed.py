"""A log as arrays to store, and back, so that others can recompute an evidence from its rows.

    tensors, words = packed(chunks)      # numbers, and the names that some of them refer to
    chunks = unpacked(tensors, words)    # the same rows in the same chunks: the same sums, digit for digit

Not covered: where the rows came from. The arrays hold what was logged; they do not prove that it happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.nouns.errors import InvalidInput
from headway.prove.log import Log

__all__ = ["packed", "unpacked"]

_PLAIN = ("reward", "action", "logged", "target", "baseline", "features", "status")
_ORDER = "settled_seq"  # the tensor with the order of the rows
_MAYBE = ("replayed", "decided_at", "settled_at")
_LABELS = ("keys", "sources")
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
    for name in _PLAIN:
        tensors[name] = np.concatenate([getattr(log, name) for log in logs])
    tensors[_ORDER] = np.concatenate([log.order for log in logs])
    tensors["worst"] = np.concatenate([log.worst for log in logs])
    for name in _MAYBE:
        if getattr(first, name) is not None:
            tensors[name] = np.concatenate([getattr(log, name) for log in logs])
    for name in first.guards:
        tensors[f"guard.{name}"] = np.concatenate([log.guards[name] for log in logs])
    labelled = {f"segment.{name}": [log.segments[name] for log in logs] for name in first.segments}
    labelled |= {name: [getattr(log, name) for log in logs] for name in _LABELS if getattr(first, name) is not None}
    for name, parts in labelled.items():
        names, codes = np.unique(np.concatenate(parts), return_inverse=True)
        words["labels"][name] = names.tolist()
        tensors[name] = codes.astype(np.int32)
    words["raters"] = sorted({name for log in logs for name in log.raters})
    words["without"] = sorted({name for log in logs for name in log.without})
    for place, name in enumerate(words["raters"]):
        rated = [log.raters.get(name, np.zeros(len(log), dtype=np.bool_)) for log in logs]
        tensors[f"rater.{place}"] = np.concatenate(rated)
    for place, name in enumerate(words["without"]):
        tensors[f"without.{place}"] = np.concatenate([log.without.get(name, log.reward) for log in logs])
    return {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}, words


def unpacked(tensors: Tensors, words: Mapping[str, Any]) -> Iterator[Log]:
    """The packed chunks; inconsistent arrays are an InvalidInput."""
    try:
        lengths, arms = [int(word) for word in words["rows"]], tuple(str(word) for word in words["arms"])
        if not lengths:
            return
        columns: dict[str, Any] = {name: tensors[name] for name in _PLAIN}
        columns["order"] = tensors[_ORDER]
        columns |= {name: tensors[name] for name in ("worst", *_MAYBE) if name in tensors}
        labels = {
            name: np.asarray(names, dtype=np.str_)[tensors[name]] for name, names in dict(words["labels"]).items()
        }
        columns |= {name: labels[name] for name in _LABELS if name in labels}
        segments = {
            name.removeprefix("segment."): column for name, column in labels.items() if name.startswith("segment.")
        }
        whole = Log.of(
            **columns,
            arms=arms,
            segments=segments,
            guards={name: tensors[f"guard.{name}"] for name in words["guards"]},
            raters={name: tensors[f"rater.{place}"] for place, name in enumerate(words.get("raters", ()))},
            without={name: tensors[f"without.{place}"] for place, name in enumerate(words.get("without", ()))},
        )
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise InvalidInput(
            f"The stored rows are inconsistent: {error}.", code="bad_pack", hint="Make the pack again."
        ) from error
    if sum(lengths) != len(whole) or min(lengths) < 1:
        raise InvalidInput(
            f"The chunks add up to {sum(lengths)} rows, but there are {len(whole)}.",
            code="bad_pack",
            hint="Make the pack again.",
        )
    start = 0
    for length in lengths:
        yield whole.rows(start, start + length)
        start += length
