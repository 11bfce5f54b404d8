"""The hashing encoder and its cache."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from headway.encode import encoder
from headway.encode.hashing import HashingEncoder, tokens
from headway.encode.text import CachedEncoder, MemoryCache, key
from headway.nouns.errors import InvalidSettings, UnknownName

TEXTS = st.text(max_size=60)


@given(st.lists(TEXTS, min_size=1, max_size=8))
def test_a_text_alone_and_in_a_batch_are_equal_bit_for_bit(texts: list[str]) -> None:
    plain = HashingEncoder(64)
    together = plain.encode(texts)
    assert together.dtype == np.float64
    assert np.array_equal(together, np.vstack([plain.encode([text]) for text in texts]))


@given(TEXTS)
def test_a_vector_has_length_one_or_is_zero_without_words(text: str) -> None:
    length = float(np.linalg.norm(HashingEncoder().encode([text])[0]))
    assert length == 0.0 or length == pytest.approx(1.0, abs=1e-12)
    if not tokens(text):
        assert length == 0.0


def test_vectors_are_the_same_in_every_process(root: Path) -> None:
    code = (
        "from hashlib import sha256; from headway.encode.hashing import HashingEncoder;"
        "print(sha256(HashingEncoder().encode(['Prove that √2 is irrational', 'κόσμε 世界']).tobytes()).hexdigest())"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            capture_output=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(root / "src"), "PYTHONUTF8": "1"},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1


def test_the_vectors_do_not_change_without_a_new_version() -> None:
    plain = HashingEncoder(16)
    vector = plain.encode(["small large small"])[0].tolist()
    assert plain.version == "hashing-1-w16"
    assert {place: round(value, 6) for place, value in enumerate(vector) if value} == {0: 0.83205, 10: -0.5547}


def test_case_and_composition_of_characters_do_not_matter() -> None:
    plain = HashingEncoder()
    assert np.array_equal(plain.encode(["Café"]), plain.encode(["cafe\u0301"]))
    assert tokens("Straße 42_x, 世界!") == ["straße", "42_x", "世", "界"]


def test_word_order_changes_the_vector_by_its_pairs() -> None:
    plain = HashingEncoder()
    one, other = plain.encode(["alpha beta gamma", "gamma beta alpha"])
    assert not np.array_equal(one, other)
    assert float(one @ other) > 0.2


def test_pairs_do_not_cross_the_end_of_a_text() -> None:
    plain = HashingEncoder()
    assert np.array_equal(plain.encode(["alpha", "beta"])[0], plain.encode(["alpha"])[0])


@pytest.mark.parametrize("width", [0, 7, 100, 8192])
def test_an_invalid_width_is_refused(width: int) -> None:
    with pytest.raises(InvalidSettings) as error:
        HashingEncoder(width)
    assert error.value.code == "bad_encoder"


def test_an_encoder_can_be_named_by_name_table_or_version() -> None:
    assert encoder().version == "hashing-1-w128"
    assert encoder({"name": "hashing", "width": 256}).width == 256
    assert encoder("hashing-1-w64").width == 64
    with pytest.raises(UnknownName, match="hashing") as error:
        encoder("hashin")
    assert error.value.code == "encoder_missing"
    with pytest.raises(InvalidSettings, match="width"):
        encoder({"name": "hashing", "widht": 3})


def test_the_cache_returns_equal_vectors_and_evicts_the_oldest() -> None:
    plain, cache = HashingEncoder(), MemoryCache(2)
    cached = CachedEncoder(plain, cache)
    for texts in (["a", "b", "a"], ["b", "c"], ["a"]):
        assert np.array_equal(cached.encode(texts), plain.encode(texts))
    assert len(cache) == 2
    assert cache.get(key(plain.version, "b")) is None
    kept = cache.get(key(plain.version, "a"))
    assert kept is not None
    with pytest.raises(ValueError, match="read-only"):
        kept[0] = 1.0


def test_a_new_encoder_version_never_gets_an_old_vector() -> None:
    cache = MemoryCache()
    CachedEncoder(HashingEncoder(64), cache).encode(["a"])
    assert CachedEncoder(HashingEncoder(128), cache).encode(["a"]).shape == (1, 128)


def test_the_cache_is_thread_safe() -> None:
    plain = HashingEncoder()
    cached = CachedEncoder(HashingEncoder(), MemoryCache(16))
    texts = [f"word{i % 40} other{i % 7}" for i in range(400)]
    with ThreadPoolExecutor(8) as pool:
        vectors = list(pool.map(lambda text: cached.encode([text])[0], texts))
    assert np.array_equal(np.stack(vectors), plain.encode(texts))


def test_importing_the_room_does_not_import_numpy(root: Path) -> None:
    code = "import sys, headway.encode; sys.exit('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=False, env={"PYTHONPATH": str(root / "src")})
    assert done.returncode == 0
