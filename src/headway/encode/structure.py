"""The structure of a text without its words: lengths, digits, symbols, questions, lists, code.

    StructureEncoder().encode(["What is 2 + 2?\\nA. 3\\nB. 4"])      # float64 [1, 24]

The length, the numbers and the formality of a prompt help to predict which model can answer it, also on new subjects,
where words help little. Each entry is centred and scaled by fixed constants (typical of prompts to language models) and
then multiplied by 0.1, so that all entries together weigh about as much as one unit-length text vector. Intended for
use with another encoder, as in `encoder("minilm+structure")`.

Not covered: the meaning of words.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headway.encode.check import only
from headway.nouns import Floats

NAMES = (
    "characters", "words", "lines", "longest_line", "first_line", "digits", "digit_share", "numbers", "symbols",
    "word_length", "distinct_words", "capitals", "non_ascii", "commas", "quotes", "questions", "ends_asking",
    "blanks", "options", "negations", "asks_for_a_number", "asks_why", "code", "brackets",
)  # fmt: skip
# Centre and scale of each entry before the 0.1; rounded from two sets of prompts (exam questions, mixed requests).
_CENTRE = np.array(
    [5.6, 3.9, 1.4, 4.6, 4.4, 1.1, 0.03, 0.8, 1.3, 4.7, 0.8, 0.05, 0.05, 0.9, 0.1, 0.5, 0.3, 0.1, 0.7, 0.1, 0.15, 0.1,
     0.1, 0.4]
)  # fmt: skip
_SCALE = np.array(
    [0.9, 0.9, 0.8, 0.9, 0.9, 1.2, 0.05, 0.9, 1.1, 0.8, 0.15, 0.05, 0.4, 0.9, 0.4, 0.4, 0.5, 0.3, 0.8, 0.3, 0.35, 0.3,
     0.4, 0.7]
)  # fmt: skip
_WEIGHT, _MOST = 0.1, 4.0
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_SYMBOL = re.compile(r"[+\-*/=^<>%$\\|~∑∫√≤≥≠±×÷]")
_OPTION = re.compile(r"^\s*(?:[A-Ea-e1-9][.)]|\([A-Ea-e1-9]\)|[-*•])\s", re.MULTILINE)
_NEGATION = re.compile(r"\b(?:not|except|never|neither|nor|incorrect|false|least)\b", re.IGNORECASE)
_NUMERIC = re.compile(
    r"\b(?:how (?:many|much|far|long|old)|calculate|compute|solve|evaluate|estimate|probability|percent|find the)\b",
    re.IGNORECASE,
)
_WHY = re.compile(r"\b(?:why|explain|because|prove|derive|justify|which of the following)\b", re.IGNORECASE)
_CODE = re.compile(r"```|\bdef \w|\bclass \w|\breturn\b|\bimport \w|;\s*$|\w\(\)|</\w", re.MULTILINE)
_BRACKET = re.compile(r"[()\[\]{}]")


def make(*, models: Path | None, keys: Mapping[str, str], **settings: Any) -> StructureEncoder:  # noqa: ARG001 — every maker takes these
    """The encoder that settings describe."""
    only("structure", settings)
    return StructureEncoder()


class StructureEncoder:
    """24 numbers per text, in the order of NAMES."""

    __slots__ = ()
    version = "structure-1"
    width = len(NAMES)

    def encode(self, texts: Sequence[str]) -> Floats:
        """One row per text; row i depends on text i alone."""
        raw = np.array([_measure(text) for text in texts], dtype=np.float64).reshape(len(texts), self.width)
        raw -= _CENTRE
        raw /= _SCALE
        np.clip(raw, -_MOST, _MOST, out=raw)
        raw *= _WEIGHT
        return raw


def _measure(text: str) -> tuple[float, ...]:
    count = max(len(text), 1)
    words, lines = _WORD.findall(text), text.split("\n")
    first = next((line for line in lines if line.strip()), "")
    digits = sum(map(str.isdigit, text))
    return (
        math.log1p(len(text)),
        math.log1p(len(words)),
        math.log1p(len(lines)),
        math.log1p(max(map(len, lines))),
        math.log1p(len(first)),
        math.log1p(digits),
        digits / count,
        math.log1p(len(_NUMBER.findall(text))),
        math.log1p(len(_SYMBOL.findall(text))),
        sum(map(len, words)) / max(len(words), 1),
        len({word.lower() for word in words}) / max(len(words), 1),
        sum(map(str.isupper, text)) / count,
        0.0 if text.isascii() else math.log1p(sum(1 for character in text if ord(character) > 127)),
        math.log1p(text.count(",")),
        math.log1p(text.count('"') + text.count("“")),
        math.log1p(text.count("?")),
        float(first.rstrip().endswith("?")),
        float("__" in text),
        math.log1p(len(_OPTION.findall(text))),
        float(_NEGATION.search(text) is not None),
        float(_NUMERIC.search(text) is not None),
        float(_WHY.search(text) is not None),
        math.log1p(len(_CODE.findall(text))),
        math.log1p(len(_BRACKET.findall(text))),
    )
