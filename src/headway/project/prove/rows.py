"""The rows that may speak: from columns of decisions to the arrays that evidence is made of.

Both policies are asked again, as whole pipelines, about every row: what is proven is what would be served. The one
exception is a policy that learns online: on its own decisions it counts with the probabilities of that time. Which rows
may speak is in `unread`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headway.decide import Pipeline
from headway.nouns import Candidate, Floats, Settled
from headway.observe import latest_draws
from headway.project.prove.unread import MINED, UNKNOWN
from headway.prove import DrawnPolicy, Log, chunk, put
from headway.reward import reward_without

if TYPE_CHECKING:
    from headway.encode import Features
    from headway.nouns import Encoder
    from headway.observe import DrawnRows, TaskFrame
    from headway.project.project.folder import Opened
    from headway.project.prove.actions_today import ActionsToday
    from headway.project.prove.checks import RowChecks
    from headway.project.prove.episodes import PolicyDraws
    from headway.project.prove.unread import Unread
    from headway.reward import Rewards


def newest_rows(project: Opened, task: str, most: int, left: Counter[str]) -> Iterator[Settled]:
    """The newest draws of a task that evidence can rest on, with their signals, oldest first; `left` counts others."""
    latest = latest_draws(project.database, project.query, task, most)
    for row in project.query.outcomes(latest, signals=True):
        if row.decision.source == "mined":
            left[MINED] += 1
        elif not row.decision.propensity_known:
            left[UNKNOWN] += 1
        else:
            yield row


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRows:
    """Two policies and everything that their rows are read with; columns are in the order of `arms`.

    `rewards` says what a decision that several rated comes to without one of them; `unread`, what a policy that learns
    online did at the time of the decision. `at_random`: a missing outcome is left out instead of counting at its worst.
    """

    project: Opened
    frame: TaskFrame
    arms: Sequence[str]
    target: Pipeline | DrawnPolicy
    baseline: Pipeline | DrawnPolicy
    features: Features | None = None  # of the reward model
    encoder: Encoder | None = None
    guards: Sequence[str] = ()
    rewards: Rewards
    unread: Unread | None = None
    today: ActionsToday | PolicyDraws
    at_random: bool = False
    checks: RowChecks | None = None

    def chunk(self, drawn: DrawnRows, first_row: int) -> Log:
        """A `Log` chunk with both policies' probabilities."""
        offered = {number: self.today.offered(candidates) for number, candidates in drawn.sets.items()}
        values = self.project.query.values(drawn.raw) if self.guards else {}
        columns: dict[str, Any] = {}
        if self.features is not None:
            columns["features"] = self.features.vectors(drawn.situations, self.encoder)
        if self.checks is not None and self.features is not None:
            columns["decided_at"], columns["settled_at"] = self.checks.times(drawn)
            columns["origin"] = self.checks.origin(drawn, self.features)
            by_step = isinstance(self.target, Pipeline)  # else the actions are policies, which nobody can be asked for
            columns["replayed"] = self.checks.replays.probabilities(drawn) if by_step else [None] * len(drawn)
        return chunk(
            drawn,
            offered,
            self._asked(drawn, offered),
            arms=self.arms,
            guards={name: [values.get(raw, {}).get(name) for raw in drawn.raw] for name in self.guards},
            at_random=self.at_random,
            without=self._without,
            first_row=first_row,
            **columns,
        )

    def _without(self, seqs: Sequence[int]) -> Iterator[tuple[int, dict[str, float]]]:
        """By decision that several rated: its reward without each of them."""
        for row in self.project.query.outcomes(seqs, raters=self.rewards.counting or True):
            yield row.decision.seq, {name: reward_without(row, name, self.rewards) for name in row.said}

    def _asked(self, drawn: DrawnRows, offered: Mapping[int, tuple[Candidate, ...]]) -> list[Floats]:
        """Both policies' probabilities of these candidates, [row, candidate]."""
        numbers = drawn.rows.candidates.tolist()
        sets = offered[numbers[0]] if len(offered) == 1 else [offered[number] for number in numbers]
        asked = [one.distributions(drawn.situations, sets, drawn.seeds) for one in (self.target, self.baseline)]
        if self.unread is not None:
            for chances, stood in zip(asked, self.unread.both_stood(self.frame, drawn), strict=True):
                put(chances, stood)
        return asked
