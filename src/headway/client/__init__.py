"""client — talks to a Headway server from Python: `Client`, and `AsyncClient` with the same verbs. `worker` talks to a
language worker on this machine, over its socket; `endpoint` to a model behind an OpenAI-compatible address.

Takes: the server's address, a key where one is needed.   Gives: decisions, and the errors that the server raised.
Never: opens a project, loads numpy, sends anything twice that would count twice.
May import: nouns.
"""

from headway.client.answers import Decided, Event
from headway.client.clients import AsyncClient, Client

__all__ = ["AsyncClient", "Client", "Decided", "Event"]
