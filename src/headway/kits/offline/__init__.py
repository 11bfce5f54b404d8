"""offline — learns from logged decisions alone: outcome models, cloning, conservative Q-learning.

Takes: logged decisions.   Gives: the families outcome, clone and cql; quality against cost; comparisons.
Never: assumes anything good of what was not tried.
May import: cli, serve, project, settings, promote, learn, prove, decide, reward, observe, encode, client, files, nouns.
"""

from typing import TYPE_CHECKING

from headway.nouns import Command, Family, Kit, door

if TYPE_CHECKING:
    from headway.kits.offline.packs import (
        manifest as manifest,
        plain as plain,
        played_summary as played_summary,
        write as write,
    )
else:
    __all__, __getattr__ = door(__name__)

KIT = Kit(
    name="offline",
    summary="Learn from logs: outcome, clone and cql; compare policies; quality against cost.",
    needs=("models", "sandbox", "data", "practice"),
    families={
        "outcome": Family(
            kinds=("choice",),
            policy="headway.kits.offline.outcome:read",
            learner="headway.kits.offline.outcome_learner:OutcomeLearner",
            knobs="headway.kits.offline.knobs:OutcomeKnobs",
        ),
        "clone": Family(
            kinds=("choice",),
            policy="headway.kits.offline.clone:read",
            learner="headway.kits.offline.clone_learner:CloneLearner",
            knobs="headway.kits.offline.knobs:CloneKnobs",
            resumable=True,
        ),
        "cql": Family(
            kinds=("choice",),
            policy="headway.kits.offline.cql:read",
            learner="headway.kits.offline.cql_learner:CQLLearner",
            knobs="headway.kits.offline.knobs:CQLKnobs",
            resumable=True,
        ),
    },
    routes=("headway.kits.offline.routes",),
    commands={
        "compare": Command(
            "headway.kits.offline.commands.compare:compare",
            "A policy beside the rules: what the log says and, with --tasks, what asking both says.",
        ),
        "verify": Command(
            "headway.kits.offline.commands.compare:verify",
            "Check a run pack: every byte by its hash, every number of its rows by computing it again.",
        ),
        "tradeoff": Command(
            "headway.kits.offline.commands.tradeoff:tradeoff",
            "What less quality would save: the curve from the best answer to the cheapest, on your own traffic.",
        ),
    },
)
