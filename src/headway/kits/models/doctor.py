"""The check of `headway doctor` for the models in the cache."""

from __future__ import annotations

from collections.abc import Iterator

from headway.kits.models.store import check as problem_of, installed
from headway.nouns import Finding
from headway.settings import Settings


def check(settings: Settings) -> Iterator[Finding]:
    """One finding per model: intact, or its problem."""
    for model in installed(settings.cache):
        problem = problem_of(model, settings.cache)
        yield Finding(
            name=f"model {model.name}",
            ok=not problem,
            found=problem or f"intact, {model.bytes / 1e6:,.0f} MB",
            cure=f"Rebuild it: headway models add {model.name}",
        )
