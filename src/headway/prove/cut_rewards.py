"""Rewards that lay outside of the task's range and were cut to it: whom the cuts help, and by how much.

A reward that is cut from above on an action to which the candidate gives more probability than the current policy
makes the candidate look worse than it is, and so does one that is cut from below on an action to which it gives less.
Such cuts are allowed in a pass: what is proven holds all the more without them. Any other cut flatters the candidate,
and nothing bounds how much it hides: one disaster of −100 outweighs thousands of small gains. So a single one blocks a
pass, unless the task declares that the mean of the cut reward is what counts. Rollbacks are judged the other way round,
and tolerate small ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

import numpy as np

from headway.nouns.evidence import CLIPPING, CLIPPING_AGAINST, Diagnostic
from headway.prove.log import Log, RowOrigin

__all__ = ["CutRewards"]

MOST_AGAINST = 0.005  # of the range: what cuts may take from the candidate per decision before nothing shows it worse


class CutRewards:
    """Running sums of one log."""

    def __init__(self, arms: int) -> None:
        self.known = False  # whether the log says which rewards were cut
        self.rows = self.rewarded = 0
        self.cut = np.zeros((arms, 2))  # rewards of the log that were cut from below and from above
        self.favour = self.against = 0  # cut rewards that flatter the candidate, and that hurt it
        self.gain = np.zeros(arms)  # Σ π − b: the probability that the candidate adds to each action
        self.hidden = 0.0  # Σ of what the candidate would gain if the cuts that hurt it counted in full
        self.low, self.high = inf, -inf  # of the rewards as they count
        self.lost = np.zeros(2)  # Σ of what lies beyond the range, for the candidate and for the current policy
        self.stored: Mapping[str, tuple[int, int]] = {}

    def add(self, piece: Log, origin: RowOrigin) -> None:
        if origin.beyond is None:
            return
        self.known, self.stored = True, origin.stored_cuts
        self.rows += len(piece)
        self.rewarded += int((~np.isnan(piece.reward)).sum())
        self.gain += (piece.target - piece.baseline).sum(axis=0)
        places = np.flatnonzero(origin.beyond)  # cut whether or not the reward counts in this test
        if not places.size:
            return
        action, beyond = piece.action[places], origin.beyond[places]
        np.add.at(self.cut, (action, (beyond > 0.0).astype(np.int64)), 1.0)
        over = beyond / piece.logged[places, action]
        parts = over * piece.target[places, action], over * piece.baseline[places, action]
        self.lost += [float(part.sum()) for part in parts]
        hidden = parts[0] - parts[1]  # what the candidate would gain if the reward counted in full
        self.favour += int((hidden < 0.0).sum())
        self.against += int((hidden > 0.0).sum())
        self.hidden += float(hidden[hidden > 0.0].sum())
        seen = piece.reward[~np.isnan(piece.reward)]
        self.low, self.high = float(seen.min(initial=self.low)), float(seen.max(initial=self.high))

    def diagnostics(self, arms: tuple[str, ...], *, capped: bool) -> list[Diagnostic]:
        """Two checks, of a pass and of "worse"; none if the log does not say what was cut."""
        if not self.known:
            return []
        favour = self.favour + self._elsewhere(arms)
        width = self.high - self.low
        share = self.hidden / max(1, self.rows) / width if 0.0 < width < inf else float(self.hidden > 0.0)
        total, (ours, theirs) = self.cut.sum(), self.lost / max(1, self.rows)
        message = "no reward lies outside of the range"
        if total:
            most = arms[int(self.cut.sum(axis=1).argmax())]
            message = (
                f"{total:,.0f} of {self.rewarded:,} rewards lie outside of the range and are cut, most of them after "
                f"{most!r}, which changes the value of the candidate by {-ours:+.3g} per decision and that of the "
                f"current policy by {-theirs:+.3g}"
            )
        flattered = favour > 0 and not capped
        return [
            Diagnostic(
                name=CLIPPING,
                value=float(favour),
                limit=float(favour) if capped else 0.0,
                ok=not flattered,
                blocks=True,
                message=f"Cannot tell: {message}; {favour:,} cuts flatter the candidate" if flattered else message,
                cure="Widen `range` in the task's settings until it holds every reward." if flattered else "",
            ),
            Diagnostic(
                name=CLIPPING_AGAINST,
                value=share,
                limit=MOST_AGAINST,
                ok=capped or share <= MOST_AGAINST,
                blocks=False,
                message=f"{self.against:,} cuts speak against the candidate" if total else message,
            ),
        ]

    def _elsewhere(self, arms: tuple[str, ...]) -> int:
        """Cut rewards of decisions that are no rows of this log, where the cut flatters what the candidate prefers."""
        flattering = 0
        for place, arm in enumerate(arms):
            side = 0 if self.gain[place] > 0.0 else 1
            if self.gain[place]:
                flattering += max(0, self.stored.get(arm, (0, 0))[side] - int(self.cut[place, side]))
        return flattering
