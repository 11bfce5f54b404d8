"""A model behind any OpenAI-compatible /chat/completions endpoint, as a `Generator` for programs without an event loop.

    with Endpoint("small", "http://127.0.0.1:11434/v1", "qwen3:4b") as model:
        model.generate([Prompt(turns=(Turn("user", "What is 2+2?"),), temperature=0, max_tokens=16)])
        for place, reply in model.each(prompts): ...             # as they come, a few at once

429, 5xx, broken connections and late answers are tried again, with growing pauses or as long as the server asks. A
redirect is an error; the key goes to the host it was given for and into no message; proxies and .netrc of the
environment play no part; an answer larger than a cap or compressed unasked is refused.

Not covered: log-probabilities. Such an endpoint shows neither the tokens of a reply nor what it thinks of a given one:
replies are `Counted` (nothing can be trained from them), `score` is refused, and a prompt has to be `turns`. Nor that
the same question has the same answer tomorrow: temperature 0 is asked for, not proven.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import Any

import httpx
import msgspec

from headway.nouns.errors import HeadwayError, InvalidInput, InvalidSettings, Unavailable
from headway.nouns.protocols import Completion, Counted, Delta, Prompt, Scored, Turn

__all__ = ["Endpoint"]

_TRIES = 5
_LONGEST_PAUSE_S = 20.0
_MOST_BYTES = 8_000_000
_MOST_TOKENS = 1_000_000_000
_CONNECT_S = 10.0


class _Passing(Exception):
    """What may be gone at the next try."""

    def __init__(self, code: str, what: str, pause_s: float = 0.0) -> None:
        super().__init__(what)
        self.code, self.what, self.pause_s = code, what, pause_s


class Endpoint:
    """One configured model server. Safe to call from several threads."""

    def __init__(
        self,
        name: str,
        url: str,
        model: str,
        *,
        key: str = "",
        timeout_s: float = 60.0,
        max_tokens: int = 0,
        at_once: int = 4,
        first_pause_s: float = 0.25,
        most_bytes: int = _MOST_BYTES,
    ) -> None:
        self.name, self.at_once = name, at_once
        self._url, self._model, self._key = f"{url.rstrip('/')}/chat/completions", model, key
        self._timeout_s, self._max_tokens = timeout_s, max_tokens
        self._first_pause_s, self._most_bytes = first_pause_s, most_bytes
        self._transport: httpx.HTTPTransport | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Endpoint({self.name!r}, model={self._model!r})"

    def close(self) -> None:
        with self._lock:
            if self._transport is not None:
                self._transport.close()
                self._transport = None

    @property
    def model(self) -> str:
        return self._model

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        """A reply to each, a few asked at once."""
        found = dict(self.each(prompts))
        return [found[place] for place in range(len(prompts))]

    def each(self, prompts: Sequence[Prompt]) -> Iterator[tuple[int, Counted]]:
        """(place, reply) as they come. Where one fails, nothing more is sent; what was on its way still comes first."""
        bodies = [self._body(prompt) for prompt in prompts]
        stop = threading.Event()
        failed: BaseException | None = None
        with ThreadPoolExecutor(self.at_once, thread_name_prefix="headway-endpoint") as pool:
            asked: dict[Future[Counted], int] = {
                pool.submit(self._ask, prompt, body, stop): place
                for place, (prompt, body) in enumerate(zip(prompts, bodies, strict=True))
            }
            try:
                for done in as_completed(asked):
                    if done.cancelled():
                        continue
                    error = done.exception()
                    if error is None:
                        yield asked[done], done.result()
                    elif failed is None:
                        failed = error
                        stop.set()
                        for each in asked:
                            each.cancel()
            finally:
                stop.set()
                for each in asked:
                    each.cancel()
        if failed is not None:
            raise failed

    def stream(self, prompt: Prompt) -> Iterator[Delta]:
        """The whole reply in one piece: it is not asked for in parts."""
        (reply,) = self.generate([prompt])
        yield Delta(reply.text, reply)

    def score(self, prompt: Prompt, reply: str | Sequence[int], *, ended: bool = False) -> Scored:
        """Always refused."""
        del prompt, reply, ended
        raise Unavailable(
            f"The upstream {self.name!r} does not say how probable a given reply is.",
            code="no_logprobs",
            hint="Use a local model (headway models add smollm2): it gives log-probabilities.",
        )

    def once(self, text: str, *, max_tokens: int = 0, temperature: float | None = None) -> Counted:
        """A reply at the first try, asked with no setting but those given: for measuring a model as it comes."""
        body: dict[str, Any] = {"model": self._model, "messages": [{"role": "user", "content": _sound(text)}]}
        if most := max_tokens or self._max_tokens:
            body["max_tokens"] = most
        if temperature is not None:
            body["temperature"] = temperature
        asked = Prompt(turns=(Turn("user", text),), temperature=1.0 if temperature is None else temperature)
        try:
            return self._read(asked, self._sent(msgspec.json.encode(body)))
        except _Passing as passing:
            raise self._missing(passing, "at the first try") from None

    # -- one question

    def _body(self, prompt: Prompt) -> bytes:
        if not prompt.turns:
            raise InvalidInput(
                "An endpoint for chats is asked in turns, not with a text to continue or with tokens.",
                code="bad_prompt",
                hint='Give turns=(Turn("user", text),).',
            )
        most = min(prompt.max_tokens, self._max_tokens or prompt.max_tokens)
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [{"role": turn.role, "content": _sound(turn.content)} for turn in prompt.turns],
            "max_tokens": most,
            "temperature": prompt.temperature,
        }
        if prompt.temperature > 0:
            body |= {"top_p": prompt.top_p, "seed": prompt.seed}
        if prompt.stop:
            body["stop"] = list(prompt.stop)
        return msgspec.json.encode(body)

    def _ask(self, prompt: Prompt, body: bytes, stop: threading.Event) -> Counted:
        last = _Passing("upstream_unreachable", "was not asked")
        for tried in range(_TRIES):
            try:
                return self._read(prompt, self._sent(body))
            except _Passing as passing:
                last = passing
            pause = max(min(self._first_pause_s * 4**tried, _LONGEST_PAUSE_S), min(last.pause_s, _LONGEST_PAUSE_S))
            if tried + 1 == _TRIES or stop.wait(pause):
                break
        raise self._missing(last, f"{tried + 1} tries")

    def _missing(self, why: _Passing, tried: str) -> Unavailable:
        return Unavailable(
            f"The upstream {self.name!r} {why.what}, {tried}.",
            code=why.code,
            hint=f"Its address is in [upstreams.{self.name}]. What was answered is remembered: start again later.",
        )

    def _sent(self, body: bytes) -> bytes:
        """The body of a good answer."""
        headers = {"content-type": "application/json", "accept": "application/json", "accept-encoding": "identity"}
        headers["user-agent"] = "headway"
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        until = time.monotonic() + self._timeout_s
        limits = dict.fromkeys(("read", "write", "pool"), self._timeout_s)
        limits["connect"] = min(_CONNECT_S, self._timeout_s)
        request = httpx.Request("POST", self._url, headers=headers, content=body, extensions={"timeout": limits})
        try:
            response = self._pool().handle_request(request)
            try:
                found = self._whole(response, until)
            finally:
                response.close()
        except (httpx.TimeoutException, TimeoutError):
            raise _Passing("upstream_timeout", f"did not answer within {self._timeout_s:g} s") from None
        except httpx.ConnectError:
            raise _Passing("upstream_unreachable", "cannot be reached") from None
        except httpx.TransportError:  # its own text may hold a header
            raise _Passing("upstream_broken", "broke off in the middle") from None
        self._check(response, found)
        return found

    def _pool(self) -> httpx.HTTPTransport:
        # The transport, not a client: no redirects, cookies, proxies or authentication to turn off.
        with self._lock:
            if self._transport is None:
                limits = httpx.Limits(max_connections=2 * self.at_once, keepalive_expiry=30.0)
                self._transport = httpx.HTTPTransport(trust_env=False, limits=limits)
            return self._transport

    def _whole(self, response: httpx.Response, until: float) -> bytes:
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise self._malformed("compressed its answer unasked")
        found = bytearray()
        for piece in response.iter_raw():
            found += piece
            if len(found) > self._most_bytes:
                raise Unavailable(
                    f"The upstream {self.name!r} sent more than {self._most_bytes:,} bytes.",
                    code="upstream_too_large",
                    hint=f"Its address is in [upstreams.{self.name}].",
                )
            if time.monotonic() > until:
                raise TimeoutError
        return bytes(found)

    def _check(self, response: httpx.Response, body: bytes) -> None:
        status = response.status_code
        if 200 <= status < 300:
            return
        if status == 429 or status >= 500:
            wait = response.headers.get("retry-after", "")
            pause_s = float(wait) if re.fullmatch(r"\d{1,6}(\.\d+)?", wait) else 0.0
            code, what = (
                ("upstream_busy", "is busy (429)") if status == 429 else ("upstream_status", f"answered {status}")
            )
            raise _Passing(code, what, pause_s)
        if 300 <= status < 400:
            what, hint = f"wants to redirect ({status})", "Write the address that it redirects to into headway.toml"
        else:
            what, hint = f"refused ({status}{self._reason(body)})", "Check its url and model in headway.toml"
            if status in (401, 403):
                hint = "Check its key: the environment variable that key_env names"
        raise InvalidSettings(
            f"The upstream {self.name!r} {what}.", code="upstream_status", hint=f"{hint}, [upstreams.{self.name}]."
        )

    def _read(self, prompt: Prompt, body: bytes) -> Counted:
        try:
            answer = msgspec.json.decode(body)
            choice = answer["choices"][0]
            text = choice["message"].get("content")
            if text is not None and not isinstance(text, str):
                raise TypeError
            usage = answer.get("usage")
        except (msgspec.MsgspecError, ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
            raise self._malformed("sent something that is not a chat completion") from None
        text = text or ""
        usage = usage if isinstance(usage, dict) else {}
        read, written = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
        return Counted(
            text=text,
            finish="length" if choice.get("finish_reason") == "length" else "stop",
            read=_guessed("".join(turn.content for turn in prompt.turns)) if read is None else read,
            written=_guessed(text) if written is None else written,
            estimated=read is None or written is None,
            temperature=prompt.temperature,
            top_p=prompt.top_p,
            seed=prompt.seed,
            model=self._model,
        )

    def _malformed(self, what: str) -> HeadwayError:
        return Unavailable(
            f"The upstream {self.name!r} {what}.",
            code="upstream_malformed",
            hint=f"It has to speak OpenAI's /chat/completions; its address is in [upstreams.{self.name}].",
        )

    def _reason(self, body: bytes) -> str:
        """What a server says of a refusal, short and without the key, should it repeat it."""
        try:
            answer = msgspec.json.decode(body)
            said = answer.get("error", answer.get("message", ""))
            said = said.get("message", "") if isinstance(said, dict) else said
        except (msgspec.MsgspecError, ValueError, AttributeError, RecursionError):
            return ""
        short = " ".join(str(said).split())[:200]
        short = short.replace(self._key, "***") if self._key else short
        return f": {short}" if short else ""


def _count(value: object) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and isinstance(value, int) and 0 <= value <= _MOST_TOKENS else None


def _sound(text: str) -> str:
    """Half a surrogate pair cannot be sent."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _guessed(text: str) -> int:
    return -(-len(text) // 4)
