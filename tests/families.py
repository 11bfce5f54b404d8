"""Policies and learners by the name of their family, for tests."""

from __future__ import annotations

from headway.nouns.kit import catalogue

__all__ = ["build", "encoder", "learner", "online_learner"]

_KNOWN = catalogue()
build, learner, online_learner = _KNOWN.build, _KNOWN.learner, _KNOWN.online_learner


def encoder(spec="hashing", **settings):
    """The encoder that a project with the built-in kits would use."""
    from headway.encode import encoder as make

    return make(spec, find=_KNOWN.encoder, **settings)
