"""WordLlama's static vectors as an encoder: text into 256 numbers, the mean of its tokens' vectors, of length one.

    WordllamaEncoder().encode(["prove that sqrt(2) is irrational"])       # float64 [1, 256]

The vectors lie inside the wheel `wordllama` (extra `wordllama`), so nothing is fetched. They derive from the token
tables of LLaMA-2 70B and phi-3: their licences may matter to you.

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

from headway.encode.check import only
from headway.nouns.errors import Damaged, MissingExtra
from headway.nouns.protocols import Floats

__all__ = ["VERSION", "WordllamaEncoder", "make"]

VERSION = "wordllama-1-w256"
_WIDTH = 256
_BATCH = 64
_CHARACTERS = 1 << 15
# What VERSION stands for: the files inside wheel 0.4.0.post1.
_FILES = {
    "weights/l2_supercat_256.safetensors": "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
    "tokenizers/l2_supercat_tokenizer_config.json": "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68",
}


def make(*, models: Path | None, keys: Mapping[str, str], **settings: Any) -> WordllamaEncoder:
    """The encoder that settings describe."""
    only("wordllama", settings)
    return WordllamaEncoder()


class WordllamaEncoder:
    """The vectors of the installed package. Safe from several threads."""

    __slots__ = ("_lock", "_model", "version", "width")

    def __init__(self) -> None:
        self.version = VERSION
        self.width = _WIDTH
        self._lock = Lock()
        self._model: Any = None

    def load(self) -> None:
        """Loads the vectors now; says what is missing where it cannot be."""
        with self._lock:
            if self._model is None:
                self._model = _load()

    def encode(self, texts: Sequence[str]) -> Floats:
        """One row per text; an empty text is all zeros."""
        if self._model is None:
            self.load()
        readable = [each[:_CHARACTERS].encode("utf-8", "replace").decode("utf-8") for each in texts]
        places = [place for place, each in enumerate(readable) if each]
        vectors = np.zeros((len(texts), _WIDTH))
        for start in range(0, len(places), _BATCH):
            some = places[start : start + _BATCH]
            vectors[some] = self._model.embed([readable[place] for place in some], norm=False)
        vectors[~np.isfinite(vectors).all(axis=1)] = 0.0  # no token of it is known
        norms = np.sqrt((vectors * vectors).sum(axis=1))
        norms[norms == 0.0] = 1.0
        vectors /= norms[:, None]
        return vectors


def _load() -> Any:
    try:
        import wordllama
    except ImportError as error:
        raise MissingExtra("The encoder 'wordllama'", str(error.name), "wordllama") from None
    folder = Path(wordllama.__file__).parent
    for name, sha256 in _FILES.items():
        try:
            found = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        except OSError:
            found = ""
        if found != sha256:
            raise Damaged(
                f"The installed wordllama {wordllama.__version__} has other vectors than {VERSION!r}: {name} differs.",
                code="encoder_mismatch",
                hint="Install the one that is known: pip install 'wordllama==0.4.0.post1'",
            )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Told where to look: by itself it looks in the wrong folder when it may not download.
        return wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
