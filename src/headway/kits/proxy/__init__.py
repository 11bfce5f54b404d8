"""proxy — OpenAI- and Anthropic-compatible endpoints that route over [upstreams.*].

Takes: requests in either wire format.   Gives: the chosen upstream's answer; each call is a decision with its outcome.
Never: keeps a key in a message, a log or an error.
May import: serve, project, settings, observe, client, nouns.
"""

from headway.nouns import Kit

KIT = Kit(
    name="proxy",
    summary="OpenAI- and Anthropic-compatible endpoints that choose the upstream.",
    needs=("reply", "otel"),
    routes=("headway.kits.proxy.openai", "headway.kits.proxy.anthropic"),
    checks=("headway.kits.proxy.doctor:check",),
)
