"""One request to one upstream, with its cost: for comparisons with real models.

The proxy streams and fails over; this sends one request, waits and measures.
`headway.kits.models.outgoing` makes the calls.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Self

from headway.kits.models import ChatEndpoint
from headway.nouns import HeadwayError, InvalidSettings
from headway.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredReply:
    """A reply; `failed` says why there is none."""

    text: str
    latency_s: float
    prompt_tokens: float = 0.0
    completion_tokens: float = 0.0
    cost_usd: float = 0.0
    failed: str = ""


class UpstreamCaller:
    """Calls configured upstreams.

    with UpstreamCaller(project.settings) as caller:
        caller.ask("small", "What is the capital of France?")
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._open = ExitStack()
        self._endpoints: dict[str, ChatEndpoint] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def check(self, names: tuple[str, ...]) -> None:
        """Refuse, before anything is sent, an action that is not an upstream or a key that is not set."""
        for name in names:
            upstream = self._settings.upstreams.get(name)
            if upstream is None:
                raise InvalidSettings(
                    f"The action {name!r} is not an upstream, so it cannot be called.",
                    code="no_upstream",
                    hint=f"Declare [upstreams.{name}] with url and model in headway.toml.",
                )
            if upstream.key_env:
                self._settings.key(upstream.key_env)

    def ask(self, name: str, text: str, *, max_tokens: int = 0, temperature: float | None = None) -> MeasuredReply:
        upstream, endpoint = self._settings.upstreams[name], self._endpoint(name)
        began = time.perf_counter()
        try:
            reply = endpoint.once(text, max_tokens=max_tokens, temperature=temperature)
        except HeadwayError as error:
            return MeasuredReply(text="", latency_s=time.perf_counter() - began, failed=error.message)
        return MeasuredReply(
            text=reply.text,
            latency_s=time.perf_counter() - began,
            prompt_tokens=reply.read,
            completion_tokens=reply.written,
            cost_usd=(reply.read * upstream.price_in + reply.written * upstream.price_out) / 1e6,
        )

    def _endpoint(self, name: str) -> ChatEndpoint:
        if name not in self._endpoints:
            upstream = self._settings.upstreams[name]
            self._endpoints[name] = self._open.enter_context(
                ChatEndpoint(
                    name,
                    upstream.url,
                    upstream.model,
                    key=self._settings.key(upstream.key_env) if upstream.key_env else "",
                    timeout_s=upstream.timeout_s,
                    max_tokens=upstream.max_tokens,
                )
            )
        return self._endpoints[name]
