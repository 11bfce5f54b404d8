"""all-MiniLM-L6-v2 (Wang et al., 2020; Reimers and Gurevych, 2019) as an encoder: text into a normalised vector of 384.

    MinilmEncoder(cache).encode(["prove that sqrt(2) is irrational"])       # float64 [1, 384]

`headway models add minilm` installs the model; onnxruntime runs it on one thread. It is loaded at the first text (or by
`load`) and then stays in memory. Texts are encoded one by one: in int8 a batch shares its scales, so a vector would
depend on its batch, and on one core batches are not faster.

Not covered: text after the first 256 tokens. Negation and names have little weight: "increase" and "decrease" are close
together, and so are letters that differ only in the recipient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from headway.kits.models.find import folder
from headway.nouns import Floats, errors

VERSION = "minilm-1-w384"  # the recipe's number fixes wheel, conversion and rounding
_WIDTH = 384
_CHARACTERS = 1 << 15  # far more than 256 tokens; tokenising the rest would be wasted


def make(*, models: Path | None, keys: Mapping[str, str]) -> MinilmEncoder:
    """Create the encoder from a task's settings."""
    if models is None:
        raise errors.Unavailable(
            "The encoder 'minilm' needs the folder of models.",
            code="model_missing",
            hint='Pass the folder: encoder("minilm", models=settings.cache).',
        )
    return MinilmEncoder(models)


class MinilmEncoder:
    """The text model `minilm` of a cache. Thread-safe."""

    slow = True  # vectors are cached on disk, and a server computes them in a thread
    __slots__ = ("_cache", "_loaded", "_lock", "version", "width")

    def __init__(self, cache: Path) -> None:
        self.version = VERSION
        self.width = _WIDTH
        self._cache = cache
        self._lock = Lock()
        self._loaded: tuple[Any, Any] | None = None

    def load(self) -> None:
        """Load the model now; raises if something is missing."""
        with self._lock:
            if self._loaded is None:
                self._loaded = _load(self._cache)

    def encode(self, texts: Sequence[str]) -> Floats:
        if self._loaded is None:
            self.load()
        assert self._loaded is not None
        tokenizer, session = self._loaded
        vectors = np.empty((len(texts), _WIDTH))
        for row, text in enumerate(texts):
            ids = tokenizer.encode(_readable(text[:_CHARACTERS])).ids
            vectors[row] = session.run(None, {"ids": np.array([ids], np.int64)})[0][0]
        return vectors


def _readable(text: str) -> str:
    """Replace lone surrogates, which the tokeniser (written in Rust) cannot accept."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _load(cache: Path) -> tuple[Any, Any]:
    try:
        import onnxruntime
        from tokenizers import Tokenizer
    except ImportError as error:
        raise errors.MissingExtra("The encoder 'minilm'", str(error.name), "text") from None
    files = folder("minilm", cache)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_mem_pattern = False  # every length is a different shape
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(files / "model.onnx", options, providers=["CPUExecutionProvider"])
        tokenizer = Tokenizer.from_file(str(files / "tokenizer.json"))
    except Exception as error:  # the files match their hashes, but both libraries raise errors of their own
        raise errors.Damaged(
            f"The model 'minilm' cannot be loaded: {' '.join(str(error).split())[:300]}.",
            code="model_damaged",
            hint="Build it again: headway models add minilm --again",
        ) from error
    return tokenizer, session
