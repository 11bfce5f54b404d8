"""Evidence by episode: each row is an episode, with the policy that was drawn for it as its action.

In a task with `unit = "episode"`, an experiment or a canary draws the policy with the first decision of an episode, and
the episode keeps to it (`decide/units`). The propensity of a row is the share of its policy, and its reward is the
episode's, however long it became and whatever was chosen in it: there are no products of weights over steps. A decision
without an episode is an episode of one step.

What the log says about single steps is no evidence here: another policy would have led to other steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headway.decide import explore, uniform
from headway.nouns import Candidate, Decision, Diagnostic, Settled
from headway.observe import dumps, loads, rated_as_a_whole
from headway.project.decide.serving import by_episode

if TYPE_CHECKING:
    from headway.project.project.folder import Opened
    from headway.settings import TaskSettings

UNDRAWN = "without a draw between the two policies"
BY_STEP = "episode_steps"  # the check of evidence by step
_MOST_STEPS = 0.01  # of the rows; below it, their worst value is all that they can do


class PolicyDraws:
    """The episodes of a task as draws between a candidate and the policy that it is compared with."""

    def __init__(
        self, project: Opened, settings: TaskSettings, candidate: tuple[str, str], other: tuple[str, str]
    ) -> None:
        self._project, self._candidate, self._other = project, candidate, other
        self._present = dumps(project.servings.body(settings))
        self._shares: dict[str, float | None] = {}  # of the candidate, by configuration
        self._planned = settings.most_share
        self.arms = (f"episodes of {candidate[0]}", f"episodes of {other[0]}")
        self._offered = tuple(map(Candidate, self.arms))

    def rows(self, rows: Iterable[Settled], left: Counter[str]) -> Iterator[Settled]:
        """The episodes that were drawn between the two policies; `left` counts the others."""
        for row in rows:
            share = self._share(row.decision)
            if share is None:
                left[UNDRAWN] += 1
            else:
                yield self._row(row, share, row.decision.assigned == self._candidate[0])

    def planned(self, rows: Iterable[Settled]) -> Iterator[Settled]:
        """Any episodes as if the policy had been drawn for them, by a coin that says nothing: to plan from only."""
        for row in rows:
            yield self._row(row, self._planned, uniform(explore.splitmix64(row.decision.seq)) < self._planned)

    def of(self, decision: Decision) -> tuple[Candidate, ...]:
        """What can be chosen in a row: the policies. See `ActionsToday`."""
        return decision.candidates

    def _row(self, row: Settled, share: float, candidate: bool) -> Settled:
        drawn = replace(
            row.decision,
            candidates=self._offered,
            probabilities=(share, 1.0 - share),
            action=self.arms[not candidate],
            propensity=share if candidate else 1.0 - share,
        )
        return replace(row, decision=drawn)

    def _share(self, decision: Decision) -> float | None:
        """The probability that the candidate was drawn; None if it could not be, or other settings decided."""
        if decision.claimed or decision.policy_hash != self._other[1]:
            return None
        known = decision.config_hash
        if known not in self._shares:
            self._shares[known] = self._share_under(loads(self._project.query.config(known)))
        return self._shares[known]

    def _share_under(self, body: dict[str, Any]) -> float | None:
        whole = by_episode(body)
        if whole is None or whole["hash"] != self._candidate[1]:
            return None
        usual = {name: value for name, value in body.items() if name not in ("canary", "alarm")}
        return float(whole["share"]) if dumps(usual) == self._present else None


def was_drawn(project: Opened, task: str, candidate_hash: str) -> bool:
    """Whether a candidate was ever given a share of the episodes."""
    entries = project.ledger.entries(task, "canary", "experiment")
    return any(entry.policy_hash == candidate_hash and entry.share > 0.0 for entry in entries)


def unit_sentences(project: Opened, task: str) -> list[str]:
    """What status and doctor say where results belong to episodes and the settings do not; empty otherwise."""
    settings = project.settings.task(task)
    if settings.unit != "decision" or settings.sticky or settings.kind != "choice":
        return []
    counting = project.rewards(task).counting
    if not rated_as_a_whole(project.database, project.query, task, counting):
        return []
    ask = f'Results of {task!r} arrive on whole episodes: set unit = "episode" for the task, so that experiments draw '
    return [ask + "the policy per episode, and counts, proofs and alarms are by episode."]


def by_step(task: str, candidate: str, steps: int, rows: int) -> Diagnostic:
    """The check that refuses steps of episodes as evidence about a policy."""
    return Diagnostic.at_most(
        BY_STEP,
        steps / max(rows, 1),
        _MOST_STEPS,
        f"Cannot tell: {steps:,} of {rows:,} rows are episodes, and the log knows only single steps of {candidate}, "
        "which would have led to other steps",
        f"Draw the policy per episode: headway experiment start {task} --policy {candidate}",
    )
