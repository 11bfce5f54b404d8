"""next_action — which action next: predicts the reward of actions described in words, and improves code with it.

improve/    `headway improve`: propose, rank, apply, evaluate, keep or revert, record

Takes: states of a project, described actions and what they came to; proposals.   Gives: the world projects; a branch
with verified improvements.
Never: promotes a model that a simple one explains as well; runs a proposal outside the sandbox, or changes files of a
repository outside its own worktree.
May import: cli, serve, loop, project, settings, promote, learn, prove, decide, reward, observe, encode, client, nouns.
"""

from headway.nouns.kit import Command, Kit

KIT = Kit(
    name="next_action",
    summary="Which action next: a world of software projects, and the loop that improves a repository.",
    needs=("sandbox", "reply"),
    samples={"projects": "headway.kits.next_action.world:projects"},
    commands={
        "improve": Command(
            "headway.kits.next_action.commands.improve:improve",
            "Improve a repository: rank proposals, evaluate them, keep what is proven better.",
        ),
    },
    tables={"improve.*": "headway.kits.next_action.improve.settings:ImproverSettings"},
)
