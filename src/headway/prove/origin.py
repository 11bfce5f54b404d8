"""How a log came about: whether its probabilities, clocks and rewards can be what they claim to be."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, log

import numpy as np

from headway.nouns import CLIPPING, CLIPPING_AGAINST, Diagnostic
from headway.prove.calibration import FALSE_ALARM, PLACES, Calibration, Misfit, Repetition, exponent
from headway.prove.log import DELETED, Floats, Log, RowOrigin

MOST_AGAINST = 0.005  # of the range: what cuts may take from the candidate per decision before nothing shows it worse


class CutRewards:
    """Running sums of one log."""

    def __init__(self, arms: int) -> None:
        self.known = False  # whether the log says which rewards were cut
        self.rows = self.rewarded = 0
        self.cut = np.zeros((arms, 2))  # rewards of the log that were cut from below and from above
        self.favour = 0  # cut rewards that flatter the candidate
        self.moved = np.zeros((arms, 2))  # Σ of the probability that the candidate takes from each action, and adds
        self.hidden = 0.0  # Σ of what the candidate would gain if the cuts that hurt it counted in full
        self.over = np.zeros((arms, 2))  # Σ of what lies below and above the range
        self.low, self.high = inf, -inf  # of the rewards as they count
        self.lost = np.zeros(2)  # Σ of what lies beyond the range, for the candidate and for the current policy
        self.stored: Mapping[str, tuple[float, ...]] = {}

    def add(self, piece: Log, origin: RowOrigin) -> None:
        if origin.beyond is None:
            return
        self.known, self.stored = True, origin.stored_cuts
        self.rows += len(piece)
        gain = piece.target - piece.baseline
        self.moved += np.stack([np.maximum(-gain, 0.0).sum(axis=0), np.maximum(gain, 0.0).sum(axis=0)], axis=1)
        seen = piece.reward[~np.isnan(piece.reward)]
        self.low, self.high = float(seen.min(initial=self.low)), float(seen.max(initial=self.high))
        self.rewarded += len(seen)
        places = np.flatnonzero(origin.beyond)  # cut whether or not the reward counts in this test
        if not places.size:
            return
        action, beyond = piece.action[places], origin.beyond[places]
        side = (beyond > 0.0).astype(np.int64)
        np.add.at(self.cut, (action, side), 1.0)
        np.add.at(self.over, (action, side), np.abs(beyond))
        over = beyond / piece.logged[places, action]
        parts = over * piece.target[places, action], over * piece.baseline[places, action]
        self.lost += [float(part.sum()) for part in parts]
        hidden = parts[0] - parts[1]  # what the candidate would gain if the reward counted in full
        self.favour += int((hidden < 0.0).sum())
        self.hidden += float(hidden[hidden > 0.0].sum())

    def diagnostics(self, arms: tuple[str, ...], *, capped: bool) -> list[Diagnostic]:
        """Two checks, of a pass and of "worse"; none if the log does not say what was cut."""
        if not self.known:
            return []
        elsewhere, flattering, hiding = self._elsewhere(arms)
        favour, hidden = self.favour + flattering, 0.0 if capped else self.hidden / max(1, self.rows) + hiding
        limit = MOST_AGAINST * (self.high - self.low) if self.low < self.high else 0.0
        total, (ours, theirs) = self.cut.sum(), self.lost / max(1, self.rows)
        message = "no reward lies outside of the range"
        if total:
            most = arms[int(self.cut.sum(axis=1).argmax())]
            message = (
                f"{total:,.0f} of {self.rewarded:,} rewards lie outside of the range and are cut, most of them after "
                f"{most!r}, which changes the value of the candidate by {-ours:+.3g} per decision and that of the "
                f"current policy by {-theirs:+.3g}"
            )
        if elsewhere:
            message = f"{message}; " if total else "rewards outside of the range "
            message += f"in decisions that are no evidence: {elsewhere:,}"
        cure = "Widen `range` in the task's settings until it holds every reward."
        flattered = favour > 0 and not capped
        return [
            Diagnostic(
                name=CLIPPING,
                value=float(favour),
                limit=float(favour) if capped else 0.0,
                ok=not flattered,
                blocks=True,
                message=f"Cannot tell: {message}; of these, {favour:,} may flatter the candidate"
                if flattered
                else message,
                cure=cure if flattered else "",
            ),
            Diagnostic(
                name=CLIPPING_AGAINST,
                value=hidden,
                limit=limit,
                ok=hidden <= limit,
                blocks=False,
                message=f"{message}; in full, they may make it {hidden:.3g} better per decision" if hidden else message,
                cure=cure if hidden else "",
            ),
        ]

    def _elsewhere(self, arms: tuple[str, ...]) -> tuple[int, int, float]:
        """Of decisions that are no rows of this log: how many rewards were cut, how many of these may flatter the
        candidate, and how much better it may be per decision than the cut ones show.

        How the policies choose there is not known. A candidate that adds to an action in some rows and takes from it
        in others may be flattered and hurt by every cut of it.
        """
        cuts, flattering, hiding = 0, 0, 0.0
        moved = self.moved / max(1, self.rows)
        for place, arm in enumerate(arms):
            rewarded, *stored = self.stored.get(arm, (0.0, 0.0, 0.0, 0.0, 0.0))
            counts, over = np.array(stored[:2]) - self.cut[place], np.array(stored[2:]) - self.over[place]
            for side in np.flatnonzero(counts > 0.0).tolist():
                cuts += int(counts[side])
                flattering += int(counts[side]) if moved[place, 1 - side] > SAME else 0
                hiding += float(moved[place, side] * over[side]) / rewarded
        return cuts, flattering, hiding


_ALL = ""  # the name of the grouping that has every decision in one group


class CarryOver:
    """Running sums of one log; pieces come in the order of the decisions."""

    def __init__(self, arms: int) -> None:
        self._arms = arms
        self._rewards, self._counts = np.zeros(arms), np.zeros(arms)
        self._last: Floats = np.zeros((2, 1, arms))  # of the last decision: its draw less its probabilities, variances
        self._sums: dict[str, Floats] = {}  # grouping → [total and variance, arm]
        self._largest = 0.0

    def add(self, piece: Log) -> None:
        """Add rows."""
        seen = ~np.isnan(piece.reward)
        means = self._rewards / np.maximum(self._counts, 1.0)
        residual = np.where(seen & (self._counts[piece.action] > 0), piece.reward - means[piece.action], 0.0)
        draws = np.stack([-piece.logged, piece.logged * (1.0 - piece.logged)])  # [2, n, arm]
        draws[0, np.arange(len(piece)), piece.action] += 1.0
        if piece.origin is not None and piece.origin.chosen_only is not None:
            draws[:, piece.origin.chosen_only] = 0.0  # the other probabilities are unknown
        draws[:, piece.status == DELETED] = 0.0
        self._largest = max(self._largest, float(np.abs(residual).max(initial=0.0)))
        self._add(_ALL, np.concatenate([self._last, draws[:, :-1]], axis=1), residual)
        self._last = draws[:, -1:]
        for name, codes in ({} if piece.origin is None else piece.origin.groups).items():
            codes = codes % PLACES  # as in the check of repetition, so that a packed log gives the same sums
            order = np.argsort(codes, kind="stable")
            again = np.flatnonzero(codes[order][1:] == codes[order][:-1])
            self._add(name, draws[:, order[again]], residual[order[again + 1]])
        self._rewards += np.bincount(piece.action[seen], weights=piece.reward[seen], minlength=self._arms)
        self._counts += np.bincount(piece.action[seen], minlength=self._arms)

    def _add(self, name: str, before: Floats, residual: Floats) -> None:
        """Add pairs of a draw [2, n, arm] and the outcome that follows it."""
        sums = self._sums.setdefault(name, np.zeros((2, self._arms)))
        sums[0] += residual @ before[0]
        sums[1] += (residual * residual) @ before[1]

    def worst(self, arms: tuple[str, ...]) -> Misfit | None:
        """The grouping and the action with the clearest effect; None if nothing can be tested."""
        tested = {name: sums for name, sums in self._sums.items() if sums[1].any()}
        if not tested or self._largest == 0.0:
            return None
        limit = log(2.0 * self._arms * len(tested) / FALSE_ALARM)
        surprise = {name: exponent(sums[0], sums[1], self._largest) for name, sums in tested.items()}
        name = max(surprise, key=lambda name: float(surprise[name].max()))
        arm = int(surprise[name].argmax())
        value = float(surprise[name][arm])
        if value <= limit:
            return Misfit(value=value, limit=limit, message="outcomes do not depend on the decision before")
        effect = tested[name][0, arm]
        whose = f"of the same {name} " if name else ""
        message = (
            f"Cannot tell: outcomes are {'higher' if effect > 0.0 else 'lower'} where the decision {whose}before took "
            f"{arms[arm]!r}, so the decisions cannot be judged one by one"
        )
        return Misfit(value=value, limit=limit, message=message)


SKEW_S = 0.5  # clocks of two machines may differ by this much
SAME = 1e-3  # largest difference between a stored and a repeated probability


MOST_SUM_ERROR = 1e-4
MOST_MISMATCH = 0.001  # share of asked rows whose probabilities the recorded policy does not give again
MOST_BACKWARDS = 0.001  # share of rows with an outcome dated before its decision


class OriginChecks:
    """Running sums of one log."""

    def __init__(self, arms: int, width: int) -> None:
        self.calibration = Calibration(arms, width)
        self.repetition = Repetition()
        self.carry_over = CarryOver(arms)
        self.columns: tuple[str, ...] = ()
        self.rows = 0
        self.sum_error = 0.0
        self.replayed = self.mismatched = 0
        self.timed = self.backwards = 0
        self.cuts = CutRewards(arms)

    def add(self, piece: Log) -> None:
        self.rows += len(piece)
        self.sum_error = max(self.sum_error, float(np.abs(piece.logged.sum(axis=1) - 1.0).max()))
        self.calibration.add(piece)
        self.repetition.add(piece)
        self.carry_over.add(piece)
        if piece.replayed is not None:
            asked = ~np.isnan(piece.replayed).any(axis=1)
            self.replayed += int(asked.sum())
            gap = np.abs(piece.replayed[asked] - piece.logged[asked]).max(axis=1, initial=0.0)
            self.mismatched += int((gap > SAME).sum())
        if piece.decided_at is not None and piece.settled_at is not None:
            known = ~np.isnan(piece.settled_at)
            self.timed += int(known.sum())
            self.backwards += int((piece.settled_at[known] < piece.decided_at[known] - SKEW_S).sum())
        if piece.origin is not None:
            self.columns = piece.origin.columns
            self.cuts.add(piece, piece.origin)

    def diagnostics(self, arms: tuple[str, ...], *, capped: bool = False) -> list[Diagnostic]:
        checks = [
            Diagnostic.at_most(
                "propensity_sum",
                self.sum_error,
                MOST_SUM_ERROR,
                "logged probabilities sum to 1"
                if self.sum_error <= MOST_SUM_ERROR
                else f"logged probabilities miss a sum of 1 by up to {self.sum_error:.2g}",
                "Log the whole probability vector used to draw the action.",
            ),
            *self._draws(arms),
            *self._replays(),
        ]
        if self.timed:
            share = self.backwards / self.timed
            message = f"{self.backwards:,} of {self.timed:,} outcomes are dated before their decision"
            cure = "Correct the clocks, and delete or import again what was stored with the wrong time."
            checks.append(Diagnostic.at_most("clock", share, MOST_BACKWARDS, message, cure))
        return [*checks, *self.cuts.diagnostics(arms, capped=capped)]

    def _draws(self, arms: tuple[str, ...]) -> list[Diagnostic]:
        """Whether the actions were drawn with the logged probabilities, each by itself."""
        wrong = "The logged probabilities are not those that the actions were drawn with: no proof is possible."
        twice = (
            "Every decision must be drawn by itself with the logged probabilities. If one draw holds for a user or an "
            "episode, record it once, or let Headway keep to it (`sticky`)."
        )
        next_one = (
            "Keep one action for a whole conversation or stretch of time (`sticky`), so that what is compared includes "
            "the effect. A test by decision is valid where a decision does not change the next one's outcome."
        )
        tests: list[tuple[str, Misfit | None, str]] = [
            ("calibration", self.calibration.worst(arms, self.columns), wrong),
            ("repetition", self.repetition.worst(), twice),
            ("carry_over", self.carry_over.worst(arms), next_one),
        ]
        return [
            Diagnostic.at_most(name, misfit.value, misfit.limit, misfit.message, cure)
            for name, misfit, cure in tests
            if misfit is not None
        ]

    def _replays(self) -> list[Diagnostic]:
        """Whether the recorded policies give the logged probabilities again."""
        if not self.replayed:
            return []
        message = f"{self.mismatched:,} of {self.replayed:,} decisions asked again get other probabilities"
        cure = "The policy, its features or its configuration changed; `headway explain --replay` shows one."
        return [Diagnostic.at_most("replay", self.mismatched / self.replayed, MOST_MISMATCH, message, cure)]
