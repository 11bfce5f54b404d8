"""`make bench` checks the benchmark contract and reports a benchmark that breaks it."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from benchmarks._run import BEGIN, END, ROWS_AT_MOST, Headline, check, headlines, main, names, number, render, table

GOOD = {
    "benchmark": "store",
    "host": {"cpu": "x86"},
    "versions": {},
    "figures": {"rows": 12345.678},
    "ratios": {"vs": 0.5},
}
DECLARED = """
[[headline]]
benchmark = "store"
what = "rows written"
peer = "sqlite3"
ratio = "vs"
ours = "rows"
unit = "/s"
"""
ROW = Headline(benchmark="store", what="rows written", peer="sqlite3", ratio="vs")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository with one benchmark that works and a table to fill."""
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    (folder / "README.md").write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", "utf-8")
    (folder / "targets.toml").write_text("[store]\nvs = 0.8\n", "utf-8")
    (folder / "headlines.toml").write_text(DECLARED, "utf-8")
    (folder / "_shared.py").write_text("raise SystemExit(9)\n", "utf-8")
    (folder / "store.py").write_text(
        f"import json, sys\nprint('progress', *sys.argv[1:])\nprint(json.dumps({GOOD!r}))\n", "utf-8"
    )
    return folder


def test_each_benchmark_is_run_and_its_last_line_becomes_a_row(folder: Path) -> None:
    assert names(folder) == ["store"]
    assert main(["--quick"], folder) == 0
    stored = json.loads((folder / "results" / "store.json").read_text("utf-8"))
    assert stored["ratios"] == {"vs": 0.5}
    assert stored["command"] == "python benchmarks/store.py --quick --json"
    text = (folder / "README.md").read_text("utf-8")
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    row = next(line for line in text.splitlines() if "| rows written |" in line)
    assert "| sqlite3 | 12,346/s |" in row
    assert "0.5000×" in row
    assert "0.8000× **(missed)**" in row
    assert "`python benchmarks/store.py --quick --json`" in row


def test_rendering_twice_changes_nothing(folder: Path) -> None:
    main([], folder)
    once = (folder / "README.md").read_text("utf-8")
    assert main(["--render"], folder) == 0
    assert (folder / "README.md").read_text("utf-8") == once


@pytest.mark.parametrize(
    ("code", "report"),
    [
        ("raise SystemExit(3)", "exit status 3"),
        ("print('no result')", "not JSON"),
        ("print('[]')", "not a JSON object"),
        ('print(\'{"benchmark": "broken"}\')', "'host' is None"),
    ],
)
def test_a_broken_benchmark_is_named_and_the_other_results_are_kept(
    folder: Path, capsys: pytest.CaptureFixture[str], code: str, report: str
) -> None:
    (folder / "broken.py").write_text(code, "utf-8")
    assert main([], folder) == 1
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("failed: broken: ")]
    assert report in line
    assert [path.stem for path in (folder / "results").iterdir()] == ["store"]


def test_a_lower_bound_is_marked_and_only_a_ratio_can_be_one(folder: Path) -> None:
    results = folder / "results"
    results.mkdir()
    (results / "store.json").write_text(json.dumps({**GOOD, "at_least": ["vs"]}), "utf-8")
    assert "**≥ 0.5000×**" in table(results, [ROW], {})
    with pytest.raises(ValueError, match="rows, which is not a ratio"):
        check({**GOOD, "at_least": ["rows"]}, "store")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True, "1", None])
def test_a_figure_that_is_not_a_number_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="expected a finite number"):
        check({**GOOD, "figures": {"rows": value}}, "store")


def test_an_unknown_name_is_refused_before_anything_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["stor"], folder)
    assert "Known: store" in capsys.readouterr().err


def test_a_table_without_marks_is_not_overwritten(folder: Path) -> None:
    (folder / "README.md").write_text("mine\n", "utf-8")
    with pytest.raises(ValueError, match="lacks its marks"):
        render(folder)
    assert (folder / "README.md").read_text("utf-8") == "mine\n"


def test_recorded_results_satisfy_the_contract_and_give_the_table(root: Path) -> None:
    """The committed table is generated from the committed results; no figure was edited by hand."""
    results = root / "benchmarks" / "results"
    for path in results.glob("*.json"):
        check(json.loads(path.read_text("utf-8")), path.stem)
    least = tomllib.loads((root / "benchmarks" / "targets.toml").read_text("utf-8"))
    declared = headlines(root / "benchmarks" / "headlines.toml")
    assert {row.benchmark for row in declared} <= {path.stem for path in results.glob("*.json")}
    assert table(results, declared, least) in (root / "benchmarks" / "README.md").read_text("utf-8")


def test_an_unrecorded_ratio_is_computed_from_both_figures(folder: Path) -> None:
    results = folder / "results"
    results.mkdir()
    (results / "store.json").write_text(json.dumps({**GOOD, "figures": {"a": 3, "b": 2}}), "utf-8")
    row = Headline(benchmark="store", what="score", peer="sqlite3", ours="a", theirs="b")
    assert "| score | sqlite3 | 3 | 2 | **1.500×** | |" in table(results, [row], {}).replace("|  |", "| |")


def test_a_figure_without_a_headline_stays_in_the_results(folder: Path) -> None:
    (folder / "headlines.toml").write_text("", "utf-8")
    assert main([], folder) == 0
    assert "12,346" not in (folder / "README.md").read_text("utf-8")
    assert json.loads((folder / "results" / "store.json").read_text("utf-8"))["figures"] == GOOD["figures"]


def test_too_many_rows_are_refused(folder: Path) -> None:
    (folder / "headlines.toml").write_text(DECLARED * (ROWS_AT_MOST + 1), "utf-8")
    with pytest.raises(ValueError, match="26 rows, at most 25"):
        headlines(folder / "headlines.toml")


def test_a_headline_without_a_ratio_is_refused(folder: Path) -> None:
    (folder / "headlines.toml").write_text(DECLARED.replace('ratio = "vs"', ""), "utf-8")
    with pytest.raises(ValueError, match="neither 'ratio' nor both"):
        headlines(folder / "headlines.toml")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (12345.678, "12,346"),
        (4, "4"),
        (0.0, "0"),
        (0.04712, "0.04712"),
        (1.5, "1.500"),
        (2e-7, "2e-07"),
        (-3.25, "-3.250"),
    ],
)
def test_numbers_are_shown_with_four_digits(value: float, shown: str) -> None:
    assert number(value) == shown
