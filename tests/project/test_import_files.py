"""Broken, huge, compressed and hostile files are read, or refused with the line."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from headway.kits.data import Problem, files, text_files
from headway.nouns.errors import HeadwayError, InvalidInput
from headway.nouns.kit import catalogue
from headway.project import Project
from tests.project.imports import INTERACTION, adds_up, sage_row, stored

GOOD = json.dumps(INTERACTION).encode()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (GOOD + b"\n" + GOOD[:40] + b"\n", "line 2: .* it is truncated"),
        (GOOD + b"\n" + GOOD[:40], "line 2: .* it is truncated"),
        (b'{"prompt": "a", "response": "b", "reward": NaN}', "line 1: .* is not JSON"),
        (b'{"prompt": "a", "response": "b", "reward": Infinity}', "line 1: .* is not JSON"),
        (b'{"prompt": "a", "response": "b", "reward": 1e999}', "line 1"),
        (GOOD + b"\n\xff\xfe{}\n", "line 2: .* not UTF-8"),
        (GOOD + b'\n{"prompt": "a\x00b", "response": "c"}\n', "line 2: .* NUL"),
        (GOOD + b'\n{"prompt": "a\\u0000b", "response": "c"}\n', "line 2: prompt contains a NUL"),
        (GOOD + b'\n{"prompt": "\\ud800", "response": "c"}\n', "line 2"),
        (GOOD + b"\n[1, 2]\n", "line 2: .* not an object"),
        (GOOD + b'\n{"prompt": ' + b"[" * 50_000 + b"]" * 50_000 + b"}\n", "line 2: .* (nested|expected a text)"),
        (GOOD + b'\n{"prompt": [], "response": {}}\n', "line 2: prompt"),
        (
            GOOD + b'\n{"prompt": "a", "response": "b", "timestamp": "yesterday"}\n',
            "line 2: timestamp .* expected a time",
        ),
        (GOOD + b'\n{"prompt": "' + b"x" * 1_000_001 + b'", "response": "b"}\n', "line 2: prompt has 1,000,001"),
        ("\ufeff[]".encode("utf-16"), "line 1: the file is UTF-16"),
        (b"not json at all", "line 1: .* is not JSON"),
        (b"", "not recognised|nothing"),
    ],
)
@pytest.mark.kits("formats")
def test_a_broken_file_is_a_clear_error_with_its_line(
    project: Project, tmp_path: Path, content: bytes, says: str
) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=rf"(?s){says}") as error:
        project.import_file(path)
    assert error.value.hint
    assert stored(project) == 0


@pytest.mark.kits("formats")
def test_a_line_of_forty_megabytes_is_refused_and_the_next_one_is_read(project: Project, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(GOOD + b'\n{"prompt": "' + b"x" * (40 << 20) + b'"}\n' + GOOD.replace(b"Why", b"How") + b"\n")
    report = project.import_file(path, on_error="skip")
    assert (report.stored, [problem.line for problem in report.problems]) == (2, [2])


@pytest.mark.parametrize(
    "content", [b"\xef\xbb\xbf" + GOOD, GOOD.replace(b", ", b",\t") + b"\r\n\r\n", b"\n\n  \n" + GOOD]
)
@pytest.mark.kits("formats")
def test_byte_order_marks_carriage_returns_and_empty_lines_are_accepted(
    project: Project, tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(content)
    assert project.import_file(path).stored == 1


@pytest.mark.kits("formats")
def test_gzip_is_read_and_a_broken_file_is_an_error(project: Project, tmp_path: Path) -> None:
    packed = gzip.compress(b"\n".join(GOOD.replace(b"Why", b"%d" % n) for n in range(5000)))
    path = tmp_path / "log.jsonl.gz"
    path.write_bytes(packed)
    assert project.import_file(path).stored == 5000
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(InvalidInput, match=r"line \d+: the compressed data is damaged"):
        project.import_file(path)
    with pytest.raises(InvalidInput, match="cannot be read"):
        project.import_file(tmp_path / "nowhere.jsonl")


LETTERS = st.text('ab.é\x00\n"\\{1 \ud800𝒳', max_size=12)
HOSTILE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | LETTERS | st.just("2026-01-01T00:00:00Z"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(LETTERS, inner, max_size=4),
    max_leaves=8,
)
SHAPES: dict[str, list[dict[str, Any]]] = {
    "jfl-buffer": [{"id": "a", "ts": "2026-01-01", "agent": "x", "state": {}, "action": {"type": "fix"}, "reward": {}}],
    "jfl-journal": [{"ts": "2026-01-01", "session": "s", "type": "fix", "title": "t", "score_delta": 1}],
    "jfl-events": [{"ts": "2026-01-01", "type": "eval:scored", "data": {"delta": 1, "branch": "b"}}],
    "sage-routing": [sage_row(1)],
    "sage-journal": [{"type": "TRAJECTORY_STEP", "task_id": "t", "action": {"model_chosen": "m"}, "reward": 1,
                      "state": {}}],
    "interactions": [INTERACTION],
    "openai-chat": [{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}],
    "mutations": [{"state": [1.0], "action": 1, "reward": 0, "next_state": [1.0], "done": True, "log_prob": -1,
                   "value": 0}],
    "wide": [{"prompt": "a", "x_correct": 1, "x_cost": 0.5, "y_correct": False, "y_cost": 1}],
    "columns": [{"text": "a", "action": "b", "reward": 1, "propensity": 1.0, "at": 5, "step": 1, "episode": "e"}],
    "headway": [{"id": "dec_" + "0" * 12 + "7" + "0" * 19, "task": "t", "at": 1, "candidates": ["a"], "action": "a",
                 "probabilities": [1.0], "signals": [{"name": "reward", "value": 1}]}],
}  # fmt: skip


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
@pytest.mark.parametrize("name", catalogue().all("formats"))
def test_any_change_of_any_field_is_read_or_refused_with_its_line(
    project: Project, tmp_path: Path, name: str, data: Any
) -> None:
    rows = [json.loads(json.dumps(row)) for row in SHAPES[name] * 2]
    for row in rows:
        for field in data.draw(st.lists(st.sampled_from(list(row)), max_size=3)):
            row[field] = data.draw(HOSTILE)
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows), "utf-8", errors="surrogatepass")
    report = project.import_file(path, format=name, task="t", on_error="skip", dry_run=True)
    assert adds_up(report)
    assert all(problem.line in (1, 2) and problem.message for problem in report.problems)


@pytest.mark.parametrize("signals", [5, True, "5", {"name": "reward"}, [5]])
def test_signals_that_are_not_a_list_of_objects_are_refused_with_their_line(
    project: Project, tmp_path: Path, signals: object
) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps({**SHAPES["headway"][0], "signals": signals}), "utf-8")
    report = project.import_file(path, format="headway", task="t", on_error="skip", dry_run=True)
    assert [(problem.line, problem.field.split("[")[0]) for problem in report.problems] == [(1, "signals")]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    content=st.binary(max_size=400)
    | st.lists(st.sampled_from([GOOD, b"{", b"\x00", b"}", b"\n", b'"', b"\xff"])).map(b"".join)
)
@pytest.mark.parametrize("suffix", ["log.jsonl", "log.csv", "log.jsonl.gz"])
def test_arbitrary_bytes_never_end_in_a_traceback(
    project: Project, tmp_path: Path, suffix: str, content: bytes
) -> None:
    path = tmp_path / suffix
    path.write_bytes(content)
    code = ""
    try:
        assert adds_up(project.import_file(path, on_error="skip", dry_run=True, task="t"))
    except HeadwayError as error:
        code = error.code
    assert code in ("", "bad_import", "bad_mapping", "unknown_format", "bad_import_file")


def test_one_endless_csv_line_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (files, text_files):
        monkeypatch.setattr(module, "LONGEST", 1 << 20)
    path = tmp_path / "log.csv.gz"
    path.write_bytes(gzip.compress(b"action,reward\nsmall,1\nlarge," + b"0" * (32 << 20), 1))
    tracemalloc.start()
    try:
        row, problem = files.rows_of(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert row == (2, {"action": "small", "reward": "1"})
    assert isinstance(problem, Problem)
    assert (problem.line, problem.message) == (3, "the row is longer than 1,048,576 characters.")
    assert peak < 8 << 20  # the line has 32 MB


def test_a_quote_that_never_closes_is_bounded_like_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (files, text_files):
        monkeypatch.setattr(module, "LONGEST", 1 << 20)
    path = tmp_path / "log.csv"
    path.write_bytes(b'action,reward\nsmall,"' + b"0123456789\n" * 200_000)
    (problem,) = files.rows_of(path)
    assert isinstance(problem, Problem)
    assert (problem.line, problem.message) == (2, "the row is longer than 1,048,576 characters.")


@pytest.mark.parametrize("same", [False, True])
def test_sixty_thousand_columns_are_refused_at_once(project: Project, tmp_path: Path, same: bool) -> None:
    path = tmp_path / "log.csv"
    names = ",".join("a" if same else f"c{n}" for n in range(60_000))
    path.write_text(f"{names}\n{'1,' * 59_999}1\n")
    with pytest.raises(InvalidInput, match=r"line 1: the header has 60,000 columns, at most 10,000 are allowed"):
        project.import_file(path)
