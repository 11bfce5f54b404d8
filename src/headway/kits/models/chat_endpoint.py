"""A model behind any OpenAI-compatible /chat/completions endpoint, as a `Generator` for programs without an event loop.

    with ChatEndpoint("small", "http://127.0.0.1:11434/v1", "qwen3:4b") as model:
        model.generate([Prompt(turns=(Turn("user", "What is 2+2?"),), temperature=0, max_tokens=16)])
        for place, reply in model.each(prompts): ...             # as they arrive, a few at once

429, 5xx, broken connections and timeouts are retried, with growing pauses or after the server's `Retry-After`;
`outgoing` has the other rules for every call. Where somebody waits for the answer, `patient=False`: a server that
cannot be reached or does not answer in time is an error at once, the rest is retried for a few seconds.

Not covered: log-probabilities. Such an endpoint shows neither the tokens of a reply nor how probable a given one is:
replies are `Counted` (nothing can be trained from them), `score` is refused, and a prompt has to be `turns`. Nor that
the same question has the same answer tomorrow: temperature 0 is requested, not guaranteed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import Any, Self

import msgspec

from headway.kits.models.language import Completion, Counted, Delta, Prompt, Scored, Turn
from headway.kits.models.outgoing import CallFailed, Outgoing
from headway.nouns import errors
from headway.settings import Settings

_TRIES = 5
_SHORT_TRIES, _LONGEST_WAIT_S = 3, 5.0  # where somebody waits
_MOST_BYTES = 8_000_000
_MOST_TOKENS = 1_000_000_000


class ChatEndpoint:
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
        patient: bool = True,
    ) -> None:
        self.name, self.model, self.at_once, self._patient = name, model, at_once, patient
        self._max_tokens, self._first_pause_s = max_tokens, first_pause_s
        self._server = Outgoing(url, key=key, timeout_s=timeout_s, most_bytes=most_bytes, connections=2 * at_once)

    @classmethod
    def of(cls, settings: Settings, upstream: str, *, patient: bool = True) -> Self:
        """The endpoint of [upstreams.NAME]."""
        at = settings.upstreams[upstream]
        key = settings.key(at.key_env) if at.key_env else ""
        return cls(
            upstream, at.url, at.model, key=key, timeout_s=at.timeout_s, max_tokens=at.max_tokens, patient=patient
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"ChatEndpoint({self.name!r}, model={self.model!r})"

    def close(self) -> None:
        self._server.close()

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        """A reply to each prompt, a few requests at once."""
        replies = dict(self.each(prompts))
        return [replies[place] for place in range(len(prompts))]

    def each(self, prompts: Sequence[Prompt]) -> Iterator[tuple[int, Counted]]:
        """(place, reply) as they arrive. After a failure nothing more is sent; replies in flight still arrive."""
        bodies = [self._body(prompt) for prompt in prompts]
        stop = threading.Event()
        failed: BaseException | None = None
        with ThreadPoolExecutor(self.at_once, thread_name_prefix="headway-endpoint") as pool:
            places: dict[Future[Counted], int] = {
                pool.submit(self._ask, prompt, body, stop): place
                for place, (prompt, body) in enumerate(zip(prompts, bodies, strict=True))
            }
            try:
                for future in as_completed(places):
                    if future.cancelled():
                        continue
                    error = future.exception()
                    if error is None:
                        yield places[future], future.result()
                    elif failed is None:
                        failed = error
                        _cancel(places, stop)
            finally:
                _cancel(places, stop)
        if failed is not None:
            raise failed

    def stream(self, prompt: Prompt) -> Iterator[Delta]:
        """The whole reply in one piece: it is not requested in parts."""
        (reply,) = self.generate([prompt])
        yield Delta(reply.text, reply)

    def score(self, prompt: Prompt, reply: str | Sequence[int], *, ended: bool = False) -> Scored:
        """Always refused."""
        del prompt, reply, ended
        raise errors.Unavailable(
            f"The upstream {self.name!r} does not return the probability of a given reply.",
            code="no_logprobs",
            hint="Use a local model (headway models add smollm2): it gives log-probabilities.",
        )

    def once(self, text: str, *, max_tokens: int = 0, temperature: float | None = None) -> Counted:
        """A reply without retries and with only the given settings: for measuring a model."""
        body: dict[str, Any] = {"model": self.model, "messages": [{"role": "user", "content": _encodable(text)}]}
        if most := max_tokens or self._max_tokens:
            body["max_tokens"] = most
        if temperature is not None:
            body["temperature"] = temperature
        prompt = Prompt(turns=(Turn("user", text),), temperature=1.0 if temperature is None else temperature)
        try:
            answer = self._server.post("/chat/completions", msgspec.json.encode(body))
        except CallFailed as failure:
            raise self._error(failure, "at the first try") from None
        return self._read(prompt, answer)

    # -- one question

    def _body(self, prompt: Prompt) -> bytes:
        if not prompt.turns:
            raise errors.InvalidInput(
                "An endpoint for chats takes turns, not a text to continue or tokens.",
                code="bad_prompt",
                hint='Give turns=(Turn("user", text),).',
            )
        most = min(prompt.max_tokens, self._max_tokens or prompt.max_tokens)
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": turn.role, "content": _encodable(turn.content)} for turn in prompt.turns],
            "max_tokens": most,
            "temperature": prompt.temperature,
        }
        if prompt.temperature > 0:
            body |= {"top_p": prompt.top_p, "seed": prompt.seed}
        if prompt.stop:
            body["stop"] = list(prompt.stop)
        return msgspec.json.encode(body)

    def _ask(self, prompt: Prompt, body: bytes, stop: threading.Event) -> Counted:
        def wait(pause_s: float, failure: CallFailed) -> bool:
            soon = failure.kind not in ("unreachable", "timeout") and pause_s <= _LONGEST_WAIT_S
            return (self._patient or soon) and not stop.wait(pause_s)

        tries = _TRIES if self._patient else _SHORT_TRIES
        try:
            answer = self._server.post(
                "/chat/completions", body, tries=tries, first_pause_s=self._first_pause_s, wait=wait
            )
        except CallFailed as failure:
            tried = "at the first try" if failure.tries == 1 else f"{failure.tries} tries"
            raise self._error(failure, tried) from None
        return self._read(prompt, answer)

    def _error(self, failure: CallFailed, tried: str) -> errors.HeadwayError:
        code, where = f"upstream_{failure.kind}", f"[upstreams.{self.name}]"
        if failure.temporary:
            return errors.Unavailable(
                f"The upstream {self.name!r} {failure.what}, {tried}.",
                code=code,
                hint=self._hint(failure, where),
            )
        if failure.kind == "malformed":
            return self._malformed(failure.what)
        if failure.kind == "too_large":
            return errors.Unavailable(
                f"The upstream {self.name!r} {failure.what}.", code=code, hint=f"Its address is in {where}."
            )
        what, hint = failure.what, "Write the address that it redirects to into headway.toml"
        if failure.status >= 400:
            reason = f": {failure.reason}" if failure.reason else ""
            what, hint = f"refused ({failure.status}{reason})", "Check its url and model in headway.toml"
        if failure.status in (401, 403):
            hint = "Check its key: the environment variable that key_env names"
        return errors.InvalidSettings(f"The upstream {self.name!r} {what}.", code=code, hint=f"{hint}, {where}.")

    def _hint(self, failure: CallFailed, where: str) -> str:
        if self._patient:
            return f"Its address is in {where}. Earlier answers are kept: start again later."
        if failure.kind == "unreachable":
            return f"Start it, or correct its url under {where} in headway.toml."
        return f"Try again; its address and time limit are in {where}."

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
            read=_estimated("".join(turn.content for turn in prompt.turns)) if read is None else read,
            written=_estimated(text) if written is None else written,
            estimated=read is None or written is None,
            temperature=prompt.temperature,
            top_p=prompt.top_p,
            seed=prompt.seed,
            model=self.model,
        )

    def _malformed(self, what: str) -> errors.HeadwayError:
        return errors.Unavailable(
            f"The upstream {self.name!r} {what}.",
            code="upstream_malformed",
            hint=f"It has to speak OpenAI's /chat/completions; its address is in [upstreams.{self.name}].",
        )


def _cancel(futures: Iterable[Future[Counted]], stop: threading.Event) -> None:
    stop.set()
    for future in futures:
        future.cancel()


def _count(value: object) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and isinstance(value, int) and 0 <= value <= _MOST_TOKENS else None


def _encodable(text: str) -> str:
    """Half a surrogate pair cannot be sent."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _estimated(text: str) -> int:
    return -(-len(text) // 4)
