"""Calls to model servers: one place for time limits, size caps, retries, and keys that never show.

    with Outgoing("http://127.0.0.1:11434/v1", key="…", timeout_s=60.0) as server:
        server.post("/chat/completions", body)                    # the bytes of a 2xx answer
        server.post("/embeddings", body, tries=5)                 # 429, 5xx and broken connections are tried again

Anything but a usable answer is a `CallFailed`. Its text never contains a key: exceptions of the connection are not
repeated, and the key is replaced in the server's message. A redirect is a failure, so that a key goes
only to the address it was given for. Proxies, cookies and .netrc of the environment are not used. Nothing is
decompressed: an answer is as large as its bytes, and larger than the cap is refused while it is read.

Not covered: requests other than POST with JSON. A retry repeats the request, so that callers retry only what may be
done twice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal, Self

import msgspec

from headway.client import retry_after_s

if TYPE_CHECKING:  # a fifth of the start of a server, and most never call another one: imported by the first call
    import httpx

ERROR_BYTES = 65_536  # characters of a refusal's message
_CONNECT_S = 10.0
_LONGEST_PAUSE_S = 20.0
KEEPALIVE_S = 30.0

Kind = Literal["timeout", "unreachable", "broken", "busy", "status", "malformed", "too_large"]


class CallFailed(Exception):
    """A server gave no usable answer. `what` follows its name in a sentence: "did not answer within 60 s"."""

    def __init__(
        self, kind: Kind, what: str, *, status: int = 0, retry_after_s: float | None = None, cause: str = ""
    ) -> None:
        super().__init__(what)
        self.kind: Kind = kind
        self.what = what
        self.status = status  # of HTTP; 0 if there is none
        self.retry_after_s = retry_after_s
        self.cause = cause  # the class of the connection's error
        self.reason = ""  # the server's message: one short line without the key
        self.tries = 1

    @property
    def temporary(self) -> bool:
        """Whether the same call may succeed later."""
        return self.kind in ("timeout", "unreachable", "broken", "busy") or self.status >= 500


class Outgoing:
    """One server, for programs without an event loop. Safe to call from several threads."""

    def __init__(
        self,
        url: str,
        *,
        key: str = "",
        timeout_s: float = 60.0,
        most_bytes: int = 8_000_000,
        connections: int = 8,
    ) -> None:
        self.url = url.rstrip("/")
        self._key, self._timeout_s, self._most_bytes = key, timeout_s, most_bytes
        self._connections = connections
        self._transport: httpx.HTTPTransport | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Outgoing({self.url!r})"

    def close(self) -> None:
        """Closes the connections; the next call opens new ones."""
        with self._lock:
            if self._transport is not None:
                self._transport.close()
                self._transport = None

    def post(
        self,
        path: str,
        body: bytes,
        *,
        tries: int = 1,
        first_pause_s: float = 0.25,
        wait: Callable[[float, CallFailed], bool] | None = None,
    ) -> bytes:
        """The body of a 2xx answer. A temporary failure is retried after a pause: growing, or by `Retry-After`.

        `wait(pause_s, failure)` waits and returns whether to go on; without it, the thread sleeps.
        """
        for tried in range(1, tries + 1):
            try:
                return self._post(path, body)
            except CallFailed as failure:
                failure.tries = tried
                pause_s = min(max(first_pause_s * 4 ** (tried - 1), failure.retry_after_s or 0.0), _LONGEST_PAUSE_S)
                if tried == tries or not failure.temporary or not (wait or _sleep)(pause_s, failure):
                    raise
        raise ValueError(f"tries is {tries}, expected at least 1")

    def _post(self, path: str, body: bytes) -> bytes:
        import httpx

        headers = [("authorization", f"Bearer {self._key}")] if self._key else []
        until = time.monotonic() + self._timeout_s
        request = post_request(self.url + path, body, headers, self._timeout_s)
        try:
            response = self._pool().handle_request(request)
            try:
                failure = failure_of(response)
                if failure is None:
                    return self._whole(response, until)
                failure.reason = self._reason(self._beginning(response, until))
            finally:
                response.close()
        except (TimeoutError, httpx.TransportError) as error:
            raise connection_failure(error, self._timeout_s) from None
        raise failure

    def _pool(self) -> httpx.HTTPTransport:
        import httpx

        # The transport, not a client: it has no redirects, cookies, proxies or authentication to turn off.
        with self._lock:
            if self._transport is None:
                limits = httpx.Limits(max_connections=self._connections, keepalive_expiry=KEEPALIVE_S)
                self._transport = httpx.HTTPTransport(trust_env=False, limits=limits)
            return self._transport

    def _whole(self, response: httpx.Response, until: float) -> bytes:
        content = bytearray()
        for piece in response.iter_raw():
            content += piece
            if len(content) > self._most_bytes:
                raise too_large(self._most_bytes)
            if time.monotonic() > until:
                raise TimeoutError
        return bytes(content)

    def _beginning(self, response: httpx.Response, until: float) -> bytes:
        content = b""
        for piece in response.iter_raw():
            content += piece
            if len(content) > ERROR_BYTES or time.monotonic() > until:
                break
        return content

    def _reason(self, body: bytes) -> str:
        """The server's message about a refusal: one short line, without the key."""
        try:
            answer = msgspec.json.decode(body)
            reason = answer.get("error", answer.get("message", ""))
            reason = reason.get("message", "") if isinstance(reason, dict) else reason
        except (msgspec.MsgspecError, ValueError, AttributeError, RecursionError):
            return ""
        line = " ".join(str(reason).split())
        return (line.replace(self._key, "***") if self._key else line)[:200]


def failure_of(response: httpx.Response, usable: frozenset[int] = frozenset()) -> CallFailed | None:
    """Why an answer cannot be used, by its headers."""
    status = response.status_code
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        return CallFailed("malformed", "compressed its answer unasked", status=status)
    if 200 <= status < 300 or status in usable:
        return None
    wait_s = retry_after_s(response.headers)
    if status == 429:
        return CallFailed("busy", "is busy (429)", status=status, retry_after_s=wait_s)
    what = f"wants to redirect ({status})" if 300 <= status < 400 else f"answered {status}"
    return CallFailed("status", what, status=status, retry_after_s=wait_s)


def connection_failure(error: Exception, timeout_s: float) -> CallFailed:
    """The meaning of a broken connection. The exception's own text may contain a header and is not repeated."""
    import httpx

    cause = type(error).__name__
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return CallFailed("unreachable", "cannot be reached", cause=cause)
    if isinstance(error, TimeoutError | httpx.TimeoutException):
        return CallFailed("timeout", f"did not answer within {timeout_s:g} s", cause=cause)
    return CallFailed("broken", "broke off in the middle", cause=cause)


def too_large(most_bytes: int) -> CallFailed:
    return CallFailed("too_large", f"sent more than {most_bytes:,} bytes")


def post_request(
    url: str, body: bytes, headers: Iterable[tuple[str, str]], timeout_s: float, accept: str = "application/json"
) -> httpx.Request:
    import httpx

    timeout = {"connect": min(_CONNECT_S, timeout_s), "read": timeout_s, "write": timeout_s, "pool": timeout_s}
    return httpx.Request(
        "POST",
        url,
        headers=[
            ("content-type", "application/json"),
            ("accept", accept),
            ("accept-encoding", "identity"),
            ("user-agent", "headway"),
            *headers,
        ],
        content=body,
        extensions={"timeout": timeout},
    )


def _sleep(pause_s: float, _: CallFailed) -> bool:
    time.sleep(pause_s)
    return True
