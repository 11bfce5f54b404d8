"""How a call is sent: with which settings, when it is sent again, and how its answer is read."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx

from headway.client.answers import error_of, retry_after_s
from headway.client.calls import ServerCall
from headway.nouns import errors

T = TypeVar("T")
EVENT_HEADERS = {"accept": "text/event-stream"}
EVENT_TIMEOUT = httpx.Timeout(60.0, connect=5.0)  # the server sends something at least every 15 s
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_TEMPORARY = ("stopping", "store_locked")  # temporary codes of 503


def client_settings(url: str, key: str | None, timeout_s: float) -> dict[str, Any]:
    """For httpx. Proxies and .netrc of the environment are not used: the address is exactly the one given."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise errors.InvalidInput(
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


def request(http: httpx.Client | httpx.AsyncClient, call: ServerCall[Any]) -> httpx.Request:
    headers = None if call.body is None else {"content-type": "application/json"}
    return http.build_request(call.method, call.path, content=call.body, params=call.params or None, headers=headers)


def read(call: ServerCall[T], response: httpx.Response) -> T:
    """The result of the verb, or the error that the server raised."""
    if response.is_error or response.is_redirect:
        raise error_of(response.status_code, response.content, response.headers)
    try:
        return call.read(response.json() if response.content else None)
    except (ValueError, KeyError, TypeError) as error:
        raise errors.HeadwayError(
            f"The answer to {call.method} {call.path} cannot be read.",
            code="not_headway",
            hint="Check the address: it is that of `headway serve`, without a path.",
        ) from error


@dataclass(slots=True, kw_only=True)
class Attempts:
    """Counts the attempts of one call."""

    call: ServerCall[Any]
    retries: int
    longest_wait_s: float
    made: int = 0

    def after(self, error: Exception, response: httpx.Response | None) -> float:
        """The pause before the next attempt; raises the error if there is none."""
        requested = None if response is None else retry_after_s(response.headers)
        wait_s = 0.1 * 2**self.made * random.uniform(0.5, 1.0) if requested is None else requested
        self.made += 1
        if self.made > self.retries or wait_s > self.longest_wait_s or not self._may_pass(error):
            raise connection_error(error) from (None if isinstance(error, errors.HeadwayError) else error)
        return wait_s

    def _may_pass(self, error: Exception) -> bool:
        if isinstance(error, (errors.Busy, *_NOT_SENT)):
            return True  # refused before anything happened
        temporary = isinstance(error, errors.Unavailable) and error.code in _TEMPORARY
        return (temporary or isinstance(error, httpx.TransportError)) and self.call.repeatable


def connection_error(error: Exception) -> Exception:
    """An error of the connection as a Headway error; any other is returned unchanged."""
    if isinstance(error, httpx.TimeoutException):
        return errors.Unavailable(
            "The server did not answer in time.",
            code="timeout",
            hint="Increase `timeout_s`, or look at the server's log.",
        )
    if isinstance(error, httpx.TransportError):
        return errors.Unavailable(
            f"The server cannot be reached: {error}.",
            code="no_server",
            hint="Start it in the project's folder: headway serve",
        )
    return error
