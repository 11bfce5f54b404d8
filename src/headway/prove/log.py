"""A chunk of logged decisions as arrays: the input of every estimator and of the gate's score.

A log is an iterable of `Log` chunks in the order in which the decisions were made (`order`), so that data larger than
memory streams through. Columns of the [n, arm] matrices are arms by name; an arm that was not a candidate of a
row has probability 0 in `logged`, `target` and `baseline` there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from headway.nouns import errors

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# DELETED: a row stands in for one that was deleted; only its action is true
REWARDED, FAILED, CENSORED, PENDING, DELETED = 0, 1, 2, 3, 4
STATUS: tuple[str, ...] = ("rewarded", "failed", "censored", "pending", "deleted")
SUM_TOLERANCE = 1e-4  # probabilities are stored as float32
_SHOWN = "Row {row} (counted from 0)"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOrigin:
    """How the rows of a log came about: what the checks need beside the numbers of the test."""

    groups: Mapping[str, Integers] = field(default_factory=dict)  # "user" → [n]; equal numbers are the same user
    chosen_only: NDArray[np.bool_] | None = None  # [n]; only the probability of the chosen action is known
    beyond: Floats | None = None  # [n]; how far the reward lay above (below: negative) the range that it was cut to
    # of the whole task, by action: its rewards, how many were cut from below and above, and how far they lay there
    stored_cuts: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    claimed: NDArray[np.bool_] | None = None  # [n]; something else drew the action, and sent the probabilities
    columns: tuple[str, ...] = ()  # the features' names

    @classmethod
    def of(cls, groups: Mapping[str, Sequence[str]], *, beyond: Sequence[float], **columns: Any) -> RowOrigin:
        """From labels: rows with the same one are in the same group."""
        codes = {name: np.array([crc32(one.encode()) for one in labels], np.int64) for name, labels in groups.items()}
        return cls(groups=codes, beyond=np.array(beyond, dtype=np.float64), **columns)

    def rows(self, cut: slice | NDArray[np.bool_]) -> RowOrigin:
        return RowOrigin(
            groups={name: codes[cut] for name, codes in self.groups.items()},
            chosen_only=None if self.chosen_only is None else self.chosen_only[cut],
            beyond=None if self.beyond is None else self.beyond[cut],
            stored_cuts=self.stored_cuts,
            claimed=None if self.claimed is None else self.claimed[cut],
            columns=self.columns,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """Rows of a log. Build it with `Log.of`, which fills in defaults and refuses impossible values.

    Log.of(reward=r, action=a, logged=mu, target=pi)                        # against the logged policy
    Log.of(reward=r, action=a, logged=mu, target=pi, baseline=b, features=x, status=s, order=position,
           segments={"role": roles}, keys=keys, guards={"cost_usd": cost})
    """

    reward: Floats  # [n]; NaN if there is none
    action: Integers  # [n]; the chosen column
    logged: Floats  # [n, arm]; the probabilities that the action was drawn from
    target: Floats  # [n, arm]; the candidate's
    baseline: Floats  # [n, arm]; the current policy's
    features: Floats  # [n, d]; d may be 0
    status: Integers  # [n]; REWARDED, FAILED, CENSORED, PENDING or DELETED
    order: Integers  # [n]; position by the time of the decision: never decreases
    arms: tuple[str, ...]
    worst: NDArray[np.bool_]  # [n]; without a reward, the row counts at its worst value instead of being left out
    segments: Mapping[str, NDArray[np.str_]] = field(default_factory=dict)  # "role" → [n] labels
    keys: NDArray[np.str_] | None = None  # [n]; API key that asked for the decision
    guards: Mapping[str, Floats] = field(default_factory=dict)  # "cost_usd" → [n]; NaN where unknown
    sources: NDArray[np.str_] | None = None  # [n]; real, synthetic, …
    replayed: Floats | None = None  # [n, arm]; what the recorded policy gives when asked again
    decided_at: Floats | None = None  # [n] seconds
    settled_at: Floats | None = None  # [n] seconds
    raters: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)  # "judge" → [n]; whether it rated the row
    without: Mapping[str, Floats] = field(
        default_factory=dict
    )  # "judge" → [n] reward without it; NaN: nobody else rated
    origin: RowOrigin | None = None  # how the rows came about, for the checks

    def __len__(self) -> int:
        return int(self.reward.shape[0])

    @property
    def width(self) -> int:
        return int(self.features.shape[1])

    @property
    def propensity(self) -> Floats:
        """[n]; the probability of the chosen action."""
        return np.take_along_axis(self.logged, self.action[:, None], axis=1)[:, 0]

    def rows(self, start: int, stop: int) -> Log:
        """A slice; views, no copies."""
        cut = slice(start, stop)
        columns: dict[str, Any] = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "arms"}
        for name, column in columns.items():
            if isinstance(column, Mapping):
                columns[name] = {label: values[cut] for label, values in column.items()}
            elif column is not None:
                columns[name] = column.rows(cut) if isinstance(column, RowOrigin) else column[cut]
        return replace(self, **columns)

    @classmethod
    def of(
        cls,
        *,
        reward: object,
        action: object,
        logged: object,
        target: object,
        baseline: object | None = None,
        features: object | None = None,
        status: object | None = None,
        order: object | None = None,
        worst: object | None = None,
        arms: tuple[str, ...] | None = None,
        segments: Mapping[str, object] | None = None,
        keys: object | None = None,
        guards: Mapping[str, object] | None = None,
        sources: object | None = None,
        replayed: object | None = None,
        decided_at: object | None = None,
        settled_at: object | None = None,
        raters: Mapping[str, object] | None = None,
        without: Mapping[str, object] | None = None,
        origin: RowOrigin | None = None,
        first_row: int = 0,
    ) -> Log:
        """A checked chunk. `first_row` is the number of the first row in messages."""
        rewards = _vector("reward", reward)
        n = rewards.shape[0]
        mu = _matrix("logged", logged, n, None)
        k = mu.shape[1]
        position = np.arange(first_row + 1, first_row + n + 1) if order is None else order
        chunk = cls(
            reward=rewards,
            action=_integers("action", action, n),
            logged=mu,
            target=_matrix("target", target, n, k),
            baseline=mu if baseline is None else _matrix("baseline", baseline, n, k),
            features=np.zeros((n, 0)) if features is None else _features(features, n),
            status=np.zeros(n, dtype=np.int64) if status is None else _integers("status", status, n),
            order=_integers("order", position, n),
            arms=_names(arms, k),
            worst=np.zeros(n, dtype=np.bool_) if worst is None else _integers("worst", worst, n) > 0,
            segments={name: _labels(name, values, n) for name, values in (segments or {}).items()},
            keys=None if keys is None else _labels("keys", keys, n),
            guards={name: _vector(name, values, n) for name, values in (guards or {}).items()},
            sources=None if sources is None else _labels("sources", sources, n),
            replayed=None if replayed is None else _matrix("replayed", replayed, n, k),
            decided_at=None if decided_at is None else _vector("decided_at", decided_at, n),
            settled_at=None if settled_at is None else _vector("settled_at", settled_at, n),
            raters={name: _vector(name, values, n) > 0.0 for name, values in (raters or {}).items()},
            without={name: _vector(name, values, n) for name, values in (without or {}).items()},
            origin=origin,
        )
        return _checked(chunk, first_row)


def _checked(log: Log, first_row: int) -> Log:
    n, k = log.logged.shape
    if n == 0:
        return log
    bad = _first((log.action < 0) | (log.action >= k))
    if bad is not None:
        raise _impossible(first_row + bad, f"action {int(log.action[bad])} is not a column of {k} arms")
    if (log.status.min() < REWARDED) or (log.status.max() > DELETED):
        bad = _first((log.status < REWARDED) | (log.status > DELETED)) or 0
        raise _impossible(first_row + bad, f"status {int(log.status[bad])} is not one of 0 to 4 ({', '.join(STATUS)})")
    bad = _first(np.isinf(log.reward))
    if bad is not None:
        raise _impossible(first_row + bad, f"reward {log.reward[bad]!r} is not finite (NaN means no reward)")
    propensity = log.propensity
    bad = _first(~((propensity > 0.0) & (propensity <= 1.0 + SUM_TOLERANCE)))
    if bad is not None:
        raise _impossible(first_row + bad, f"the propensity of the chosen action is {propensity[bad]!r}, not in (0, 1]")
    for name, policy in (("logged", log.logged), ("target", log.target), ("baseline", log.baseline)):
        if not (policy.min() >= 0.0 and policy.max() <= 1.0 + SUM_TOLERANCE):  # NaN fails as well
            bad = _first(~((policy >= 0.0) & (policy <= 1.0 + SUM_TOLERANCE)).all(axis=1)) or 0
            raise _impossible(
                first_row + bad, f"{name} holds {policy[bad].tolist()!r}, which is not a list of probabilities"
            )
        total = policy.sum(axis=1)
        bad = _first(np.abs(total - 1.0) > SUM_TOLERANCE)
        if bad is not None:
            raise _impossible(first_row + bad, f"the probabilities of {name} sum to {total[bad]:.6g}, not to 1")
    bad = _first(np.diff(log.order) < 0)
    if bad is not None:
        raise _impossible(
            first_row + bad + 1,
            f"order {int(log.order[bad + 1])} comes after {int(log.order[bad])}; "
            "rows must be in the order in which the decisions were made",
        )
    return log


def _impossible(row: int, what: str) -> errors.InvalidInput:
    return errors.InvalidInput(
        f"{_SHOWN.format(row=row)}: {what}.",
        code="bad_log",
        hint="Nothing was estimated. Correct or omit the row.",
    )


def _first(mask: NDArray[np.bool_] | np.bool_) -> int | None:
    return int(mask.argmax()) if mask.any() else None


def _names(arms: tuple[str, ...] | None, k: int) -> tuple[str, ...]:
    names = tuple(f"arm {column}" for column in range(k)) if arms is None else tuple(arms)
    if len(names) != k:
        raise errors.InvalidInput(
            f"'logged' has {k} columns and {len(names)} arms are named.",
            code="bad_log",
            hint="Name one arm per column.",
        )
    return names


def _features(values: object, n: int) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2 or array.shape[0] != n or not np.isfinite(array).all():
        raise errors.InvalidInput(
            f"'features' must be [{n}, d] finite numbers; it has the shape {array.shape}.",
            code="bad_log",
            hint="Replace missing feature values before they are logged.",
        )
    return array


def _vector(name: str, values: object, n: int | None = None) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or (n is not None and array.shape[0] != n):
        raise _shape(name, array.shape, f"[{'n' if n is None else n}]")
    return array


def _integers(name: str, values: object, n: int) -> Integers:
    array = np.asarray(values)
    if array.ndim != 1 or array.shape[0] != n or array.dtype.kind not in "iub":
        raise _shape(name, array.shape, f"[{n}] whole numbers")
    return array.astype(np.int64, copy=False)


def _matrix(name: str, values: object, n: int, k: int | None) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2 or array.shape[0] != n or (k is not None and array.shape[1] != k) or array.shape[1] == 0:
        raise _shape(name, array.shape, f"[{n}, {'arm' if k is None else k}]")
    return array


def _labels(name: str, values: object, n: int) -> NDArray[np.str_]:
    array = np.asarray(values)
    if array.ndim != 1 or array.shape[0] != n:
        raise _shape(name, array.shape, f"[{n}] labels")
    return array if array.dtype.kind == "U" else array.astype(np.str_)


def _shape(name: str, shape: tuple[int, ...], expected: str) -> errors.InvalidInput:
    return errors.InvalidInput(
        f"{name!r} has the shape {shape}, expected {expected}.",
        code="bad_log",
        hint="Every column of a chunk has one entry per logged decision.",
    )
