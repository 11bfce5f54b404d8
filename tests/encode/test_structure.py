"""The structure encoder, and joined encoders."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from headway.encode import encoder
from headway.encode.build import NAMES, StructureEncoder
from headway.nouns.errors import InvalidSettings, UnknownName

TEXTS = ["", "What is 2 + 2?\nA. 3\nB. 4", "def f(x):\n    return x", "Écris une lettre à ma voisine.", "x" * 5000]


def test_a_text_gets_the_same_numbers_alone_and_in_a_batch() -> None:
    many = StructureEncoder().encode(TEXTS)
    assert many.shape == (len(TEXTS), len(NAMES))
    for row, text in enumerate(TEXTS):
        assert np.array_equal(StructureEncoder().encode([text])[0], many[row])
    assert StructureEncoder().encode([]).shape == (0, len(NAMES))


def test_structure_distinguishes_numbers_from_words_and_code_from_prose() -> None:
    place = {name: index for index, name in enumerate(NAMES)}
    sums, prose, code = StructureEncoder().encode(
        ["Calculate 3.5 * 17 + 4 = ?", "Write a kind letter to our neighbours", "import os\ndef f():\n    return os"]
    )
    assert sums[place["symbols"]] > prose[place["symbols"]]
    assert sums[place["asks_for_a_number"]] > prose[place["asks_for_a_number"]]
    assert code[place["code"]] > prose[place["code"]]
    assert prose[place["characters"]] > sums[place["characters"]]


@given(st.text(max_size=400))
def test_every_text_gives_small_finite_numbers(text: str) -> None:
    vectors = StructureEncoder().encode([text])
    assert np.isfinite(vectors).all()
    assert np.abs(vectors).max() <= 0.4 + 1e-12


def test_joined_encoders_are_concatenated_and_can_be_named_by_version() -> None:
    both = encoder("hashing+structure")
    assert both.width == 128 + len(NAMES)
    assert both.version == "hashing-1-w128+structure-1"
    vectors = both.encode(TEXTS)
    assert np.array_equal(vectors[:, :128], encoder("hashing").encode(TEXTS))
    assert np.array_equal(vectors[:, 128:], StructureEncoder().encode(TEXTS))
    again = encoder(both.version)
    assert again.version == both.version
    assert np.array_equal(again.encode(TEXTS), vectors)


def test_invalid_joins_of_encoders_are_refused() -> None:
    with pytest.raises(InvalidSettings):
        encoder("structure+structure")
    with pytest.raises(UnknownName):
        encoder("hashing+structur")
