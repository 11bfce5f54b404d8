"""next_action — which action next: predicts the reward of actions that are described in words.

Takes: states of a project, described actions and what they came to.   Gives: the world projects.
Never: promotes a model that a simple one explains as well.
May import: cli, serve, loop, project, settings, promote, learn, prove, decide, reward, observe, encode, client, nouns.
"""

from headway.nouns.kit import Kit

KIT = Kit(
    name="next_action",
    summary="Which action next: a world of software projects whose true rewards are known.",
    samples={"projects": "headway.kits.next_action.world:projects"},
)
