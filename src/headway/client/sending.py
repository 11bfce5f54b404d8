"""When to send again, and with which settings to send at all."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx

from headway.client.answers import error_of, retry_after_s
from headway.client.calls import Call
from headway.nouns.errors import Busy, HeadwayError, InvalidInput, Unavailable

__all__ = ["EVENT_SILENCE_S", "Attempts", "client_settings", "ours", "read", "stream_headers"]

EVENT_SILENCE_S = 60.0  # the server says something at least every 15 s
_BEFORE_SENDING = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_PASSING = ("stopping", "store_locked")  # codes of 503 that go away by themselves


def client_settings(url: str, key: str | None, timeout_s: float) -> dict[str, Any]:
    """For httpx. Proxies and .netrc of the environment are left alone: the server is here, or named exactly."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise InvalidInput(
            f"{parts.scheme}://… is not the address of a server." if parts.username else f"{url!r} is not an address.",
            code="bad_url",
            hint="Write http://127.0.0.1:8765; a key goes into `key`, never into the address.",
        )
    headers = {"accept": "application/json", "user-agent": "headway-python"}
    if key is not None:
        headers["authorization"] = f"Bearer {key}"
    return {
        "base_url": url.rstrip("/"),
        "headers": headers,
        "timeout": httpx.Timeout(timeout_s, connect=min(5.0, timeout_s)),
        "follow_redirects": False,
        "trust_env": False,
    }


def stream_headers() -> dict[str, str]:
    return {"accept": "text/event-stream"}


def read(call: Call[Any], response: httpx.Response) -> Any:
    """What the call gives, or the error that the server raised."""
    if response.is_error or response.is_redirect:
        raise error_of(response.status_code, response.content, response.headers)
    try:
        return call.read(response.json() if response.content else None)
    except (ValueError, KeyError, TypeError) as error:
        raise HeadwayError(
            f"The answer to {call.method} {call.path} cannot be read.",
            code="not_headway",
            hint="Check the address: it is that of `headway serve`, without a path.",
        ) from error


@dataclass(slots=True, kw_only=True)
class Attempts:
    """Counts the attempts of one call; `after` says how long to wait for the next one, or raises what went wrong."""

    call: Call[Any]
    retries: int
    longest_wait_s: float
    made: int = 0

    def after(self, error: Exception, headers: httpx.Headers | None = None) -> float:
        told = None if headers is None else retry_after_s(headers)
        wait_s = 0.1 * 2**self.made * random.uniform(0.5, 1.0) if told is None else told
        self.made += 1
        if self.made > self.retries or wait_s > self.longest_wait_s or not self._worth_it(error):
            raise ours(error) from (None if isinstance(error, HeadwayError) else error)
        return wait_s

    def _worth_it(self, error: Exception) -> bool:
        if isinstance(error, (Busy, *_BEFORE_SENDING)):
            return True  # refused before anything happened
        passing = isinstance(error, httpx.TransportError) or (isinstance(error, Unavailable) and error.code in _PASSING)
        return passing and self.call.repeatable


def ours(error: Exception) -> Exception:
    """An error of the connection as one of ours."""
    if isinstance(error, httpx.TimeoutException):
        return Unavailable(
            "The server did not answer in time.",
            code="timeout",
            hint="Raise `timeout_s`, or look at the server's log.",
        )
    if isinstance(error, httpx.TransportError):
        return Unavailable(
            f"The server cannot be reached: {error}.",
            code="no_server",
            hint="Start it in the project's folder: headway serve",
        )
    return error
