"""all-MiniLM-L6-v2 (Wang et al., 2020; Reimers and Gurevych, 2019) as an encoder: text into 384 numbers of length one.

    MinilmEncoder(cache).encode(["prove that sqrt(2) is irrational"])       # float64 [1, 384]

The model comes from `headway models add minilm`; onnxruntime runs it, on one thread. It is loaded at the first text
(`load` does it ahead of that) and then kept. Texts are run one by one: in int8 a batch shares its scales, and a vector
would depend on its neighbours; on one core batches are no faster.

Not covered: what comes after the first 256 tokens. Negation and names weigh little: "increase" and "decrease" are
close together, and so is the same letter to two people.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from headway.encode.check import only
from headway.kits.models.find import folder
from headway.nouns.errors import Damaged, MissingExtra, Unavailable
from headway.nouns.protocols import Floats

__all__ = ["VERSION", "MinilmEncoder", "make"]

VERSION = "minilm-1-w384"  # the recipe's number: wheel, conversion and rounding are one exact thing
_WIDTH = 384
_CHARACTERS = 1 << 15  # far more than 256 tokens come from; the rest would be tokenised for nothing


def make(*, models: Path | None, keys: Mapping[str, str], **settings: Any) -> MinilmEncoder:
    """The encoder that settings describe."""
    only("minilm", settings)
    if models is None:
        raise Unavailable(
            "The encoder 'minilm' does not know where models are.",
            code="model_missing",
            hint='Give the folder: encoder("minilm", models=settings.cache).',
        )
    return MinilmEncoder(models)


class MinilmEncoder:
    """The text model `minilm` of a cache. Safe from several threads."""

    slow = True  # what it gave is worth keeping on the disk, and a server waits for it in a thread
    __slots__ = ("_cache", "_loaded", "_lock", "version", "width")

    def __init__(self, cache: Path) -> None:
        self.version = VERSION
        self.width = _WIDTH
        self._cache = cache
        self._lock = Lock()
        self._loaded: tuple[Any, Any] | None = None

    def load(self) -> None:
        """Loads the model now; says what is missing where it cannot be."""
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
    """Half a surrogate pair is no character: the tokeniser, written in Rust, cannot take it."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _load(cache: Path) -> tuple[Any, Any]:
    try:
        import onnxruntime
        from tokenizers import Tokenizer
    except ImportError as error:
        raise MissingExtra("The encoder 'minilm'", str(error.name), "text") from None
    files = folder("minilm", cache)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_mem_pattern = False  # every length is another shape
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(files / "model.onnx", options, providers=["CPUExecutionProvider"])
        tokenizer = Tokenizer.from_file(str(files / "tokenizer.json"))
    except Exception as error:  # both libraries have errors of their own; the files are what their hashes say
        raise Damaged(
            f"The model 'minilm' cannot be loaded: {' '.join(str(error).split())[:300]}.",
            code="model_damaged",
            hint="Make it again: headway models add minilm --again",
        ) from error
    return tokenizer, session
