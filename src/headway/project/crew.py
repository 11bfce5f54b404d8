"""Crews by name: the workers that kits and commands give their shards to."""

from __future__ import annotations

from headway.nouns.kit import Catalogue, load
from headway.nouns.protocols import Crew

__all__ = ["crew_of"]


def crew_of(catalogue: Catalogue, workers: int, name: str = "processes") -> Crew:
    """A crew: `processes` of this machine, or one that a kit adds."""
    made: Crew = load(catalogue.look_up("crews", name, called="crew", code="unknown_crew"))(workers)
    return made
