"""A bandit that learns row by row: mutable state beside the immutable policies that it publishes.

    state = start(features, encoder, knobs)          # knows nothing yet
    state = state_from(policy)                       # goes on where a bundle stopped
    update(state, row)                               # one settled decision; sign=-1 takes it back
    state.policy                                     # a live view, changed by the next update: for one thread
    snapshot(state)                                  # Learned-like tensors of an immutable policy

What is stored are sums: Σxxᵀ, Σxr and (n, Σr, Σr²) per arm. Features are multiples of 2**-14, so Σxxᵀ is exact in
float64 (up to about two million rows of unit length) and a withdrawn row leaves no trace. The live view keeps the
inverse by Sherman-Morrison, O(width²) a row, and computes it afresh from the sums after 1, 2, 4, … rows, after every
256 rows of an arm and after every withdrawal; `snapshot` always computes from the sums, so it does not depend on the
order in which rows came.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headway.decide.acting import explorer
from headway.decide.bandit import Bandit, Clusters, Linear, rounding
from headway.decide.build import build
from headway.encode.state import Features
from headway.learn.posterior import clusters_posterior, linear_posterior, pooled_mean, pooled_variance, prior_weights
from headway.nouns.errors import Conflict, InvalidInput
from headway.nouns.protocols import Encoder, Floats, Policy
from headway.nouns.records import Settled, Situation

__all__ = ["State", "snapshot", "start", "state_from", "tensors_of", "update"]

_REFRESH = 256
_PRIOR_ROWS = 2.0


class State:
    """What a live bandit has seen. Not thread-safe: one owner updates it, and publishes snapshots."""

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
        self._last: tuple[Situation, Floats] | None = None
        self._waiting: list[tuple[int, Floats, float]] = []  # arm, features, sign: not yet in `moments`
        self.policy: Bandit
        self._allot(len(self.arms))

    def _allot(self, count: int) -> None:
        """Arrays for this many arms; the old ones' numbers are kept."""
        width = self.features.width
        if self.linear:
            old = getattr(self, "moments", np.zeros((0, width, width)))
            targets, totals = getattr(self, "targets", np.zeros((0, width))), getattr(self, "totals", np.zeros((0, 3)))
            more = count - len(old)
            self.moments: Floats = np.concatenate([old, np.zeros((more, width, width))])
            self.targets: Floats = np.concatenate([targets, np.zeros((more, width))])
            self.totals: Floats = np.concatenate([totals, np.zeros((more, 3))])
            self.inverse = np.zeros((count, width, width))
            self.theta = np.zeros((count + 1, width))
            self.weights = np.zeros((count + 1, width))
            self.covariance = np.zeros((count + 1, width, width))
            self.noise = np.ones(1)
            self._side = np.empty((width, width))
        else:
            totals = getattr(self, "totals", np.zeros((len(self.centroids), 0, 3)))
            self.totals = np.concatenate([totals, np.zeros((len(self.centroids), count - totals.shape[1], 3))], axis=1)

    def open(self) -> None:
        """Makes the live view from the sums. Called once the sums are in place, and when an arm has come."""
        model: Linear | Clusters
        if self.linear:
            model = Linear(self.weights, self.covariance, self.noise)
        else:
            found = clusters_posterior(self.totals, self.shrink)
            model = Clusters(self.centroids, found["means"], found["stds"])
        self.policy = Bandit(
            arms=self.arms,
            features=self.features,
            encoder=self.encoder,
            model=model,
            knobs=self.knobs,
            explorer=explorer(self.knobs.get("explore", "greedy")),
            seen=self.seen,
        )
        self.seen[0] = self.totals[..., 0].sum()
        if self.linear:
            self._reprime()
            for arm in range(len(self.arms)):
                self._refresh(arm)

    def vector(self, situation: Situation) -> Floats:
        """[width]; the last situation's is remembered, because a live loop asks for it twice."""
        if self._last is None or self._last[0] is not situation:
            self._last = (situation, self.features.vectors((situation,), self.encoder)[0])
        return self._last[1]

    def place(self, name: str) -> int:
        """Where an arm stands; a new one is given a place."""
        found = self.index.get(name)
        if found is None:
            self.flush()
            found = self.index[name] = len(self.arms)
            self.arms.append(name)
            self._allot(len(self.arms))
            self.open()
        return found

    def flush(self) -> None:
        """Adds the rows that wait to Σxxᵀ. Exact, so it does not matter when."""
        waiting, self._waiting = self._waiting, []
        for arm in sorted({each[0] for each in waiting}):
            rows = np.stack([x for place, x, _ in waiting if place == arm])
            signs = np.array([sign for place, _, sign in waiting if place == arm])
            self.moments[arm] += rows.T @ (rows * signs[:, None])

    def add_linear(self, arm: int, x: Floats, reward: float, sign: float) -> None:
        self._waiting.append((arm, x, sign))
        self.targets[arm] += (sign * reward) * x
        totals = self.totals[arm]
        totals[0] += sign
        totals[1] += sign * reward
        totals[2] += sign * reward * reward
        self.seen[0] += sign
        rows = int(self.seen[0])
        if sign < 0.0:
            self.flush()
            if totals[0] == 0.0:  # nothing is left of this arm but rounding errors of Σxr
                self.moments[arm], self.targets[arm], totals[:] = 0.0, 0.0, 0.0
            self._reprime()
            self._refresh(arm)
            return
        if rows < _REFRESH and rows & (rows - 1) == 0:
            self.flush()
            self._reprime()
            for each in range(len(self.arms)):
                self._refresh(each)
            return
        if totals[0] % _REFRESH == 0 or len(self._waiting) >= 2 * _REFRESH:
            self.flush()
            self._reprime()
            self._refresh(arm)
            return
        inverse, theta = self.inverse[arm], self.theta[arm]
        side = inverse @ x
        scale = 1.0 + float(x @ side)
        error = reward - float(theta @ x)
        theta += side * (error / scale)
        np.multiply(side[:, None], side * (1.0 / scale), out=self._side)
        inverse -= self._side
        self._error += error * error / scale
        self._publish(arm)

    def _publish(self, arm: int) -> None:
        np.add(self.theta[arm], self._round_weights, out=self.weights[arm])
        self.weights[arm] -= self._round_weights
        np.add(self.inverse[arm], self._round_inverse, out=self.covariance[arm])
        self.covariance[arm] -= self._round_inverse
        rows = float(self.seen[0])
        self.noise[0] = max((max(self._error, 0.0) + _PRIOR_ROWS * self._spread) / (rows + _PRIOR_ROWS), 1e-9)

    def _reprime(self) -> None:
        """What all arms share: the prior's weights, the noise, the bounds that rounding goes by."""
        width, count = self.features.width, len(self.arms)
        start = prior_weights(self.moments, self.targets, self.totals, self.ridge, self.prior)
        self.theta[count] = start
        greatest = 8.0 * max(float(np.abs(self.theta).max(initial=0.0)), abs(pooled_mean(self.totals)), 2.0**-10)
        self._round_weights = rounding(width, greatest)
        self._round_inverse = rounding(width, 1.0 / self.ridge)
        self.weights[count] = (start + self._round_weights) - self._round_weights
        self.covariance[count] = np.eye(width) / self.ridge
        self._spread = pooled_variance(self.totals)
        self._error = float(
            sum(
                self.totals[arm, 2]
                - 2.0 * (self.theta[arm] @ self.targets[arm])
                + self.theta[arm] @ self.moments[arm] @ self.theta[arm]
                for arm in range(count)
                if self.totals[arm, 0] > 0
            )
        )

    def _refresh(self, arm: int) -> None:
        """The arm's inverse and weights straight from the sums."""
        width, start = self.features.width, self.theta[len(self.arms)]
        inverse = np.linalg.inv(self.moments[arm] + self.ridge * np.eye(width))
        self.inverse[arm] = 0.5 * (inverse + inverse.T)
        self.theta[arm] = start + self.inverse[arm] @ (self.targets[arm] - self.moments[arm] @ start)
        self._publish(arm)

    def add_cluster(self, arm: int, x: Floats, reward: float, sign: float) -> None:
        model = self.policy.model
        assert isinstance(model, Clusters)
        totals = self.totals[int(model.nearest(x[None, :])[0]), arm]
        totals += sign * np.array([1.0, reward, reward * reward])
        if totals[0] == 0.0:
            totals[:] = 0.0
        self.seen[0] += sign
        found = clusters_posterior(self.totals, self.shrink)
        model.means, model.stds = found["means"], found["stds"]


def start(
    features: Features, encoder: Encoder | None, knobs: Mapping[str, Any] | None = None, arms: Sequence[str] = ()
) -> State:
    """A bandit that has seen nothing; `arms` may be named in advance, others come as they are met."""
    if knobs is not None and knobs.get("model", "linear") != "linear":
        raise InvalidInput(
            "Clusters cannot start from nothing: their centroids come from `learn`.",
            code="no_centroids",
            hint='Start with model = "linear", or learn once.',
        )
    state = State(features, encoder, {"model": "linear", "explore": "thompson", **(knobs or {})}, arms)
    state.open()
    return state


def state_from(policy: Policy) -> State:
    """The state of the policy that a bundle holds: its own sums, ready to go on."""
    if not isinstance(policy, Bandit) or not policy.tensors:
        raise InvalidInput(
            f"A {policy.family!r} policy cannot be updated row by row.",
            code="not_online",
            hint="Only a bandit that was built from a bundle can.",
        )
    state = State(policy.features, policy.encoder, policy.knobs, policy.arms)
    tensors = policy.tensors
    if state.linear:
        state.moments, state.targets = np.array(tensors["moments"]), np.array(tensors["targets"])
    else:
        state.centroids = np.array(tensors["centroids"])
    state.totals = np.array(tensors["totals"])
    state.open()
    return state


def update(state: State, row: Settled, sign: int = 1) -> None:
    """Learns one settled decision (sign=+1), or takes back exactly what it had added (sign=-1).

    A row without a reward changes nothing. Taking back a row that was never added is the caller's error; where it can
    be seen (fewer than no rows), it is a Conflict and nothing is changed.
    """
    reward = row.reward
    if reward is None:
        return
    if not np.isfinite(reward):
        raise InvalidInput(f"The reward of row {row.seq} is {reward!r}.", code="not_finite", hint="Rescore it.")
    x = state.vector(row.decision.situation)
    name = row.decision.action
    if sign < 0 and (name not in state.index or float(state.totals[..., state.index[name], 0].sum()) < 1.0):
        raise Conflict(
            f"Row {row.seq} cannot be taken back: nothing of {name!r} was added.",
            code="never_added",
            hint="Rebuild the state from the settled rows.",
        )
    arm = state.place(name)
    if state.linear:
        state.add_linear(arm, x, float(reward), float(sign))
    else:
        state.add_cluster(arm, x, float(reward), float(sign))


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
        **linear_posterior(state.moments, state.targets, state.totals, state.ridge, state.prior),
    }


def snapshot(state: State) -> Bandit:
    """An immutable policy of what the state has seen so far."""
    extra = {"arms": list(state.arms), "features": state.features.to_json()}
    policy = build("bandit", state.knobs, tensors_of(state), extra, state.encoder)
    assert isinstance(policy, Bandit)
    return policy
