"""Files to import that are made to take hours: each is refused within a second of processor time."""

from __future__ import annotations

import gzip
import time
from pathlib import Path

import pytest

from headway.kits.data.files import rows_of
from headway.kits.data.records import Problem

MB = 1 << 20
HEAD = b"text,action,reward,propensity\n"
BOMBS = {
    "empty lines": HEAD + b"\n" * (16 * MB),
    "carriage returns": HEAD + b"\r" * (16 * MB),
    "a quote of lines": HEAD + b'"' + b"\n" * (16 * MB),
    "a header of commas": b"," * (30 * MB) + b"\n",
    "a row of commas": HEAD + b"," * (16 * MB),
    "quotes": HEAD + b'"' * (16 * MB),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_csv_bomb_costs_less_than_a_second(tmp_path: Path, name: str) -> None:
    path = tmp_path / "bomb.csv"
    path.write_bytes(BOMBS[name])
    began = time.process_time()
    problem = next(iter(rows_of(path)))
    assert isinstance(problem, Problem)
    assert time.process_time() - began < 1.0


@pytest.mark.parametrize("suffix", [".csv.gz", ".jsonl.gz"])
@pytest.mark.parametrize("line", [b"\n", b"a" * (30 * MB) + b"\n"])
def test_a_packed_bomb_costs_less_than_its_bytes(tmp_path: Path, suffix: str, line: bytes) -> None:
    path = tmp_path / f"bomb{suffix}"
    with gzip.open(path, "wb", 1) as file:
        file.write(HEAD if suffix == ".csv.gz" else b"")
        for _ in range(200 if line == b"\n" else 4):
            file.write(line * MB if line == b"\n" else line)
    began = time.process_time()
    found = list(rows_of(path))
    assert found
    assert all(isinstance(problem, Problem) for problem in found)
    assert time.process_time() - began < 3.0
    assert len(found) < 10
