"""Evidence from a log of another program, which only has the probabilities of the logged action."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf, log, sqrt
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headway.kits.heldout import bootstrap
from headway.nouns import Diagnostic, Estimate, Evidence, Floats, errors
from headway.prove import About, Bets, Checks, Floors, ScoreTally, missing_width

ROWS = 50_000  # of a chunk

_CERTAIN = 1e-9
_FIRST = 50  # rows before the variance of the scores sets the stakes
_WEIGHTS_FROM_ROWS = (
    "the largest importance weight is taken from the rows: "
    "the file does not have the probabilities of the other actions"
)
MOST_KEPT = 2_000_000  # rows kept for bootstrap intervals; with more, intervals are normal


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignChunk:
    """Rows of a log as arrays [n]; `model` are q(A), Σ π q and Σ b q."""

    reward: Floats
    propensity: Floats
    target: Floats
    baseline: Floats
    model: tuple[Floats, Floats, Floats] | None = None


def from_chunks(chunks: Iterable[ForeignChunk], about: About, floors: Floors | None = None) -> Evidence:
    """Evidence from chunks of such a log, in the order of the decisions."""
    proof = _ForeignProof(about)
    for chunk in chunks:
        proof.add(chunk)
    return proof.evidence(floors or Floors())


class _ForeignProof:
    """The past-only paired test of such a log: q comes from the file, or is the mean of the rewards before each row."""

    def __init__(self, about: About) -> None:
        self.about = about
        self.tally, self.checks = ScoreTally(1), Checks(1, 0)
        self.running = RunningEstimates(compared=True)
        self.kept: list[tuple[Floats, ...]] | None = []
        self.curve: list[tuple[int, float, float, float]] = []
        self.rows, self.rewarded, self.total = 0, 0, 0.0
        horizon = None if about.plan is None else about.plan.horizon
        self.better, self.worse = Bets(about.share, horizon), Bets(about.alpha_worse, horizon)
        self._range = about.reward_range or (0.0, 1.0)
        self.unknown, self.moved = 0, 0.0  # rows at their worst value, and how far their scores may be off
        self._heaviest = np.zeros(2)  # the largest weights so far, of candidate and current
        self.model = False

    def add(self, chunk: ForeignChunk) -> None:
        seen = ~np.isnan(chunk.reward)
        ours, theirs = chunk.target / chunk.propensity, chunk.baseline / chunk.propensity
        gone = (~seen).astype(np.float64)
        zeros = np.zeros(gone.size, dtype=np.int64)
        every = np.ones(gone.size, dtype=np.bool_)
        self.checks.missing.add(gone, zeros, np.zeros((gone.size, 1)), ours - theirs, every)
        self.checks.missing.refit()
        self.checks.add_weights(ours, theirs, every)
        certain = chunk.propensity >= 1.0 - _CERTAIN  # no other action was possible
        self.checks.unlogged += int((certain & (np.abs(chunk.target - chunk.baseline) > 1e-6)).sum())
        self.rows += gone.size
        self.model = chunk.model is not None
        reward, ours, theirs = chunk.reward[seen], ours[seen], theirs[seen]
        if chunk.model is not None:
            fitted, mine, other = (part[seen] for part in chunk.model)
        else:  # the mean of the rewards before each row; Σ_a π(a) q is the same number for every policy
            fitted = (self.total + np.cumsum(reward) - reward) / np.maximum(self.rewarded + np.arange(reward.size), 1)
            mine = other = fitted
        self.rewarded += reward.size
        self.total += float(reward.sum())
        start = 0
        while start < reward.size:
            stop = min(reward.size, start + 250) if len(self.curve) < 200 else reward.size
            self._score(
                reward[start:stop], ours[start:stop], theirs[start:stop], fitted[start:stop],
                mine[start:stop], other[start:stop],
            )  # fmt: skip
            start = stop
        self._bet_on_unknown(chunk, ~seen)
        self.running.add(reward=reward, weight=ours, direct=mine, fitted=fitted, baseline=(theirs, other))
        if self.kept is not None:
            self.kept.append((reward, ours, theirs, fitted, mine, other))
            if self.rewarded > MOST_KEPT:
                self.kept = None

    def _score(self, reward: Floats, ours: Floats, theirs: Floats, fitted: Floats, mine: Floats, other: Floats) -> None:
        if self.about.plan is not None:  # the registered test uses no row beyond its horizon
            room = max(0, self.about.plan.horizon - self.tally.n)
            reward, ours, theirs = reward[:room], ours[:room], theirs[:room]
            fitted, mine, other = fitted[:room], mine[:room], other[:room]
        weight, residual = ours - theirs, reward - fitted
        score = mine - other + weight * residual
        self._bet(score, mine - other, reward, ours, theirs, fitted)
        self.tally.add(
            score=score,
            direct=mine - other,
            difference=weight[:, None],
            logged=np.ones((weight.size, 1)),
            action=np.zeros(weight.size, dtype=np.int64),
            residual=residual,
            shape=np.ones((weight.size, 1)),
        )
        if self.tally.n > 1 and reward.size:
            self.curve.append((self.tally.n, self.tally.scores.mean, *self._bounds()))

    def _bounds(self) -> tuple[float, float]:
        least = self._range[0] - self._range[1]  # no policy can be better or worse than another by more
        return self.better.lower_bound(least, self.about.margin), -self.worse.lower_bound(least)

    def _bet(self, score: Floats, direct: Floats, reward: Floats, ours: Floats, theirs: Floats, fitted: Floats) -> None:
        """Bet on both sides. The file has the weights of the logged actions only: no other is taken to be larger."""
        if score.size == 0:
            return
        low, high = self._range
        if self.about.reward_range is None:
            low, high = min(low, float(reward.min())), max(high, float(reward.max()))
            self._range = low, high
        first = np.maximum(np.maximum.accumulate(ours), self._heaviest[0])
        second = np.maximum(np.maximum.accumulate(theirs), self._heaviest[1])
        self._heaviest = np.array([first[-1], second[-1]])
        below, above = np.maximum(fitted - low, 0.0), np.maximum(high - fitted, 0.0)
        stake = (
            self.tally.variance
            if self.tally.n >= _FIRST
            else float(np.mean((ours - theirs) ** 2)) * (high - low) ** 2 / 4
        )
        self.better.add(score, direct - first * below - second * above, stake)
        self.worse.add(-score, -direct - first * above - second * below, stake)

    def _bet_on_unknown(self, chunk: ForeignChunk, gone: NDArray[np.bool_]) -> None:
        """Rows without a reward, at their worst value on each side; left out if they are declared missing at random."""
        if self.about.declared.get("missing") == "at random" or not gone.any():
            return
        ours, theirs = (chunk.target / chunk.propensity)[gone], (chunk.baseline / chunk.propensity)[gone]
        if chunk.model is not None:
            fitted, mine, other = (part[gone] for part in chunk.model)
        else:
            fitted = mine = other = np.full(ours.size, self.total / max(self.rewarded, 1))
        low, high = self._range
        weight, direct = ours - theirs, mine - other
        ends = weight * (low - fitted), weight * (high - fitted)
        lowest, highest = direct + np.minimum(*ends), direct + np.maximum(*ends)
        stake = max(self.tally.variance, 1e-12)
        self.better.add(lowest, lowest, stake)
        self.worse.add(-highest, -highest, stake)
        self.unknown += ours.size
        self.moved += float(np.abs(weight).sum()) * (high - low)

    def evidence(self, floors: Floors) -> Evidence:
        about, tally = self.about, self.tally
        if tally.n == 0:
            raise errors.InvalidInput(
                f"{about.task!r} has no row with a reward.", code="no_evidence", hint="Name its column with --reward."
            )
        n = self.better.n
        statistic, width = self.better.log_wealth(about.margin), self._range[1] - self._range[0]
        difference, values = self._shown()
        return about.compose(
            kind="log",
            n=n,
            difference=difference,
            values=values,
            statistic=statistic,
            statistic_worse=self.worse.log_wealth(),
            threshold=log(1.0 / about.share),
            threshold_worse=log(1.0 / about.alpha_worse),
            rule=about.bet,
            alpha=about.share,
            counts={"rewarded": tally.n, "without reward": self.rows - tally.n, "at worst value": self.unknown},
            data_hash="",
            needed=about.still_needed(tally.variance, n, tally.scores.mean, self.better.lowest),
            diagnostics=(
                *self.checks.overlap(tally, floors),
                self.checks.unlogged_actions(floors),
                self._mean_weight(),
                self.checks.missing_depends_on_action(excluded=self.rows > n),
                missing_width(
                    n=n,
                    unknown=self.unknown,
                    moved=self.moved,
                    reward_width=width,
                    passed=statistic > log(1.0 / about.share),
                ),
            ),
            curve=tuple(self.curve),
            bounds=self._bounds(),
            unchecked=(_WEIGHTS_FROM_ROWS,),
            ended=about.plan is not None and n >= about.plan.horizon,
        )

    def _mean_weight(self) -> Diagnostic:
        """Importance weights average 1 if the propensities are right and every action was possible."""
        gaps = [self._weight_gap(policy) for policy in (0, 1)]
        (mean, gap), name = max(
            zip(gaps, (self.about.candidate, self.about.against), strict=True), key=lambda side: side[0][1]
        )
        ok = gap <= 6.0
        return Diagnostic(
            name="mean_weight",
            value=mean,
            limit=1.0,
            ok=ok,
            blocks=True,
            message=f"importance weights of {name} average {mean:.3f} (1 if the propensities are right)",
            cure="" if ok else f"{name} takes actions that were never logged, or the logged propensities are wrong.",
        )

    def _weight_gap(self, policy: int) -> tuple[float, float]:
        """The mean weight of the candidate or the current policy, and by how many standard errors it is not 1."""
        total, square, _ = self.checks.weight[policy]
        mean = float(total / self.rows)
        error = max(square / self.rows - mean**2, 0.0) ** 0.5 / self.rows**0.5
        if abs(mean - 1.0) < 0.01:
            return mean, 0.0
        return mean, abs(mean - 1.0) / error if error > 0.0 else inf

    def _shown(self) -> tuple[Estimate, dict[str, Estimate]]:
        method: Method = "dr" if self.model else "snips"
        values = {f"candidate ({name})": self._one(name) for name in ("ips", "snips", *(("dr",) if self.model else ()))}
        if self.kept is None:
            return self.running.estimate(method), values
        reward, ours, theirs, fitted, mine, other = (np.concatenate(column) for column in zip(*self.kept, strict=True))
        seed = self.about.seed
        first = rows(method, reward=reward, weight=ours, direct=mine, fitted=fitted)
        second = rows(method, reward=reward, weight=theirs, direct=other, fitted=fitted)
        ess = self.checks.ess(0)
        shown = estimate_rows(first - second, method=method, ess=ess, seed=seed)
        values["candidate"] = estimate_rows(first, method=method, ess=ess, seed=seed)
        values["current"] = estimate_rows(second, method=method, ess=self.checks.ess(1), seed=seed)
        values["behaviour"] = estimate_rows(reward, method="mean", ess=float(reward.size), seed=seed)
        return shown, values

    def _one(self, method: Method) -> Estimate:
        return self.running.candidate().estimate(method)


Method = Literal["ips", "snips", "dr"]
LEVEL = 0.95


def rows(method: Method, *, reward: Floats, weight: Floats, direct: Floats, fitted: Floats) -> Floats:
    """[n]; numbers whose mean is the estimate. `weight` is π(A)/μ(A), `direct` Σ_a π(a) q(a), `fitted` q(A).

    With w = π(A|x)/μ(A|x), m = Σ_a π(a|x) q(x, a) and e = r − q(x, A):

        IPS    mean(w r)              Horvitz and Thompson (1952)
        SNIPS  Σ w r / Σ w            Swaminathan and Joachims (2015)
        DR     mean(m + w e)          Dudík, Langford and Li (2011)

    The mean of the rows is the estimate and their variance is the estimate's (the self-normalised one is linearised).
    """
    if method == "ips":
        return weight * reward
    if method == "snips":
        mean = float(weight @ reward) / float(weight.sum())
        return mean + weight * (reward - mean) / float(weight.mean())
    return direct + weight * (reward - fitted)


def estimate_rows(values: Floats, *, method: str, ess: float, seed: int = 0) -> Estimate:
    """The mean of per-decision numbers with its bootstrap interval."""
    low, high = bootstrap(values, level=LEVEL, seed=seed)
    mean = float(values.mean()) if values.size else 0.0
    return Estimate(value=mean, low=low, high=high, n=values.size, ess=ess, method=method, level=LEVEL)


class RunningEstimates:
    """All estimators of one policy, or of a paired difference, over chunks: sums of products, no rows kept.

    Every estimator is a smooth function of the means of z = (w, w r, m, w e), for both policies where there are two,
    so that Σz and Σzzᵀ give all of them with delta-method intervals.
    """

    def __init__(self, *, compared: bool = False) -> None:
        width = 8 if compared else 4
        self.n = 0
        self.total = np.zeros(width)
        self.product = np.zeros((width, width))
        self.square = np.zeros(2)  # Σw² of each policy

    def add(
        self,
        *,
        reward: Floats,
        weight: Floats,
        direct: Floats,
        fitted: Floats,
        baseline: tuple[Floats, Floats] | None = None,  # w and m of the current policy
    ) -> None:
        columns = []
        for position, (w, m) in enumerate([(weight, direct)] + ([baseline] if baseline is not None else [])):
            columns += [w, w * reward, m, w * (reward - fitted)]
            self.square[position] += float(w @ w)
        z = np.stack(columns, axis=1)
        self.n += reward.size
        self.total += z.sum(axis=0)
        self.product += z.T @ z

    def candidate(self) -> RunningEstimates:
        """The sums of the candidate alone."""
        alone = RunningEstimates()
        alone.n, alone.total, alone.product, alone.square = self.n, self.total[:4], self.product[:4, :4], self.square
        return alone

    def estimate(self, method: Method) -> Estimate:
        """The estimate so far, with a normal interval."""
        mean = self.total / self.n
        cov = (self.product / self.n - np.outer(mean, mean)) * (self.n / max(self.n - 1, 1))
        value, slope = 0.0, np.zeros_like(mean)
        for start, sign in zip(range(0, mean.size, 4), (1.0, -1.0), strict=False):
            part, gradient = _delta(method, mean[start : start + 4])
            value += sign * part
            slope[start : start + 4] = sign * gradient
        wide = NormalDist().inv_cdf(0.5 + LEVEL / 2.0) * sqrt(max(0.0, float(slope @ cov @ slope)) / self.n)
        ess = float(self.total[0] ** 2 / self.square[0]) if self.square[0] > 0.0 else 0.0
        return Estimate(value=value, low=value - wide, high=value + wide, n=self.n, ess=ess, method=method, level=LEVEL)


def _delta(method: Method, z: Floats) -> tuple[float, Floats]:
    """An estimator and its gradient at the means (w, w r, m, w e)."""
    w, wr, m, we = (float(part) for part in z)
    if method == "ips":
        return wr, np.array([0.0, 1.0, 0.0, 0.0])
    if method == "snips":
        return wr / w, np.array([-wr / w**2, 1.0 / w, 0.0, 0.0])
    return m + we, np.array([0.0, 0.0, 1.0, 1.0])
