"""What `headway doctor` checks of upstreams: keys that are not set, and actions that are no upstream."""

from __future__ import annotations

from collections.abc import Iterator

from headway.nouns import Finding, errors
from headway.settings import Settings


def check(settings: Settings) -> Iterator[Finding]:
    """The upstreams, and the tasks that choose between some of them."""
    for name, upstream in settings.upstreams.items():
        variable = upstream.key_env
        if variable and not settings.keys.get(variable):
            cure = f"Set the key, and start again: export {variable}=…"
            yield Finding(name=f"upstream {name}", ok=False, found=f"{variable} is not set: never called", cure=cure)
        else:
            priced = upstream.price_in or upstream.price_out
            cost = f"${upstream.price_in}/${upstream.price_out} per million tokens" if priced else "counted as free"
            yield Finding(name=f"upstream {name}", ok=True, found=f"{upstream.model} at {upstream.url}, {cost}")
    for task in settings.tasks.values():
        missing = [action for action in task.actions if action not in settings.upstreams]
        if missing and len(missing) < len(task.actions):
            names = ", ".join(repr(action) for action in missing)
            near = errors.did_you_mean(missing[0], settings.upstreams)
            yield Finding(
                name=f"actions of {task.name}",
                ok=False,
                found=f"no [upstreams.*] for {names}: the proxy never chooses it",
                cure=f"Declare [upstreams.{missing[0]}] with url and model in headway.toml. {near}".strip(),
            )
