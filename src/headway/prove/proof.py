"""The gate's test of a log, row by row: past-only doubly robust scores, and a bet on each of them.

Row i's score is Σ_a (π−b)(a) q(x, a) + (π−b)(A)/μ(A) · (r − q(x, A)), with q fitted only on earlier decisions (refit at
50, 100, 200, …). Given the past, its mean is exactly the difference of the two policies' values, and the known
probabilities and the range of the rewards bound it. `headway.prove.betting` turns the scores into the test.
Cross-fitting uses later rows, gives no valid bet, and is for display only (`headway.prove.display`).

A row whose outcome is open or missing counts at its worst value on each side: with the low end of the range where a
higher reward would speak for the candidate, with the high end where it would speak against it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from copy import copy, deepcopy
from math import inf

import numpy as np
from numpy.typing import NDArray

from headway.nouns import Plan, errors
from headway.prove.diagnostics import Checks
from headway.prove.guard_bets import GuardRule, GuardTally
from headway.prove.log import DELETED, PENDING, STATUS, Floats, Integers, Log
from headway.prove.raters import RaterScores, RewardMean, silenced
from headway.prove.reward_model import ArmRidges, ArmSums, narrow
from headway.prove.sequential import ALPHA
from headway.prove.state import RunningHash
from headway.prove.tally import NOISE_FLOOR, ColumnMean, Groups, MetricTally, ScoreTally
from headway.prove.wagers import Wagers

FIRST_REFIT = 50
MOST_POINTS = 60  # of the plot's curve; with more, every other one is dropped
MOST_RATERS = 64  # with a test without them; for later ones only their own rows are subtracted
_HASHED = ("reward", "action", "logged", "target", "baseline", "features", "status", "order")


class LogProof:
    """A running test of candidate against current: feed chunks with `update`, read the sums at any time.

    proof = LogProof(plan=plan, reward_range=(0.0, 1.0))
    for chunk in chunks:
        proof.update(chunk)
        proof.statistic() > log(1 / proof.alpha)

    `plan`: only its first `horizon` scored rows after `from_seq` count; earlier rows still train the reward model.
    `reward_range`: no reward can be outside. Without it, the range of the rewards so far is used, at least [0, 1].
    `guard`: the candidate acts, and "worse" also finds harm that begins late.
    `most_share`: the share of the traffic that an experiment could give the candidate. `guards`: metrics to judge.
    `margin`: what a registered test is to exceed; its stakes aim at it.
    """

    def __init__(
        self,
        *,
        plan: Plan | None = None,
        alpha: float = ALPHA,
        alpha_worse: float = ALPHA,
        reward_range: tuple[float, float] | None = None,
        hashing: bool = True,
        guard: bool = False,
        most_share: float = 0.0,
        guards: Sequence[GuardRule] = (),
        margin: float = 0.0,
    ) -> None:
        self.plan = plan
        self.most_share = most_share
        self.alpha, self.alpha_worse = alpha, alpha_worse
        horizon = None if plan is None else plan.horizon
        self.bets = Wagers(alpha, alpha_worse, horizon, reward_range, guard=guard, margin=margin)
        self.arms: tuple[str, ...] = ()
        self.rows = 0
        self.counts: dict[str, int] = {}
        self.segments: dict[str, Groups] = {}
        self.keys = Groups()
        self.raters: dict[str, RaterScores] = {}
        self.without: dict[str, LogProof] = {}  # the same test without this rater
        self.rules = tuple(guards)
        self.guards: dict[str, GuardTally] = {}
        self.curve: list[tuple[int, float, float, float]] = []  # n, mean score, lower and upper bound
        self.candidate, self.current, self.behaviour = ColumnMean(), ColumnMean(), ColumnMean()
        self._stride, self._updates = 1, 0
        self._hashes = {name: RunningHash() for name in _HASHED} if hashing else {}
        self._model: ArmRidges | None = None
        self._next_refit = FIRST_REFIT
        self._rewarded = 0
        self._reward_total = 0.0
        self._beside = False  # this is a test without a rater: only the sum and its variance
        self._known = RewardMean()
        self._others: dict[str, RewardMean] = {}  # by rater: the rewards of all others
        self._rater_hashes: dict[str, tuple[RunningHash, RunningHash]] = {}
        self._last = -inf

    def update(self, chunk: Log) -> None:
        """Scores the chunk's rows; their scores never change afterwards."""
        if len(chunk) == 0:
            return
        if not self.arms:
            self._start(chunk)
        if chunk.arms != self.arms or chunk.width != self._width:
            raise errors.InvalidInput(
                f"A chunk has the arms {chunk.arms!r} and {chunk.width} features; the log starts with "
                f"{self.arms!r} and {self._width}.",
                code="bad_log",
                hint="Map every chunk to the same columns: one per arm that is ever a candidate.",
            )
        if chunk.order[0] < self._last:
            raise errors.InvalidInput(
                f"A chunk begins at order {int(chunk.order[0])} after {int(self._last)}.",
                code="bad_log",
                hint="Feed chunks in the order in which the decisions were made.",
            )
        self._last = int(chunk.order[-1])
        for name, digest in self._hashes.items():
            digest.update(np.ascontiguousarray(getattr(chunk, name)).tobytes())
        for name in sorted(chunk.without.keys() - self.without.keys()):
            if len(self.without) < MOST_RATERS:
                self.without[name], self._others[name] = self.fork(), deepcopy(self._known)
        if self._hashes:
            self._hash_raters(chunk)
        self._feed(chunk)
        for name, proof in self.without.items():
            proof.update(silenced(chunk, name, self._others[name]))
        if not self._beside:
            self._known.add(chunk.reward)

    def _feed(self, chunk: Log) -> None:
        start = 0
        while start < len(chunk):
            stop = min(len(chunk), start + self._next_refit - self.rows)
            self._piece(chunk if stop - start == len(chunk) else chunk.rows(start, stop))
            start = stop
        self._point()

    @property
    def data_hash(self) -> str:
        """Hash of the columns, independent of the chunks; empty if hashing is off."""
        if not self._hashes:
            return ""
        whole = hashlib.sha256("\0".join(self.arms).encode())
        for name in _HASHED:
            whole.update(self._hashes[name].digest())
        for rater, digests in sorted(self._rater_hashes.items()):
            whole.update(rater.encode() + b"\0" + digests[0].digest() + digests[1].digest())
        return whole.hexdigest()

    @property
    def n(self) -> int:
        """Rows in the test: those with a reward, and those that count at their worst value."""
        return self.bets.better.n

    @property
    def ended(self) -> bool:
        return self.plan is not None and self.n >= self.plan.horizon

    def statistic(self, margin: float = 0.0) -> float:
        """ln E for "better by more than the margin"; it passes above ln 1/alpha."""
        return self.bets.better.log_wealth(margin)

    def statistic_worse(self) -> float:
        """ln E for "worse"; it is proven above ln 1/alpha_worse."""
        return self.bets.worse.log_wealth()

    def bounds(self, margin: float = 0.0) -> tuple[float, float] | None:
        """The differences that the test does not exclude, each side at its alpha; None before the first score."""
        return self.bets.bounds(margin) if self.n else None

    def fork(self) -> LogProof:
        """A copy of this test that continues with other rewards; without the parts that only the page shows."""
        made = copy(self)
        made._hashes, made._rater_hashes, made._others, made.without, made.raters = {}, {}, {}, {}, {}
        made.keys, made.segments, made.guards, made.counts, made.curve = Groups(), {}, {}, {}, []
        made.candidate, made.current, made.behaviour = ColumnMean(), ColumnMean(), ColumnMean()
        made._last, made._beside = -inf, True
        for name in ("tally", "bets", "_sums"):
            setattr(made, name, deepcopy(getattr(self, name)))
        return made

    def _hash_raters(self, chunk: Log) -> None:
        """Hash who rated which rows, independent of the chunks."""
        for name, alone in chunk.without.items():
            which, rewards = self._rater_hashes.setdefault(name, (RunningHash(), RunningHash()))
            places = np.flatnonzero(chunk.raters[name]) if name in chunk.raters else np.empty(0, dtype=np.int64)
            which.update((places + self.rows).tobytes())
            rewards.update(alone[places].tobytes())

    def _start(self, chunk: Log) -> None:
        self.arms = chunk.arms
        self._width = chunk.width
        count = len(chunk.arms)
        self.tally = ScoreTally(count)
        self.failures = MetricTally(count)  # failed or censored, whatever its reward
        self.checks = Checks(count, chunk.width)
        self._sums: ArmSums | None = None

    def _piece(self, piece: Log) -> None:
        """Rows that share one reward model and one stake."""
        x = narrow(piece.features, len(self.arms))
        rows = np.arange(len(piece))
        reward, action, logged = piece.reward, piece.action, piece.logged
        seen = ~np.isnan(reward)
        q, low, high = self._predict(x, reward, seen)
        difference = piece.target - piece.baseline
        propensity = logged[rows, action]
        weight = difference[rows, action] / propensity
        fitted = q[rows, action]
        direct = np.einsum("ij,ij->i", difference, q)
        score = direct + weight * (reward - fitted)
        inside = self._inside(piece, seen | piece.worst)
        kept = inside & seen
        pick = slice(None) if kept.all() else kept
        shape = (q - low) * (high - q) + NOISE_FLOOR * (high - low) ** 2
        self.tally.add(
            score=score[pick],
            direct=direct[pick],
            difference=difference[pick],
            logged=logged[pick],
            action=action[pick],
            residual=(reward - fitted)[pick],
            shape=shape[pick],
            shared=(piece.baseline + self.most_share * difference)[pick] if self.most_share else None,
        )
        won = self.bets.add(piece, inside, difference, q)
        if not self._beside:
            target_weight = piece.target[rows, action] / propensity
            baseline_weight = piece.baseline[rows, action] / propensity
            base = np.einsum("ij,ij->i", piece.baseline, q) + baseline_weight * (reward - fitted)
            self.current.add(base[pick])
            self.candidate.add((base + score)[pick])
            self.behaviour.add(reward[pick])
            self.checks.add(piece, inside, target_weight, baseline_weight, difference)
            self._metrics(piece, difference, weight, inside, seen)
            self._count(piece)
        self._group(piece, score, kept, won)
        self._train(x, action, reward, seen)

    def _group(self, piece: Log, score: Floats, kept: NDArray[np.bool_], won: tuple[Floats, Floats]) -> None:
        """Add the scores to the sums by segment, key and rater."""
        pick = slice(None) if kept.all() else kept
        for name, labels in piece.segments.items():
            self.segments.setdefault(name, Groups()).add(labels[pick], score[pick])
        if piece.keys is not None:
            self.keys.add(piece.keys[pick], score[pick])
        for name, rated in piece.raters.items():
            alone = piece.without[name] if name in piece.without else np.full(len(piece), np.nan)
            self.raters.setdefault(name, RaterScores()).add(score, won, rated & kept, rated & kept & np.isnan(alone))

    def _train(self, x: Floats, action: Integers, reward: Floats, seen: NDArray[np.bool_]) -> None:
        """Add the rows for the next reward model, and fit it when it is due."""
        if self._sums is None:
            self._sums = ArmSums(len(self.arms), x.shape[1])
        if seen.all():
            self._sums.add(x, action, reward)
        else:
            self._sums.add(x[seen], action[seen], reward[seen])
        self._rewarded += int(seen.sum())
        self.rows += seen.size
        if self.rows >= self._next_refit:
            self._model = self._sums.fit()
            self.bets.variance = self.tally.variance
            if not self._beside:
                for tally in (self.checks.missing, self.failures, *self.guards.values()):
                    tally.refit()
            self._next_refit *= 2

    def _predict(self, x: Floats, reward: Floats, seen: NDArray[np.bool_]) -> tuple[Floats, float, float]:
        """q [n, arm] from earlier rows only, and its range."""
        if self._model is not None:
            return self._model.predict(x), self._model.low, self._model.high
        # before the first refit: the mean reward of the rows before each row
        known = np.where(seen, reward, 0.0)
        total = self._reward_total + np.cumsum(known) - known
        count = self._rewarded + np.cumsum(seen) - seen
        mean = total / np.maximum(count, 1)
        self._reward_total += float(known.sum())
        values = reward[seen]
        low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
        low, high = min(low, float(mean.min())), max(high, float(mean.max()))
        return np.repeat(mean[:, None], len(self.arms), axis=1), low, high

    def _inside(self, piece: Log, used: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which rows the test may use: after the plan's mark, up to its horizon in scored rows."""
        if self.plan is None:
            return np.ones(len(piece), dtype=np.bool_)
        inside = piece.order > self.plan.from_seq
        room = self.plan.horizon - self.n
        if len(piece) > room:
            inside &= np.cumsum(inside & used) <= room
            if room <= 0:
                inside[:] = False
        return inside

    def _metrics(
        self,
        piece: Log,
        difference: Floats,
        weight: Floats,
        inside: NDArray[np.bool_],
        seen: NDArray[np.bool_],
    ) -> None:
        gone = (~seen).astype(np.float64)
        failed = (piece.status > 0).astype(np.float64)
        pending = piece.status == PENDING
        gone[pending] = np.nan  # not settled yet
        failed[pending | (piece.status == DELETED)] = np.nan
        self.checks.missing.add(gone, piece.action, difference, weight, inside)
        self.failures.add(failed, piece.action, difference, weight, inside)
        for rule in self.rules:
            if rule.name in piece.guards:
                tally = self.guards.setdefault(rule.name, GuardTally(rule, len(self.arms)))
                tally.bet(piece, difference, weight, inside)

    def _count(self, piece: Log) -> None:
        for code, count in enumerate(np.bincount(piece.status, minlength=len(STATUS)).tolist()):
            if count:
                self.counts[STATUS[code]] = self.counts.get(STATUS[code], 0) + count
        missing = np.isnan(piece.reward)
        left_out = missing & ~piece.worst & (piece.status != PENDING)
        for name, rows in (("without reward", missing), ("left out", left_out)):
            if rows.any():
                self.counts[name] = self.counts.get(name, 0) + int(rows.sum())
        if self.bets.at_worst:
            self.counts["at worst value"] = self.bets.at_worst
        if piece.sources is not None:
            for source, count in zip(*np.unique(piece.sources, return_counts=True), strict=True):
                self.counts[f"source {source}"] = self.counts.get(f"source {source}", 0) + int(count)

    def _point(self) -> None:
        self._updates += 1
        n = self.n
        if self._beside or n < 2 or self._updates % self._stride or (self.curve and self.curve[-1][0] == n):
            return
        bounds = self.bounds()
        assert bounds is not None
        self.curve.append((n, self.tally.scores.mean, *bounds))
        if len(self.curve) > MOST_POINTS:
            del self.curve[::2]
            self._stride *= 2
