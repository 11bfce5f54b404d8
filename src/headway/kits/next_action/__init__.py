"""next_action — which action next: predicts the reward of actions described in words, and improves code with it.

improve/    `headway improve`: propose, rank, apply, evaluate, keep or revert, record

Takes: states of a project, described actions and what they came to; proposals.   Gives: the family ranker, the world
projects; a branch with verified improvements.
Never: promotes a model that a simple one explains as well; runs a proposal outside the sandbox, or changes files of a
repository outside its own worktree.
May import: cli, serve, loop, project, settings, promote, learn, prove, decide, reward, observe, encode, client, files,
nouns.
"""

from typing import TYPE_CHECKING

from headway.nouns import Command, Family, Kind, Kit, door

if TYPE_CHECKING:
    from headway.kits.next_action.ranking import Ranked as Ranked, asked_about as asked_about, rank as rank
else:
    __all__, __getattr__ = door(__name__)

KIT = Kit(
    name="next_action",
    summary="Which action next: the family ranker for actions in words, and the loop that improves a repository.",
    needs=("sandbox", "data", "reply"),
    kinds={
        "ranking": Kind(
            summary="Order actions that are described in words.",
            keys=("actions", "explore", "floor", "confidence_floor"),
            families=("bandit",),
            knobs="headway.project.learn:choice_knobs",
            template={"task": "next-action", "reward": ("composite_delta=1.0",)},
            described=True,
            decides="headway data import BUFFER --task {task}",
        )
    },
    families={
        "ranker": Family(
            kinds=("ranking",),
            policy="headway.kits.next_action.policy:read",
            learner="headway.kits.next_action.learner:RankerLearner",
            knobs="headway.kits.next_action.shapes:RankerKnobs",
            default=True,
            interruptible=True,
        ),
    },
    options={"learn": "headway.kits.next_action.commands.learn:LEARN"},
    routes=("headway.kits.next_action.routes", "headway.kits.next_action.improve.routes"),
    samples={"projects": "headway.kits.next_action.world:projects"},
    commands={
        "score": Command(
            "headway.kits.next_action.commands.rank:score", "Predict the reward of one candidate; nothing is logged."
        ),
        "rank": Command(
            "headway.kits.next_action.commands.rank:rank", "Rank candidates by predicted reward; nothing is logged."
        ),
        "improve": Command(
            "headway.kits.next_action.commands.improve:improve",
            "Improve a repository: rank proposals, evaluate them, keep what is proven better.",
        ),
    },
    verbs={
        "rank": "headway.kits.next_action.ranking:rank",
        "latest_situation": "headway.kits.next_action.ranking:latest_situation",
    },
    calls={
        "rank": "headway.kits.next_action.calls:rank",
        "predictions": "headway.kits.next_action.calls:predictions",
        "improvers": "headway.kits.next_action.calls:improvers",
        "rounds": "headway.kits.next_action.calls:rounds",
    },
    tables={"improve.*": "headway.kits.next_action.improve.settings:ImproverSettings"},
    checks=("headway.kits.next_action.improve.doctor:check",),
    erases=("headway.kits.next_action.improve.journal:erase",),
)
