"""How a log came about: whether its probabilities, clocks and rewards can be what they claim to be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headway.nouns.evidence import Diagnostic
from headway.prove.calibration import Calibration, Misfit, Repetition
from headway.prove.carry_over import CarryOver
from headway.prove.cut_rewards import CutRewards
from headway.prove.limits import at_most
from headway.prove.log import Log

__all__ = ["OriginChecks", "OriginLimits"]

SKEW_S = 0.5  # clocks of two machines may differ by this much
SAME = 1e-3  # largest difference between a stored and a repeated probability


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginLimits:
    """The most that a log may show of each fault."""

    sum_error: float = 1e-4
    mismatch: float = 0.001  # share of asked rows whose probabilities the recorded policy does not give again
    backwards: float = 0.001  # share of rows with an outcome dated before its decision


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

    def diagnostics(
        self, arms: tuple[str, ...], limits: OriginLimits | None = None, *, capped: bool = False
    ) -> list[Diagnostic]:
        limits = limits or OriginLimits()
        checks = [
            at_most(
                "propensity_sum",
                self.sum_error,
                limits.sum_error,
                "logged probabilities sum to 1"
                if self.sum_error <= limits.sum_error
                else f"logged probabilities miss a sum of 1 by up to {self.sum_error:.2g}",
                "Log the whole probability vector used to draw the action.",
            ),
            *self._draws(arms),
            *self._replays(limits),
        ]
        if self.timed:
            share = self.backwards / self.timed
            message = f"{self.backwards:,} of {self.timed:,} outcomes are dated before their decision"
            cure = "Correct the clocks, and delete or import again what was stored with the wrong time."
            checks.append(at_most("clock", share, limits.backwards, message, cure))
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
            at_most(name, misfit.value, misfit.limit, misfit.message, cure)
            for name, misfit, cure in tests
            if misfit is not None
        ]

    def _replays(self, limits: OriginLimits) -> list[Diagnostic]:
        """Whether the recorded policies give the logged probabilities again."""
        if not self.replayed:
            return []
        message = f"{self.mismatched:,} of {self.replayed:,} decisions asked again get other probabilities"
        cure = "The policy, its features or its configuration changed; `headway explain --replay` shows one."
        return [at_most("replay", self.mismatched / self.replayed, limits.mismatch, message, cure)]
