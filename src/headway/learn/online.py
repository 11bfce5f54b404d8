"""A bandit that learns row by row: a mutable state that publishes immutable policies.

    state = start(features, encoder, knobs)          # has no rows yet
    state = state_from(policy)                       # continues from a bundle
    update(state, row)                               # one settled decision, by its weight; sign=-1 removes it
    state.policy                                     # a live view, changed by the next update: for one thread
    snapshot(state)                                  # Learned-like tensors of an immutable policy

The state is sums: Σxxᵀ, Σxr and (n, Σr, Σr²) per arm, each row by its weight (1, or less if raters disagree).
Features are multiples of 2**-14 and weights of 2**-6, so Σxxᵀ is exact in float64 (up to about two million rows of unit
length, 2**-6 of that with weights) and a removed row leaves no trace. `snapshot` computes from the
sums alone, so it does not depend on the order of the rows.

Recursive least squares updates the live view: with P the inverse and v = Px, each row changes the weights by
v·(r − θx)/(1 + xv) and subtracts vvᵀ/(1 + xv) from P. These subtractions are kept as a list, and P itself is
updated after at most 16 of them (sooner while an arm has few rows), so that a row costs O(width²) reads and O(width)
writes; until then the view's deviations are slightly too wide, its means are not. P is recomputed from the sums
after 1, 2, 4, … rows (up to 1,024 where the prior is a mean alone), after every 1,024 rows of an arm and after every
removal. Arms with shared prior weights must start from the *same* weights to be comparable: when these change (after a
sixteenth more rows), every arm is shifted by PΛ times the change, which equals a recomputation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headway.decide import Arms, Bandit, Clusters, Explorer, Linear, bandit, damaged
from headway.encode import Features
from headway.learn.posterior import (
    clusters_posterior,
    common_penalty,
    held_back,
    linear_posterior,
    pooled_variance,
    prior_weights,
)
from headway.nouns import Encoder, Floats, Policy, Settled, Situation, errors

_REFRESH = 1024
_FOLD = 16
_EARLY = 1024
_MOVE = 16
_PRIOR_ROWS = 2.0


class State:
    """The state of a live bandit. Not thread-safe: one owner updates it and publishes snapshots."""

    def __init__(
        self, features: Features, encoder: Encoder | None, knobs: Mapping[str, Any], arms: Sequence[str]
    ) -> None:
        self.features, self.encoder, self.knobs = features, encoder, dict(knobs)
        self.arms: list[str] = list(arms)
        self.index = {name: place for place, name in enumerate(self.arms)}
        self.ridge = float(knobs.get("ridge", 1.0))
        self.prior = str(knobs.get("prior", "mean"))
        self.shrink = float(knobs.get("shrink", 5.0))
        self.linear = knobs.get("model", "linear") == "linear"
        self.seen = np.zeros(1)
        self.centroids: Floats = np.zeros((0, features.width))
        self._last: tuple[Situation, Floats] | None = None  # its vector, as a batch of one
        self._waiting: list[tuple[int, Floats, float, float]] = []  # arm, features, reward, weight: not yet in the sums
        self._rows: list[float] = [0.0] * len(self.arms)  # weight per arm, including waiting rows; exact
        self._steps: list[int] = [0] * len(self.arms)  # rows since the arm's inverse was recomputed
        self.policy: Bandit
        self._allot(len(self.arms))

    def _allot(self, count: int) -> None:
        """Allocate arrays for this many arms; existing numbers are kept."""
        width = self.features.width
        if self.linear:
            old = getattr(self, "moments", np.zeros((0, width, width)))
            targets, totals = getattr(self, "targets", np.zeros((0, width))), getattr(self, "totals", np.zeros((0, 3)))
            more = count - len(old)
            self.moments: Floats = np.concatenate([old, np.zeros((more, width, width))])
            self.targets: Floats = np.concatenate([targets, np.zeros((more, width))])
            self.totals: Floats = np.concatenate([totals, np.zeros((more, 3))])
            self.weights = np.zeros((count + 1, width))  # shared with the live view, like the next two
            self.covariance = np.zeros((count + 1, width, width))
            self.noise = np.ones(1)
            self._lately = np.zeros((count, _FOLD, width))  # rows to be subtracted from `covariance`
            self._late = [0] * count
        else:
            totals = getattr(self, "totals", np.zeros((len(self.centroids), 0, 3)))
            self.totals = np.concatenate([totals, np.zeros((len(self.centroids), count - totals.shape[1], 3))], axis=1)

    def open(self) -> None:
        """Build the live view from the sums. Called once the sums are in place, and for each new arm."""
        model: Linear | Clusters
        if self.linear:
            model = self._model = _LiveLinear(self.weights, self.covariance, self.noise)
        else:
            posterior = clusters_posterior(self.totals, self.shrink)
            model = Clusters(self.centroids, posterior["means"], posterior["stds"])
        self.policy = _View(
            self,
            arms=Arms(self.arms),
            features=self.features,
            encoder=self.encoder,
            model=model,
            knobs=self.knobs,
            explorer=Explorer.of(self.knobs.get("explore", "greedy")),
            seen=self.seen,
        )
        self.seen[0] = self.totals[..., 0].sum()
        per_arm = self.totals[..., 0] if self.linear else self.totals[..., 0].sum(axis=0)
        self._rows = per_arm.tolist()
        self._steps = [0] * len(self.arms)
        if self.linear:
            self._renew()
            self.noise[0] = (max(self._error, 0.0) + _PRIOR_ROWS * self._spread) / (float(self.seen[0]) + _PRIOR_ROWS)

    def row(self, situation: Situation) -> Floats:
        """[1, width]; the last situation's vector is cached, because a live loop needs it twice."""
        if self._last is None or self._last[0] is not situation:
            self._last = (situation, self.features.vectors((situation,), self.encoder))
        return self._last[1]

    def rows(self, name: str) -> float:
        """The total weight of an arm's rows."""
        return self._rows[self.index[name]] if name in self.index else 0.0

    def place(self, name: str) -> int:
        """The index of an arm; a new one is added."""
        place = self.index.get(name)
        if place is None:
            self.flush()
            place = self.index[name] = len(self.arms)
            self.arms.append(name)
            self._allot(len(self.arms))
            self.open()
        return place

    def flush(self) -> None:
        """Add the waiting rows to the sums. Σxxᵀ is exact, so the time does not matter."""
        waiting, self._waiting = self._waiting, []
        by_arm: dict[int, list[tuple[int, Floats, float, float]]] = {}
        for entry in waiting:
            by_arm.setdefault(entry[0], []).append(entry)
        for arm, mine in by_arm.items():
            x = np.concatenate([entry[1] for entry in mine])
            reward, weight = np.array([entry[2] for entry in mine]), np.array([entry[3] for entry in mine])
            self.moments[arm] += x.T @ (x * weight[:, None])
            self.targets[arm] += (reward * weight) @ x
            self.totals[arm] += (weight.sum(), (weight * reward).sum(), (weight * reward * reward).sum())
            if not self._rows[arm]:  # only rounding errors of Σxr remain of this arm
                self.moments[arm], self.targets[arm], self.totals[arm] = 0.0, 0.0, 0.0

    def add_linear(self, arm: int, x: Floats, reward: float, weight: float) -> None:
        """One row [1, width]; a weight below 0 removes it."""
        self._waiting.append((arm, x, reward, weight))
        self._rows[arm] = rows = self._rows[arm] + weight
        self._steps[arm] += 1
        self.seen[0] = seen = float(self.seen[0]) + weight
        doubled = weight > 0.0 and int(seen).bit_length() > int(seen - weight).bit_length()
        if doubled and (seen <= _EARLY or self.prior != "mean"):
            self._renew()
        elif weight < 0.0 or rows % _REFRESH == 0.0 or self._steps[arm] >= _REFRESH:
            self._move()
            self._refresh(arm)
            self._measure()
        else:
            self._recurse(arm, x, reward, weight, rows)
            if self.prior != "mean" and seen >= self._due:
                self._move()
                self._measure()
            elif len(self._waiting) >= _REFRESH:
                self.flush()
        self._model.forget()
        self.noise[0] = (max(self._error, 0.0) + _PRIOR_ROWS * self._spread) / (seen + _PRIOR_ROWS) + 1e-9

    def _recurse(self, arm: int, x: Floats, reward: float, weight: float, rows: float) -> None:
        """One step of recursive least squares; `covariance` less `_lately`ᵀ`_lately` is the true inverse."""
        covariance, weights, late = self.covariance[arm], self.weights[arm], self._late[arm]
        side, x = self._model.side(x, arm), x[0]
        if late:
            recent = self._lately[arm, :late]
            side -= recent.dot(x).dot(recent)
        scale = 1.0 / weight + float(x.dot(side))
        error = reward - float(weights.dot(x))
        weights += side * (error / scale)
        self._error += error * error / scale
        side *= scale**-0.5
        self._lately[arm, late] = side
        self._late[arm] = late = late + 1
        if late == _FOLD or late > rows / 8.0:
            recent = self._lately[arm, :late]
            covariance -= recent.T @ recent
            self._late[arm] = 0

    def _renew(self) -> None:
        """Recompute the prior, all arms and the noise from the sums."""
        self.flush()
        count = len(self.arms)
        self._held, self.covariance[count] = held_back(self.moments, self.ridge, self.prior, self.features.text_width)
        self.weights[count] = self._common()
        for arm in range(count):
            self._refresh(arm)
        self._measure()

    def _common(self) -> Floats:
        """The prior weights of all arms; also schedules the next check."""
        self._due = float(self.seen[0]) + max(1.0, float(self.seen[0]) / _MOVE)
        return prior_weights(self.moments, self.targets, self.totals, self.ridge, self.prior, self._held)

    def _move(self) -> None:
        """Shift all arms to the present shared prior weights."""
        self.flush()
        count, start = len(self.arms), self._common()
        change = self._held @ (start - self.weights[count])
        for arm in range(count):
            if self._rows[arm]:
                recent = self._lately[arm, : self._late[arm]]
                self.weights[arm] += self.covariance[arm] @ change - recent.dot(change).dot(recent)
            else:
                self.weights[arm] = start
        self.weights[count] = start

    def _refresh(self, arm: int) -> None:
        """Recompute the arm's inverse and weights from the sums."""
        start, covariance = self.weights[len(self.arms)], self.covariance[arm]
        self._late[arm] = self._steps[arm] = 0
        if not self._rows[arm]:
            self.weights[arm], covariance[:] = start, self.covariance[len(self.arms)]
            return
        inverse = np.linalg.inv(self.moments[arm] + self._held)
        covariance[:] = 0.5 * (inverse + inverse.T)
        self.weights[arm] = start + covariance @ (self.targets[arm] - self.moments[arm] @ start)

    def _measure(self) -> None:
        """Squared errors and penalties of all arms: the input of the noise estimate."""
        self._spread = pooled_variance(self.totals)
        start = self.weights[len(self.arms)]
        self._error = common_penalty(self.moments, self.targets, self.totals, self.prior, start)
        for weights, targets, moments, totals in zip(
            self.weights[:-1], self.targets, self.moments, self.totals, strict=True
        ):
            if totals[0] > 0.0:
                shift = weights - start
                self._error += float(totals[2] - 2.0 * (weights @ targets) + weights @ moments @ weights)
                self._error += float(shift @ self._held @ shift)

    def add_cluster(self, arm: int, x: Floats, reward: float, weight: float) -> None:
        model = self.policy.model
        assert isinstance(model, Clusters)
        totals = self.totals[int(model.nearest(x)[0]), arm]
        totals += weight * np.array([1.0, reward, reward * reward])
        if totals[0] == 0.0:
            totals[:] = 0.0
        self.seen[0] += weight
        self._rows[arm] += weight
        posterior = clusters_posterior(self.totals, self.shrink)
        model.means, model.stds = posterior["means"], posterior["stds"]


class _LiveLinear(Linear):
    """Caches Px of the last arms, because the following update needs it again."""

    __slots__ = ("_sides", "_x")

    def __init__(self, weights: Floats, covariance: Floats, noise: Floats) -> None:
        super().__init__(weights, covariance, noise)
        self.forget()

    def forget(self) -> None:
        self._x: Floats | None = None
        self._sides: dict[int, Floats] = {}

    def side(self, x: Floats, arm: int) -> Floats:
        """P·x [width] for one row [1, width]; the caller may change it."""
        known = self._sides.pop(arm, None) if self._x is x else None
        return self.covariance[arm].dot(x[0]) if known is None else known

    def std_pair(self, x: Floats, arms: tuple[int, int]) -> tuple[float, float]:
        if self._x is not x:
            self._x, self._sides = x, {}
        row, noise = x[0], float(self.noise[0])
        one = self._sides[arms[0]] = self.covariance[arms[0]].dot(row)
        other = self._sides[arms[1]] = self.covariance[arms[1]].dot(row)
        return (
            math.sqrt(max(float(row.dot(one)), 1e-18) * noise),
            math.sqrt(max(float(row.dot(other)), 1e-18) * noise),
        )


class _View(Bandit):
    """The state's own arrays as a policy; the vector of a situation is computed once for acting and learning."""

    __slots__ = ("_state",)

    def __init__(self, state: State, **fields: Any) -> None:
        super().__init__(**fields)
        self._state = state

    def vectors(self, situations: Sequence[Situation]) -> Floats:
        return self._state.row(situations[0]) if len(situations) == 1 else super().vectors(situations)


def start(
    features: Features, encoder: Encoder | None, knobs: Mapping[str, Any] | None = None, arms: Sequence[str] = ()
) -> State:
    """A bandit without rows; `arms` may be named in advance, others are added when they first appear."""
    if knobs is not None and knobs.get("model", "linear") != "linear":
        raise errors.InvalidInput(
            "Clusters need centroids from `learn`.",
            code="no_centroids",
            hint='Start with model = "linear", or learn once.',
        )
    state = State(features, encoder, {"model": "linear", "explore": "squarecb", **(knobs or {})}, arms)
    state.open()
    return state


def state_from(policy: Policy) -> State:
    """The state from a policy's bundle: its sums, ready for more rows."""
    if not isinstance(policy, Bandit) or not policy.tensors:
        raise errors.InvalidInput(
            f"A {policy.family!r} policy cannot be updated row by row.",
            code="not_online",
            hint="Only a bandit from a bundle can.",
        )
    state = State(policy.features, policy.encoder, policy.knobs, policy.arms.names)
    tensors = policy.tensors
    if state.linear:
        state.moments, state.targets = np.array(tensors["moments"]), np.array(tensors["targets"])
    else:
        state.centroids = np.array(tensors["centroids"])
    state.totals = np.array(tensors["totals"])
    try:
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            state.open()
    except (ArithmeticError, np.linalg.LinAlgError) as error:
        raise damaged(f"The bundle's sums are those of no rows ({error})", "bad_tensor") from error
    return state


def update(state: State, row: Settled, sign: int = 1) -> None:
    """Add one settled decision (sign=+1), or remove exactly that decision (sign=-1).

    A row without a reward changes nothing. Removing a row that was never added is the caller's error; if it can be
    detected (an arm would have fewer than 0 rows), it is a Conflict and nothing changes.
    """
    reward = row.reward
    if reward is None:
        return
    if not math.isfinite(reward):
        raise errors.InvalidInput(f"The reward of row {row.seq} is {reward!r}.", code="not_finite", hint="Rescore it.")
    x = state.row(row.decision.situation)
    name = row.decision.action
    if sign < 0 and not state.rows(name):
        raise errors.Conflict(
            f"Row {row.seq} cannot be removed: no row of {name!r} was added.",
            code="never_added",
            hint="Rebuild the state from the settled rows.",
        )
    arm = state.place(name)
    if state.linear:
        state.add_linear(arm, x, float(reward), sign * row.weight)
    else:
        state.add_cluster(arm, x, float(reward), sign * row.weight)


def tensors_of(state: State) -> dict[str, Floats]:
    """All tensors of a bundle, computed from the sums alone."""
    if not state.linear:
        return {
            "centroids": state.centroids,
            "totals": np.array(state.totals),
            **clusters_posterior(state.totals, state.shrink),
        }
    state.flush()
    return {
        "moments": np.array(state.moments),
        "targets": np.array(state.targets),
        "totals": np.array(state.totals),
        **linear_posterior(
            state.moments, state.targets, state.totals, state.ridge, state.prior, state.features.text_width
        ),
    }


def snapshot(state: State) -> Bandit:
    """An immutable policy of the state's rows so far."""
    extra = {"arms": list(state.arms), "features": state.features.to_json()}
    return bandit.read(state.knobs, tensors_of(state), extra, state.encoder)
