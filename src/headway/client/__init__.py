"""client — talks to other processes: `Client` and `AsyncClient` to a Headway server, with the same verbs.
`process` starts, watches and ends processes on this machine: the loop, the workers of a server, a sandbox.

Takes: an address and a key where one is needed, or a command.   Gives: decisions, the server's errors, output.
Never: opens a project, loads numpy, sends anything twice that would count twice, leaves a process behind.
May import: nouns.
"""

from typing import TYPE_CHECKING

from headway.nouns import door

if TYPE_CHECKING:
    from headway.client.answers import Decided as Decided, Event as Event, retry_after_s as retry_after_s
    from headway.client.calls import ServerCall as ServerCall
    from headway.client.children import ChildEvent as ChildEvent, Children as Children
    from headway.client.clients import AsyncClient as AsyncClient, Client as Client
    from headway.client.process import (
        Backoff as Backoff,
        Child as Child,
        ProgramOutput as ProgramOutput,
        exit_words as exit_words,
        run as run,
    )
else:
    __all__, __getattr__ = door(__name__)
