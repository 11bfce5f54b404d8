"""The disk cache: the same bits in every process, and never a damaged vector."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np

from headway.encode.text import CachedEncoder
from headway.encode.vectors import DiskCache
from headway.nouns.protocols import Floats


class Counting:
    version, width = "counting-1", 4

    def __init__(self) -> None:
        self.asked: list[str] = []

    def encode(self, texts: list[str]) -> Floats:
        self.asked += texts
        return np.array([[len(text), 1 / 3, -0.0, 1e-30] for text in texts], dtype=np.float32).astype(np.float64)


def test_a_stored_vector_is_read_back_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "vectors.db"
    counting = Counting()
    cached = CachedEncoder(counting, DiskCache(file))
    fresh = cached.encode([f"{n:04}" for n in range(1200)])
    cached.close()
    again = CachedEncoder(counting, DiskCache(file))
    assert np.array_equal(again.encode([f"{n:04}" for n in range(1200)]), fresh)
    assert len(counting.asked) == 1200
    assert file.stat().st_mode & 0o077 == 0, "only its owner can read it"
    again.close()


def test_a_vector_with_a_flipped_bit_is_ignored(tmp_path: Path) -> None:
    file = tmp_path / "vectors.db"
    cache = DiskCache(file)
    cache.put(b"k" * 16, np.ones(4))
    cache.close()
    with sqlite3.connect(file) as database:
        (raw,) = database.execute("SELECT vector FROM vectors").fetchone()
        database.execute("UPDATE vectors SET vector = ?", (bytes([raw[0] ^ 1]) + raw[1:],))
    database.close()
    cache = DiskCache(file)
    assert cache.get(b"k" * 16) is None
    cache.put(b"k" * 16, np.ones(4))
    assert np.array_equal(cache.get(b"k" * 16), np.ones(4))
    cache.close()


def test_a_file_that_is_not_a_database_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "vectors.db"
    file.write_bytes(b"nonsense" * 1000)
    cache = DiskCache(file)
    assert cache.get(b"k" * 16) is None
    cache.put(b"k" * 16, np.ones(4))
    assert cache.get(b"k" * 16) is not None
    cache.close()


def test_an_unusable_folder_only_disables_the_cache(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    counting = Counting()
    cached = CachedEncoder(counting, DiskCache(tmp_path / "file" / "vectors.db"))
    assert cached.encode(["a", "a"]).shape == (2, 4)
    cached.encode(["a"])
    assert counting.asked == ["a", "a"]


def test_the_size_of_the_cache_is_limited(tmp_path: Path) -> None:
    file = tmp_path / "vectors.db"
    cache = DiskCache(file)
    cache.put_many({bytes([n]) * 16: np.ones(512) for n in range(64)})
    cache.close()
    small = DiskCache(file, most_bytes=50_000)
    assert small.get(bytes([3]) * 16) is None
    small.close()
    assert file.stat().st_size < 50_000


def test_processes_share_the_cache(tmp_path: Path) -> None:
    script = (
        "import sys, numpy; from pathlib import Path; from headway.encode.vectors import DiskCache\n"
        "cache = DiskCache(Path(sys.argv[1])); start = int(sys.argv[2])\n"
        "for n in range(start, start + 200): cache.put(n.to_bytes(16, 'little'), numpy.full(8, n))\n"
        "cache.close()"
    )
    file = tmp_path / "vectors.db"
    running = [subprocess.Popen([sys.executable, "-c", script, file, str(1000 * n)]) for n in range(3)]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    cache = DiskCache(file)
    keys = [(1000 * p + n).to_bytes(16, "little") for p in range(3) for n in range(200)]
    assert len(cache.get_many(keys)) == 600
    cache.close()
