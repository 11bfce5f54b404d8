"""proxy — OpenAI- and Anthropic-compatible endpoints that route over [upstreams.*].

Takes: requests in either wire format.   Gives: the chosen upstream's answer; each request is a decision with its
outcome, and each outage of an upstream a row.
Never: keeps a key in a message, a log or an error.
May import: serve, project, settings, observe, client, cli, nouns.
"""

from typing import TYPE_CHECKING

from headway.nouns import Kit, door

if TYPE_CHECKING:
    from headway.kits.proxy.outages import BEGUN as BEGUN, ENDED as ENDED, tell as tell, told as told
else:
    __all__, __getattr__ = door(__name__)

KIT = Kit(
    name="proxy",
    summary="OpenAI- and Anthropic-compatible endpoints that choose the upstream.",
    needs=("reply", "otel"),
    options={"init": "headway.kits.proxy.commands:INIT"},
    routes=("headway.kits.proxy.openai", "headway.kits.proxy.anthropic"),
    checks=("headway.kits.proxy.outages:check",),
    explains=("headway.kits.proxy.requests:explain",),
    starts=("headway.kits.proxy.requests:started",),
    outages=("headway.kits.proxy.outages:outages",),
)
