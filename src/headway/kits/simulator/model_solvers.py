"""Solvers that are language models: a local one, or an upstream of headway.toml.

    model_source(Path("."), "smollm2", problem)          # the source that the model wrote
    known_models(Path("."))                              # their names

The model gets the statement, the visible tests as examples, and the request to answer with one block of Python. It
answers greedily. Whatever is not Python fails the tests, like any wrong solution. A model that does not answer raises
`Unavailable`: that is an error, not a failed problem.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from headway.kits.models import Generator, Prompt, Turn
from headway.kits.sandbox import code_in
from headway.kits.simulator.problem import CodeProblem
from headway.nouns import errors
from headway.settings import Settings, load

MAX_TOKENS = 320
_EXAMPLES = 3


def prompt_of(problem: CodeProblem, statement: str = "") -> str:
    """What a model is asked; `statement`: the problem's own, or what mutations made of it."""
    examples = [
        f"{problem.entry}({', '.join(json.dumps(value) for value in case.args)}) returns {json.dumps(case.returns)}"
        for case in problem.visible[:_EXAMPLES]
    ]
    shown = "\n".join(["", "Examples:", *examples]) if examples else ""
    return f"{statement or problem.statement}\n{shown}\n\nAnswer with the whole function in one Python code block."


def known_models(folder: Path) -> tuple[str, ...]:
    """The upstreams of the settings in a folder, and the local models, there or not."""
    from headway.kits.models import KNOWN, installed

    settings = load(folder)
    local = [model.name for model in installed(settings.cache)]
    return tuple(dict.fromkeys([*settings.upstreams, *local, *(name for name in KNOWN if name != "minilm")]))


def check_model(folder: Path, name: str) -> None:
    """Raise `model_missing` if a local model is not here; upstreams are asked later."""
    from headway.kits.models import folder as model_folder

    settings = load(folder)
    if name not in settings.upstreams:
        model_folder(name, settings.cache)


def model_source(folder: Path, name: str, problem: CodeProblem) -> str:
    """The source that a model writes for a problem."""
    asked = Prompt(turns=(Turn("user", prompt_of(problem)),), temperature=0.0, max_tokens=MAX_TOKENS)
    try:
        reply = _generator(folder.resolve(), name).generate([asked])[0]
    except errors.HeadwayError as error:
        raise errors.Unavailable(f"{name}: {error.message}", code=error.code, hint=error.hint) from error
    return code_in(reply.text)


@cache
def _generator(folder: Path, name: str) -> Generator:
    """The model, loaded once for each process; it ends with the process."""
    settings: Settings = load(folder)
    if name not in settings.upstreams:
        from headway.kits.reply import local

        return local(folder, name)
    from headway.kits.models import ChatEndpoint

    upstream = settings.upstreams[name]
    key = settings.key(upstream.key_env) if upstream.key_env else ""
    return ChatEndpoint(
        name, upstream.url, upstream.model, key=key, timeout_s=upstream.timeout_s, max_tokens=upstream.max_tokens
    )
