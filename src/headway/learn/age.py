"""How much a row counts by its age: the world changes, and old rows describe a world that is gone.

    half_life = best_half_life(reward, action, age)         # inf: all rows count alike
    ages = Ages(half_life=half_life, upto=9_000, per_row=1.0, changes=(ChangedAction("large", "", 7_500),))
    ages.weight(row)                                        # 1 for the newest row, 0 for what no longer counts

A row that is one half-life old counts half. The half-life is the one of `HALF_LIVES` (in settled rows) whose running
means predict the next reward best, row by row (prequential, Dawid 1984): each row is predicted from earlier rows alone,
as in use. A shorter one than infinity is taken only if it predicts better by more than two standard errors.

After an alarm, rows of the changed action from before the change do not count at all.

Not covered: contexts that change at different speeds; the means are per action.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf, isinf, sqrt
from typing import Any

import numpy as np

from headway.nouns import Floats, Settled
from headway.observe import PARTS, Block, Flags, SplitBy, TaskFrame, Whole, joined, parts_of

HALF_LIVES = (inf, 4000.0, 1000.0, 250.0)
_MOST = 10_000  # rows that the half-life is chosen on, the newest ones
_LEAST_ROWS = 200
_SURE = 2.0  # standard errors
_STEP = 64.0  # weights are multiples of 1/64: sums of features stay exact (`headway.learn.online`)


@dataclass(frozen=True, slots=True)
class ChangedAction:
    """An action whose outcomes changed: rows decided before `from_decision` do not count."""

    action: str
    role: str  # empty: every role
    from_decision: int

    def covers(self, row: Settled) -> bool:
        decision = row.decision
        return (
            decision.seq < self.from_decision
            and decision.action == self.action
            and (not self.role or decision.situation.role == self.role)
        )

    def covered(self, block: Block, actions: Whole, names: Sequence[str], role: Callable[[int], str]) -> Flags:
        """Which rows of a block; `actions` are indices of `names`, and `role` gives the name of a role's number."""
        chosen = block.seq < self.from_decision
        chosen &= actions == (names.index(self.action) if self.action in names else -1)
        if self.role:
            chosen &= np.isin(
                block.role, [number for number in np.unique(block.role) if role(int(number)) == self.role]
            )
        return chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Ages:
    """The weights of rows by age. `document` is what a bundle's header says about them."""

    half_life: float = inf  # in settled rows of the task
    upto: int = 0  # the newest row of the log
    per_row: float = 1.0  # numbers of the log per settled row of the task
    changes: tuple[ChangedAction, ...] = ()

    @property
    def alike(self) -> bool:
        """Whether all rows count alike."""
        return isinf(self.half_life) and not self.changes

    def weight(self, row: Settled) -> float:
        """The row's own weight, less by its age."""
        if any(change.covers(row) for change in self.changes):
            return 0.0
        return float(self._faded(np.array([row.seq]), np.array([row.weight]))[0])

    def weights(self, block: Block, actions: Whole, names: Sequence[str], role: Callable[[int], str]) -> Floats:
        """The same for the rows of a block; see `ChangedAction.covered`."""
        weights = self._faded(block.settled, block.weight)
        for change in self.changes:
            weights = np.where(change.covered(block, actions, names, role), 0.0, weights)
        return weights

    def _faded(self, settled: Whole, weight: Floats) -> Floats:
        if isinf(self.half_life):
            return weight
        age = np.maximum(0, self.upto - settled) / self.per_row
        return np.rint(weight * 0.5 ** (age / self.half_life) * _STEP) / _STEP

    def document(self) -> dict[str, Any]:
        return {
            "half_life": None if isinf(self.half_life) else self.half_life,
            "upto": self.upto,
            "per_row": self.per_row,
            "changes": [asdict(change) for change in self.changes],
        }

    @classmethod
    def read(cls, document: Mapping[str, Any] | None) -> Ages:
        """From the header of a bundle; one without it read all rows alike."""
        if document is None:
            return cls()
        half_life = document["half_life"]
        changes = tuple(ChangedAction(**change) for change in document["changes"])
        return cls(
            half_life=inf if half_life is None else float(half_life),
            upto=int(document["upto"]),
            per_row=float(document["per_row"]),
            changes=changes,
        )


def ages_of(
    frame: TaskFrame, *, upto: int, by: SplitBy, changes: Iterable[tuple[str, str, int]], most: int = _MOST
) -> Ages:
    """The ages of the rows up to `upto`, by the newest of them that are not kept for a proof.

    `changes`: (action, role, first decision after it) of known changes. One of no named action counts for the actions
    whose rows confirm it, and of several the last one counts.
    """
    newest, learned = list[Block](), list[Flags]()
    for block in frame.blocks():
        recent = (block.settled > max(0, upto - 4 * most)) & (block.settled <= upto)
        if recent.any():
            newest.append(block.where(recent))
            learned.append((parts_of(frame, block, by) != list(PARTS).index("prove"))[recent])
    if not newest:
        return Ages(upto=upto)
    rows = joined(newest)
    order = np.argsort(rows.settled)[-most:]
    rows = rows.where(order)
    per_row = max(1.0, (upto - int(rows.settled[0]) + 1) / len(rows))
    kept = np.concatenate(learned)[order] & ~np.isnan(rows.reward)
    age = np.arange(len(rows) - 1, -1, -1, dtype=np.float64)[kept]
    rows = rows.where(kept)
    actions, names = frame.actions(rows)
    latest: dict[tuple[str, str], int] = {}
    for action, role, number in changes:
        for name in [action] if action else _changed(rows, actions, names, number):
            latest[name, role] = max(latest.get((name, role), 0), number)
    changed = tuple(ChangedAction(action, role, number) for (action, role), number in sorted(latest.items()))
    after = np.ones(len(rows), dtype=np.bool_)
    for change in changed:
        after &= ~change.covered(rows, actions, names, frame.name)
    if not after.any():
        return Ages(upto=upto)
    half_life = best_half_life(rows.reward[after], actions[after], age[after])
    return Ages(half_life=half_life, upto=upto, per_row=per_row, changes=changed)


def _changed(rows: Block, actions: Whole, names: Sequence[str], from_decision: int) -> list[str]:
    """The actions whose rewards are others from this decision on."""
    before = rows.seq < from_decision
    return [
        name
        for code, name in enumerate(names)
        if has_changed(rows.reward[before & (actions == code)], rows.reward[~before & (actions == code)])
    ]


def best_half_life(reward: Floats, action: Whole, age: Floats) -> float:
    """The half-life that predicts these rewards best, oldest first; `age` in settled rows."""
    losses = _losses(reward, action, age)
    if len(losses) < _LEAST_ROWS:
        return inf
    best = int(losses.mean(axis=0).argmin())
    gain = losses[:, 0] - losses[:, best]
    sure = gain.mean() > _SURE * gain.std() / sqrt(len(gain))
    return HALF_LIVES[best] if sure else inf


def _losses(reward: Floats, action: Whole, age: Floats) -> Floats:
    """[row, half-life]: squared errors of the running mean of the row's action, from the rows before it."""
    rate = np.array([0.0 if isinf(half_life) else -np.log(2.0) / half_life for half_life in HALF_LIVES])
    width = len(HALF_LIVES)
    every = np.zeros((2, width))  # weights and weighted rewards of all actions
    own: dict[int, tuple[Floats, float]] = {}  # the same per action, and when it was last updated
    losses: list[Floats] = []
    before: float | None = None
    for value, name, old in zip(reward.tolist(), action.tolist(), age.tolist(), strict=True):
        now = -old
        every *= np.exp(rate * (now - (now if before is None else before)))
        sums, last = own.get(name, (np.zeros((2, width)), now))
        sums = sums * np.exp(rate * (now - last))
        if before is not None:
            pooled = every[1] / every[0]
            losses.append((value - (sums[1] + pooled) / (sums[0] + 1.0)) ** 2)
        added = np.array([[1.0], [value]])
        every += added
        own[name], before = (sums + added, now), now
    return np.array(losses).reshape(-1, width)


def has_changed(before: Sequence[float] | Floats, after: Sequence[float] | Floats) -> bool:
    """Whether the mean of an action's rewards is another than before: by more than 2.5 standard errors."""
    if len(before) < 2 or len(after) < 2:
        return False
    one, other = np.asarray(before), np.asarray(after)
    spread = sqrt(float(one.var()) / one.size + float(other.var()) / other.size)
    return abs(float(one.mean() - other.mean())) > 2.5 * max(spread, 1e-12)
