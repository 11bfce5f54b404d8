"""GET /v1/local_models: the models on this machine."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from headway.serve import Call, endpoint


class LocalModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model in the cache; `problem` is empty if it is intact."""

    name: str
    kind: str  # language or text
    bytes: int
    source: dict[str, str]
    added: str
    problem: str


class KnownModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that can be fetched by its name."""

    name: str
    about: str
    licence: str


class LocalModelsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    cache: str
    models: list[LocalModel]
    not_here: list[KnownModel]


@endpoint("GET", "/v1/local_models", gives=LocalModelsAnswer, scope="train")
def local_models(call: Call) -> LocalModelsAnswer:
    """The models on this machine, and known ones that are not here."""
    from headway.kits.models.catalog import KNOWN
    from headway.kits.models.store import check, installed

    cache = call.server.project.settings.cache
    models = installed(cache)
    return LocalModelsAnswer(
        cache=str(cache),
        models=msgspec.convert(
            [replace(model, problem=check(model, cache) or "") for model in models],
            list[LocalModel],
            from_attributes=True,
        ),
        not_here=[
            msgspec.convert(recipe, KnownModel, from_attributes=True)
            for recipe in KNOWN.values()
            if recipe.name not in {model.name for model in models}
        ],
    )
