"""One question to one upstream, and what it cost: for comparisons that run real models.

The server's own calls (serve/upstreams) stream, fail over and relay; this one asks, waits and measures.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import httpx

from headway.nouns.errors import InvalidSettings
from headway.settings import Settings, Upstream

__all__ = ["Answered", "Caller"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What came back; `failed` says why nothing did."""

    text: str
    latency_s: float
    prompt_tokens: float = 0.0
    completion_tokens: float = 0.0
    cost_usd: float = 0.0
    failed: str = ""


class Caller:
    """Asks configured upstreams.

    with Caller(project.settings) as caller:
        caller.ask("small", "What is the capital of France?")
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._http = httpx.Client()

    def __enter__(self) -> Caller:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def check(self, names: tuple[str, ...]) -> None:
        """Refuses before anything was asked: an action that is no upstream, a key that is not set."""
        for name in names:
            upstream = self._settings.upstreams.get(name)
            if upstream is None:
                raise InvalidSettings(
                    f"The action {name!r} is no upstream, so nobody can be asked.",
                    code="no_upstream",
                    hint=f"Declare [upstreams.{name}] with url and model in headway.toml.",
                )
            if upstream.key_env:
                self._settings.key(upstream.key_env)

    def ask(self, name: str, text: str, *, max_tokens: int = 0, temperature: float | None = None) -> Answered:
        upstream = self._settings.upstreams[name]
        body: dict[str, object] = {"model": upstream.model, "messages": [{"role": "user", "content": text}]}
        if max_tokens or upstream.max_tokens:
            body["max_tokens"] = max_tokens or upstream.max_tokens
        if temperature is not None:
            body["temperature"] = temperature
        headers = {"authorization": f"Bearer {self._settings.key(upstream.key_env)}"} if upstream.key_env else {}
        began = time.perf_counter()
        try:
            answer = self._http.post(
                f"{upstream.url.rstrip('/')}/chat/completions", json=body, headers=headers, timeout=upstream.timeout_s
            )
        except httpx.HTTPError as error:
            return Answered(text="", latency_s=time.perf_counter() - began, failed=type(error).__name__)
        return _read(answer, upstream, time.perf_counter() - began)


def _read(answer: httpx.Response, upstream: Upstream, taken: float) -> Answered:
    if answer.status_code != 200:
        return Answered(text="", latency_s=taken, failed=f"status {answer.status_code}")
    try:
        body = answer.json()
        text = body["choices"][0]["message"]["content"] or ""
        usage = body.get("usage") or {}
        read, written = float(usage.get("prompt_tokens") or 0), float(usage.get("completion_tokens") or 0)
    except (ValueError, KeyError, IndexError, TypeError):
        return Answered(text="", latency_s=taken, failed="not a chat completion")
    cost = (read * upstream.price_in + written * upstream.price_out) / 1e6
    return Answered(text=str(text), latency_s=taken, prompt_tokens=read, completion_tokens=written, cost_usd=cost)
