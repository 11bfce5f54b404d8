"""The rows that may speak: from settled decisions to the arrays that evidence is made of.

Both policies are asked again, as whole pipelines, about every row: what is proven is what would be served. The one
exception is a policy that learns online: on its own decisions it counts with the probabilities of that time. Which rows
may speak is in `unread`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from headway.decide import Pipeline
from headway.nouns import Candidate, Decision, Floats, Settled
from headway.prove import CheckColumns, DrawnPolicy, Log, chunk, put
from headway.reward import reward_without

if TYPE_CHECKING:
    from headway.encode import Features
    from headway.nouns import Encoder
    from headway.project.prove.actions_today import ActionsToday
    from headway.project.prove.checks import RowChecks
    from headway.project.prove.episodes import PolicyDraws
    from headway.project.prove.unread import Unread
    from headway.reward import Rewards


_CHUNK = 2000


def speaking(rows: Iterable[Settled], left: Counter[str], today: ActionsToday | None = None) -> Iterator[Settled]:
    """Rows that evidence can rest on, also about the actions of `today`; `left` counts the others by what they lack."""
    for row in rows:
        lacking = today.lacking(row.decision) if today is not None else ""
        if lacking:
            left[lacking] += 1
        elif row.decision.source == "mined":
            left["with a mined label"] += 1
        elif not row.decision.propensity_known:
            left["with unknown propensity"] += 1
        else:
            yield row


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRows:
    """Two policies and everything that their rows are read with; columns are in the order of `arms`.

    `rewards` says what a decision that several rated comes to without one of them; `unread`, what a policy that learns
    online did at the time of the decision. `at_random`: a missing outcome is left out instead of counting at its worst.
    """

    arms: Sequence[str]
    target: Pipeline | DrawnPolicy
    baseline: Pipeline | DrawnPolicy
    features: Features
    encoder: Encoder | None
    guards: Sequence[str] = ()
    rewards: Rewards | None = None
    unread: Unread | None = None
    today: ActionsToday | PolicyDraws
    at_random: bool = False
    checks: RowChecks | None = None

    def chunks(self, rows: Iterable[Settled]) -> Iterator[Log]:
        """`Log` chunks with both policies' probabilities."""
        stream = iter(rows)
        first = 0
        while batch := list(islice(stream, _CHUNK)):
            yield self._chunk(batch, first)
            first += len(batch)

    def _chunk(self, batch: Sequence[Settled], first_row: int) -> Log:
        decisions = [row.decision for row in batch]
        offered = [self.today.of(decision) for decision in decisions]
        candidate, other = self._distributions(decisions, offered)
        return chunk(
            batch,
            arms=self.arms,
            offered=offered,
            candidate=candidate,
            other=other,
            features=self.features.vectors([decision.situation for decision in decisions], self.encoder),
            guards=self.guards,
            at_random=self.at_random,
            without=None if self.rewards is None else partial(reward_without, rewards=self.rewards),
            first_row=first_row,
            checked=None if self.checks is None else self._checked(self.checks, batch),
        )

    def _checked(self, checks: RowChecks, batch: Sequence[Settled]) -> CheckColumns:
        decisions = [row.decision for row in batch]
        decided_at, settled_at = checks.times(decisions)
        by_step = isinstance(self.target, Pipeline)  # otherwise the actions are policies, which nobody can be asked for
        return CheckColumns(
            origin=checks.origin(batch, self.features),
            replayed=checks.replays.probabilities(decisions) if by_step else [None] * len(batch),
            decided_at=decided_at,
            settled_at=settled_at,
        )

    def _distributions(
        self, decisions: Sequence[Decision], sets: Sequence[Sequence[Candidate]]
    ) -> tuple[Floats, Floats]:
        """Both policies' probabilities of these candidates, [row, candidate]."""
        situations = [decision.situation for decision in decisions]
        seeds = [decision.seed for decision in decisions]
        candidate = self.target.distributions(situations, sets, seeds)
        other = self.baseline.distributions(situations, sets, seeds)
        if self.unread is not None:
            put(candidate, self.unread.candidate_stood(decisions))
            put(other, self.unread.other_stood(decisions))
        return candidate, other
