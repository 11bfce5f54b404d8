"""Logs of other systems that are damaged or made to harm: refused by line, without a traceback, in bounded memory."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from headway.kits.audit.audit import audit_files
from headway.kits.data import files, text_files
from headway.nouns.errors import InvalidInput

HEAD = "reward,propensity,target_probability\n"
ROW = b'{"reward": 1, "propensity": 0.5, "target_probability": 0.5}\n'


def refused(path: Path) -> str:
    with pytest.raises(InvalidInput) as error:
        audit_files([path])
    assert error.value.code in {"bad_log_value", "bad_log_column", "no_evidence"}
    assert len(str(error.value)) < 1000
    return str(error.value)


@pytest.mark.parametrize("value", ["[1]", "[[1]]", '{"a": 1}', "1" + "0" * 400, "1" + "0" * 5000, '"x"', "[]", "1e999"])
@pytest.mark.parametrize("column", ["reward", "propensity", "target_probability"])
def test_a_value_that_is_no_number_is_named(tmp_path: Path, column: str, value: str) -> None:
    fields = {"reward": "1", "propensity": "0.5", "target_probability": "0.5", column: value}
    line = "{" + ", ".join(f'"{name}": {text}' for name, text in fields.items()) + "}\n"
    path = tmp_path / "log.jsonl"
    path.write_text(line * 3)
    assert "line 1" in refused(path)


def test_sixty_thousand_columns_of_a_log_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(",".join(f"c{number}" for number in range(60_000)) + "\n1\n")
    assert "60,000 columns" in refused(path)


@pytest.mark.parametrize("name", ["log.csv.gz", "log.jsonl.gz"])
def test_an_endless_line_of_a_log_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for module in (files, text_files):
        monkeypatch.setattr(module, "LONGEST", 1 << 20)
    path = tmp_path / name
    start = HEAD.encode() + b'1,0.5,"' if "csv" in name else ROW + b'{"reward": "'
    with gzip.open(path, "wb") as file:
        file.write(start + b"x" * (4 << 20))
    assert "is longer than 1,048,576" in refused(path)


@pytest.mark.parametrize("name", ["log.csv.gz", "log.jsonl.gz"])
def test_a_packed_log_that_is_cut_or_changed_is_refused(tmp_path: Path, name: str) -> None:
    rows = (HEAD + "".join(f"{n % 2},0.5,0.{n}\n" for n in range(1, 900))).encode() if "csv" in name else ROW * 900
    good = gzip.compress(rows, mtime=0)
    path = tmp_path / name
    for bad in (good[: len(good) // 2], good[:20] + b"\xff\xff\xff" + good[23:], b"\x1f\x8b", b"no gzip"):
        path.write_bytes(bad)
        refused(path)
