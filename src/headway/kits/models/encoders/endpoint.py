"""Any OpenAI-compatible /embeddings endpoint as an encoder.

    EndpointEncoder("http://127.0.0.1:11434/v1", "nomic-embed-text", width=768).encode(["hello"])

Texts go out in batches; 429, 5xx and broken connections are tried again with growing pauses (or as long as the server
asks). A wrong width, a number that is not finite, a missing or doubled row are errors, never vectors. Vectors are
divided by their length. The key is sent as a bearer token and appears in no message and no log.

Not covered: that a server gives the same numbers tomorrow. The version names address, model and width; a provider who
changes a model behind its name changes what a policy sees.
"""

from __future__ import annotations

import hashlib
import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headway.encode.check import only, whole
from headway.nouns.errors import Damaged, HeadwayError, InvalidSettings, Unavailable
from headway.nouns.protocols import Floats

__all__ = ["EndpointEncoder", "make"]

_log = logging.getLogger("headway.encode")
_TRIES = 5
_LONGEST_PAUSE_S = 20.0
_LARGEST_ANSWER = 256_000_000
_CHARACTERS = 32_000  # about 8,000 tokens: more is refused by most servers


def make(*, models: Path | None, keys: Mapping[str, str], **settings: Any) -> EndpointEncoder:
    """The encoder that settings describe."""
    only("endpoint", settings, ("url", "model", "key_env", "width", "batch", "timeout_s"))
    if "width" in settings:
        whole(settings["width"])
    return EndpointEncoder(**settings, key=keys.get(settings.get("key_env", ""), ""))


class EndpointEncoder:
    """Vectors from a server. Safe from several threads."""

    slow = True  # what it gave is worth keeping on the disk, and a server waits for it in a thread

    def __init__(
        self,
        url: str,
        model: str,
        *,
        width: int = 1536,
        key: str = "",
        key_env: str = "",
        batch: int = 64,
        timeout_s: float = 30.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.width = width
        self._url, self._model, self._key = url.rstrip("/"), model, key
        self._key_env = key_env
        self._batch, self._timeout_s, self._sleep = batch, timeout_s, sleep
        name = re.sub(r"[^A-Za-z0-9.]+", "-", model)[:40].strip("-")
        digest = hashlib.sha256(f"{self._url}\0{model}".encode()).hexdigest()[:8]
        self.version = f"endpoint-1-{name}-{digest}-w{width}"
        self._client: Any = None

    def __repr__(self) -> str:
        return f"EndpointEncoder({self._url!r}, {self._model!r}, width={self.width})"

    def encode(self, texts: Sequence[str]) -> Floats:
        """One row per text; an empty text is all zeros and is not sent."""
        vectors = np.zeros((len(texts), self.width))
        places = [place for place, text in enumerate(texts) if text.strip()]
        for start in range(0, len(places), self._batch):
            some = places[start : start + self._batch]
            asked = [texts[place][:_CHARACTERS].encode("utf-8", "replace").decode("utf-8") for place in some]
            vectors[some] = self._ask(asked)
        return vectors

    def load(self) -> None:
        """Says where the key is missing; the server itself is asked at the first text."""
        if self._key_env and not self._key:
            raise InvalidSettings(
                f"The environment variable {self._key_env} is not set.",
                code="missing_key",
                hint=f"headway.toml names it with key_env. Set it and start again: export {self._key_env}=…",
            )

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _ask(self, texts: list[str]) -> Floats:
        import httpx

        self.load()
        if self._client is None:
            headers = {"authorization": f"Bearer {self._key}"} if self._key else {}
            limits = httpx.Timeout(self._timeout_s, connect=min(self._timeout_s, 10.0))
            self._client = httpx.Client(headers=headers, timeout=limits, follow_redirects=False)
        body = {"model": self._model, "input": texts, "encoding_format": "float"}
        said, until = "", time.monotonic() + 2 * self._timeout_s
        for tried in range(1, _TRIES + 1):
            pause = min(0.25 * 4 ** (tried - 1), _LONGEST_PAUSE_S)
            try:
                answer = self._client.post(f"{self._url}/embeddings", json=body)
            except httpx.TimeoutException:
                said = f"it did not answer within {self._timeout_s:g} s"
            except httpx.TransportError as error:
                said = f"{type(error).__name__}: {error}"
            else:
                if answer.status_code == 200:
                    return self._vectors(answer, len(texts))
                said = f"it answered {answer.status_code}{_reason(answer)}"
                if answer.status_code != 429 and answer.status_code < 500:
                    raise self._refused(answer.status_code, said)
                pause = max(pause, min(_asked_pause(answer), _LONGEST_PAUSE_S))
            if time.monotonic() + pause > until:
                break
            if tried < _TRIES:
                _log.warning("encoder=%s tried=%d pause_s=%.2f said=%r", self.version, tried, pause, self._clean(said))
                self._sleep(pause)
        raise Unavailable(
            f"The embedding endpoint {self._url} could not be used, {tried} tries: {self._clean(said)}.",
            code="encoder_unreachable",
            hint="Check that it runs, and `encoder` of the task in headway.toml.",
        )

    def _vectors(self, answer: Any, count: int) -> Floats:
        problem = ""
        found = np.full((count, self.width), np.nan)
        try:
            if len(answer.content) > _LARGEST_ANSWER:
                raise ValueError("it is far too large")
            rows = answer.json()["data"]
            if len(rows) != count:
                problem = f"{len(rows)} vectors for {count} texts"
            for at, row in enumerate(rows if not problem else ()):
                vector = np.asarray(row["embedding"], dtype=np.float64)
                place = row.get("index", at)
                if vector.shape != (self.width,):
                    raise self._width(vector.shape)
                if not np.isfinite(vector).all():
                    problem = "a number that is not finite"
                    break
                if not isinstance(place, int) or not 0 <= place < count or not np.isnan(found[place, 0]):
                    problem = f"the index {place!r}"
                    break
                found[place] = vector
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            problem = f"something else than vectors ({type(error).__name__})"
        if problem:
            raise Damaged(
                f"The embedding endpoint {self._url} answered with {self._clean(problem)}.",
                code="encoder_answer",
                hint="It has to speak OpenAI's /embeddings; look at what it says for one text.",
            )
        norms = np.sqrt((found * found).sum(axis=1))
        norms[norms == 0.0] = 1.0
        # Through float32, as the cache keeps them: fresh and remembered vectors are the same bits.
        unit: Floats = (found / norms[:, None]).astype(np.float32).astype(np.float64)
        return unit

    def _width(self, shape: tuple[int, ...]) -> HeadwayError:
        given = str(shape[0]) if len(shape) == 1 else f"{len(shape)} dimensions"
        return InvalidSettings(
            f"The model {self._model!r} at {self._url} gives vectors of width {given}, not {self.width}.",
            code="encoder_width",
            hint=f"Set `width = {given}` in the task's `encoder` table." if len(shape) == 1 else "",
        )

    def _refused(self, status: int, said: str) -> HeadwayError:
        hint = "Check `url` and `model` of the task's `encoder` table in headway.toml."
        if status in (401, 403):
            hint = "Check the key: the variable that `key_env` names in the task's `encoder` table."
        return InvalidSettings(
            f"The embedding endpoint {self._url} refused: {self._clean(said)}.", code="encoder_refused", hint=hint
        )

    def _clean(self, text: str) -> str:
        """What a server says, short and without the key, should it repeat it."""
        short = " ".join(text.split())[:300]
        return short.replace(self._key, "***") if self._key else short


def _reason(answer: Any) -> str:
    try:
        body = answer.json()
        said = body.get("error", body.get("message", ""))
        said = said.get("message", "") if isinstance(said, dict) else said
    except (ValueError, AttributeError, RecursionError):
        said = ""
    return f": {said}" if said else ""


def _asked_pause(answer: Any) -> float:
    """Retry-After in seconds; a date there is not heeded."""
    text = answer.headers.get("retry-after", "")
    return float(text) if re.fullmatch(r"\d{1,6}(\.\d+)?", text) else 0.0
