"""What the loop itself brings, in the form of a passport, so that every name is looked up in one way."""

from __future__ import annotations

from headway.nouns.kit import Family, Kit

__all__ = ["CORE"]

CORE = Kit(
    name="core",
    summary="The loop itself: decide, signal, learn, prove, promote.",
    families={
        "bandit": Family(
            kinds=("choice", "ranking"),
            policy="headway.decide.bandit:read",
            learner="headway.learn.bandit:BanditLearner",
            online=True,
        ),
    },
    encoders={
        "hashing": "headway.encode.hashing:make",
        "structure": "headway.encode.structure:make",
    },
    formats={"headway": "headway.observe.ingest.headway_format:HEADWAY_FORMAT"},
)
