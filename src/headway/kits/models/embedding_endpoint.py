"""Any OpenAI-compatible /embeddings endpoint as an encoder.

    EndpointEncoder("http://127.0.0.1:11434/v1", "nomic-embed-text", width=768).encode(["hello"])

Texts are sent in batches; 429, 5xx and broken connections are retried with growing pauses (or after the time that the
server requests). A wrong width, a number that is not finite, and a missing or duplicate row are errors. Vectors are
normalised. `headway.kits.models.outgoing` makes the calls, so that the key appears in no message and no log.

Not covered: a provider who changes the model behind a name. The version contains only address, model and width.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from headway.nouns import Floats, errors

if TYPE_CHECKING:
    from headway.kits.models.outgoing import CallFailed, Outgoing


_log = logging.getLogger("headway.encode")
_TRIES = 5
_LARGEST_ANSWER = 256_000_000
_CHARACTERS = 32_000  # about 8,000 tokens: more is refused by most servers


def make(
    *, models: Path | None, keys: Mapping[str, str], url: str, model: str, key_env: str = "", width: int = 1536,
    batch: int = 64, timeout_s: float = 30.0,
) -> EndpointEncoder:  # fmt: skip
    """Create the encoder from a task's settings."""
    key = keys.get(key_env, "")
    return EndpointEncoder(url, model, width=width, key=key, key_env=key_env, batch=batch, timeout_s=timeout_s)


class EndpointEncoder:
    """Vectors from a server. Thread-safe."""

    slow = True  # vectors are cached on disk, and a server computes them in a thread

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
        self._server: Outgoing | None = None

    def __repr__(self) -> str:
        return f"EndpointEncoder({self._url!r}, {self._model!r}, width={self.width})"

    def encode(self, texts: Sequence[str]) -> Floats:
        """One row per text; an empty text is a row of zeros and is not sent."""
        vectors = np.zeros((len(texts), self.width))
        places = [place for place, text in enumerate(texts) if text.strip()]
        for start in range(0, len(places), self._batch):
            some = places[start : start + self._batch]
            batch = [texts[place][:_CHARACTERS].encode("utf-8", "replace").decode("utf-8") for place in some]
            vectors[some] = self._request(batch)
        return vectors

    def load(self) -> None:
        """Raise if the key is missing; the server is not called until the first text."""
        if self._key_env and not self._key:
            raise errors.InvalidSettings(
                f"The environment variable {self._key_env} is not set.",
                code="missing_key",
                hint=f"headway.toml names it in key_env. Set it and restart: export {self._key_env}=…",
            )

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    def _request(self, texts: list[str]) -> Floats:
        from headway.kits.models.outgoing import CallFailed, Outgoing

        self.load()
        if self._server is None:
            self._server = Outgoing(self._url, key=self._key, timeout_s=self._timeout_s, most_bytes=_LARGEST_ANSWER)
        body = msgspec.json.encode({"model": self._model, "input": texts, "encoding_format": "float"})
        until = time.monotonic() + 2 * self._timeout_s

        def wait(pause_s: float, failure: CallFailed) -> bool:
            if time.monotonic() + pause_s > until:
                return False
            _log.warning(
                "encoder=%s tried=%d pause_s=%.2f failed=%r", self.version, failure.tries, pause_s, _described(failure)
            )
            self._sleep(pause_s)
            return True

        try:
            answer = self._server.post("/embeddings", body, tries=_TRIES, wait=wait)
        except CallFailed as failure:
            raise self._error(failure) from None
        return self._vectors(answer, len(texts))

    def _error(self, failure: CallFailed) -> errors.HeadwayError:
        what = _described(failure)
        if failure.temporary:
            return errors.Unavailable(
                f"The embedding endpoint {self._url} failed after {failure.tries} tries: {what}.",
                code="encoder_unreachable",
                hint="Check that it is running, and the task's `encoder` in headway.toml.",
            )
        if failure.kind != "status":
            return self._damaged(what)
        hint = "Check `url` and `model` of the task's `encoder` table in headway.toml."
        if failure.status in (401, 403):
            hint = "Check the key: the variable that `key_env` names in the task's `encoder` table."
        return errors.InvalidSettings(
            f"The embedding endpoint {self._url} refused the request: {what}.", code="encoder_refused", hint=hint
        )

    def _damaged(self, what: str) -> errors.Damaged:
        return errors.Damaged(
            f"The embedding endpoint {self._url} sent an invalid answer: {what}.",
            code="encoder_answer",
            hint="It must support OpenAI's /embeddings. Check its answer for a single text.",
        )

    def _vectors(self, answer: bytes, count: int) -> Floats:
        vectors = np.full((count, self.width), np.nan)
        try:
            rows = json.loads(answer)["data"]  # accepts NaN, which is reported below
            if len(rows) != count:
                raise self._damaged(f"it has {len(rows)} vectors for {count} texts")
            for at, row in enumerate(rows):
                vector = np.asarray(row["embedding"], dtype=np.float64)
                place = row.get("index", at)
                if vector.shape != (self.width,):
                    raise self._width(vector.shape)
                if not np.isfinite(vector).all():
                    raise self._damaged("it has a number that is not finite")
                if not isinstance(place, int) or not 0 <= place < count or not np.isnan(vectors[place, 0]):
                    raise self._damaged(f"it has the index {place!r}")
                vectors[place] = vector
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise self._damaged(f"it does not contain vectors ({type(error).__name__})") from None
        norms = np.sqrt((vectors * vectors).sum(axis=1))
        norms[norms == 0.0] = 1.0
        # Rounded to float32 like the cache, so that fresh and cached vectors have the same bits.
        unit: Floats = (vectors / norms[:, None]).astype(np.float32).astype(np.float64)
        return unit

    def _width(self, shape: tuple[int, ...]) -> errors.HeadwayError:
        width = str(shape[0]) if len(shape) == 1 else f"{len(shape)} dimensions"
        return errors.InvalidSettings(
            f"The model {self._model!r} at {self._url} gives vectors of width {width}, expected {self.width}.",
            code="encoder_width",
            hint=f"Set `width = {width}` in the task's `encoder` table." if len(shape) == 1 else "",
        )


def _described(failure: CallFailed) -> str:
    cause = f" ({failure.cause})" if failure.cause else ""
    reason = f": {failure.reason}" if failure.reason else ""
    return f"it {failure.what}{cause}{reason}"
