"""Evidence by episode: each row is an episode, with the policy that was drawn for it as its action.

In a task with `unit = "episode"`, an experiment or a canary draws the policy with the first decision of an episode, and
the episode keeps to it (`decide/units`). The propensity of a row is the share of its policy, and its reward is the
episode's, however long it became and whatever was chosen in it: there are no products of weights over steps. A decision
without an episode is an episode of one step.

What the log says about single steps is no evidence here: another policy would have led to other steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headway.decide import explore, uniform
from headway.nouns import Candidate, Diagnostic
from headway.observe import dumps, loads, rated_as_a_whole
from headway.project.decide.serving import by_episode

if TYPE_CHECKING:
    from headway.observe import Block, DrawnRows, Flags, TaskFrame
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
        self._shares: dict[str, float | None] = {}  # of the candidate, by the hash of a configuration
        self._planned = settings.most_share
        self.arms = (f"episodes of {candidate[0]}", f"episodes of {other[0]}")
        self._offered = tuple(map(Candidate, self.arms))

    def drawn_between(self, frame: TaskFrame, rows: Block) -> Flags:
        """Which episodes were drawn between the two policies, under the settings of now."""
        others = frame.made_by(rows, (self._other[1],)) & ~frame.claimed(rows)
        return frame.under(rows, others, lambda config: self._share(config) is not None)

    def choices(self, frame: TaskFrame, drawn: DrawnRows) -> DrawnRows:
        """Episodes that were drawn between the two policies, as choices of a policy."""
        shares = [self._share(frame.config(number)) or 0.0 for number in drawn.rows.config.tolist()]
        return drawn.as_choices(self._offered, shares, [name == self._candidate[0] for name in drawn.assigned])

    def planned(self, drawn: DrawnRows) -> DrawnRows:
        """Any episodes as if the policy had been drawn for them, by a coin that says nothing: to plan from only."""
        coins = [uniform(explore.splitmix64(seq)) < self._planned for seq in drawn.rows.seq.tolist()]
        return drawn.as_choices(self._offered, [self._planned] * len(drawn), coins)

    def offered(self, candidates: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
        """What can be chosen in a row: the policies. See `ActionsToday`."""
        return candidates

    def _share(self, known: str) -> float | None:
        """The probability that the candidate was drawn under a configuration, by its hash; None if it could not be."""
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
    query = project.query
    counted = [query.name_id("signal", name) for name in project.rewards(task).counting]
    if not rated_as_a_whole(project.database, query.name_id("task", task), counted):
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
