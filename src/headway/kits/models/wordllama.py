"""WordLlama's static vectors as an encoder: text into the normalised mean of its tokens' vectors, 256 numbers.

    WordllamaEncoder().encode(["prove that sqrt(2) is irrational"])       # float64 [1, 256]

The vectors are part of the wheel `wordllama` (extra `wordllama`), so nothing is fetched. They are derived from the
token tables of LLaMA-2 70B and phi-3, whose licences may apply to you.

Not covered: the order of words.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from headway.files import read_regular
from headway.nouns import Floats, errors

VERSION = "wordllama-1-w256"
_WIDTH = 256
_BATCH = 64
_CHARACTERS = 1 << 15
# VERSION stands for these files of wheel 0.4.0.post1.
_FILES = {
    "weights/l2_supercat_256.safetensors": "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
    "tokenizers/l2_supercat_tokenizer_config.json": "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68",
}


def make(*, models: Path | None, keys: Mapping[str, str]) -> WordllamaEncoder:
    """Create the encoder from a task's settings."""
    return WordllamaEncoder()


class WordllamaEncoder:
    """The vectors of the installed package. Thread-safe."""

    __slots__ = ("_lock", "_model", "version", "width")

    def __init__(self) -> None:
        self.version = VERSION
        self.width = _WIDTH
        self._lock = Lock()
        self._model: Any = None

    def load(self) -> None:
        """Load the vectors now; raises if something is missing."""
        with self._lock:
            if self._model is None:
                self._model = _load()

    def encode(self, texts: Sequence[str]) -> Floats:
        """One row per text; an empty text is a row of zeros."""
        if self._model is None:
            self.load()
        readable = [text[:_CHARACTERS].encode("utf-8", "replace").decode("utf-8") for text in texts]
        places = [place for place, text in enumerate(readable) if text]
        vectors = np.zeros((len(texts), _WIDTH))
        for start in range(0, len(places), _BATCH):
            some = places[start : start + _BATCH]
            vectors[some] = self._model.embed([readable[place] for place in some], norm=False)
        vectors[~np.isfinite(vectors).all(axis=1)] = 0.0  # no known token
        norms = np.sqrt((vectors * vectors).sum(axis=1))
        norms[norms == 0.0] = 1.0
        vectors /= norms[:, None]
        return vectors


def _load() -> Any:
    try:
        import wordllama
    except ImportError as error:
        raise errors.MissingExtra("The encoder 'wordllama'", str(error.name), "wordllama") from None
    folder = Path(wordllama.__file__).parent
    for name, sha256 in _FILES.items():
        try:
            digest = hashlib.sha256(read_regular(folder / name)).hexdigest()
        except OSError:
            digest = ""
        if digest != sha256:
            raise errors.Damaged(
                f"wordllama {wordllama.__version__} does not contain the vectors of {VERSION!r}: {name} differs.",
                code="encoder_mismatch",
                hint="Install the supported version: pip install 'wordllama==0.4.0.post1'",
            )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Without cache_dir, it searches the wrong folder when downloads are disabled.
        return wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
