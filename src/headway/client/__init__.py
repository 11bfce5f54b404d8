"""client — talks to other processes: `Client` and `AsyncClient` to a Headway server, with the same verbs.
`process` starts, watches and ends processes on this machine: the loop, the workers of a server, a sandbox.

Takes: an address and a key where one is needed, or a command.   Gives: decisions, the server's errors, output.
Never: opens a project, loads numpy, sends anything twice that would count twice, leaves a process behind.
May import: nouns.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway.client.answers import Decided, Event
    from headway.client.clients import AsyncClient, Client

__all__ = ["AsyncClient", "Client", "Decided", "Event"]

# Loaded on first use: a process that only starts others needs no HTTP client.
_HOMES = {"AsyncClient": "clients", "Client": "clients", "Decided": "answers", "Event": "answers"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"headway.client.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
