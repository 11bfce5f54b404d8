"""What `headway doctor` says of the models in the cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headway.kits.models.store import check as problem_of
from headway.kits.models.store import installed
from headway.nouns.finding import Finding

if TYPE_CHECKING:
    from headway.settings import Settings

__all__ = ["check"]


def check(settings: Settings) -> Iterator[Finding]:
    """Every model is whole, or what is wrong with it."""
    for model in installed(settings.cache):
        problem = problem_of(model, settings.cache)
        yield Finding(
            name=f"model {model.name}",
            ok=not problem,
            found=problem or f"whole, {model.bytes / 1e6:,.0f} MB",
            cure=f"Make it again: headway models add {model.name}",
        )
