"""Exports contain exactly the selected decisions, appear completely or not at all, and have a correct manifest."""

from __future__ import annotations

import csv
import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import headway
from headway.kits.data.exporter import FORMATS, ExportFilter, export
from headway.kits.raters.commands.analyze import distribution
from headway.nouns.errors import Conflict, HeadwayError, InvalidInput, MissingExtra
from headway.project import Project


@pytest.fixture
def project(tmp_path: Path, environ: dict[str, str]) -> Any:
    now = [1_000_000.0]

    def clock() -> float:
        now[0] += 1.0
        return now[0]

    with Project(tmp_path / "project", environ=environ, clock=clock, seed=1) as project:
        for at in range(30):
            task = "route" if at % 3 else "other"
            source: Any = "synthetic" if at % 2 else "real"
            made = project.decide(
                task,
                f"=HYPERLINK(evil) {at}" if at == 4 else f"ask {at}",
                ["a", {"name": "b", "cost": 0.5}],
                state={"x": float(at), "kind": "k"},
                role="coder" if at % 5 else "",
                episode=f"e{at}" if at == 7 else None,
                source=source,
            )
            if at < 20:
                project.signal(made.id, reward=at / 30, rater="ann", label="@SUM(1)")
                project.signal(made.id, cost=0.5)
            if at == 7:
                project.signal(project.episode(task, "e7"), stars=4.0)
            if at == 3:
                project.withdraw(made.id, "cost")
        project.settle("route")
        project.settle("other")
        yield project


def write(project: Project, path: Path, **wanted: Any) -> dict[str, Any]:
    options = {name: wanted.pop(name) for name in ("format", "overwrite") if name in wanted}
    return export(project.database, project.query, path, ExportFilter(**wanted), now=2e6, version="1", **options)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_every_decision_is_exported_with_its_signals_and_outcome(project: Project, tmp_path: Path) -> None:
    manifest = write(project, tmp_path / "all.jsonl")
    rows = lines(tmp_path / "all.jsonl")
    assert manifest["decisions"] == len(rows) == 30
    by_text = {row["text"]: row for row in rows}
    row = by_text["ask 5"]
    stored = project.query.decision(row["id"])
    assert row["probabilities"] == list(stored.probabilities)
    assert row["propensity"] == stored.propensity
    assert row["seed"] == stored.seed
    assert row["candidates"] == ["a", {"name": "b", "cost": 0.5}]
    assert (row["status"], row["reward"], row["state"]) == ("rewarded", 5 / 30, {"x": 5.0, "kind": "k"})
    assert [(signal["name"], signal["value"], signal["rater"]) for signal in row["signals"]] == [
        ("reward", 5 / 30, "ann"),
        ("cost", 0.5, ""),
    ]
    assert [signal["name"] for signal in by_text["ask 3"]["signals"]] == ["reward"], "a withdrawn signal does not count"
    assert [signal["name"] for signal in by_text["ask 7"]["episode_signals"]] == ["stars"]
    assert (by_text["ask 25"]["status"], by_text["ask 25"]["reward"]) == ("pending", None)


def test_the_manifest_counts_and_hashes_the_file(project: Project, tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    manifest = write(project, path)
    assert json.loads((tmp_path / "all.jsonl.manifest.json").read_text("utf-8")) == manifest
    assert manifest["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert manifest["bytes"] == path.stat().st_size
    assert manifest["by_source"] == {"real": 15, "synthetic": 15}
    assert manifest["by_task"] == {"other": 10, "route": 20}
    assert manifest["by_role"] == {"coder": 24, "none": 6}
    assert manifest["by_status"] == {"pending": 10, "rewarded": 20}
    assert manifest["by_reward_version"] == {project.rewards("route").version: 20, "none": 10}
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(file.name for file in tmp_path.iterdir() if file.is_file()) == [
        "all.jsonl",
        "all.jsonl.manifest.json",
    ]


@pytest.mark.parametrize(
    ("wanted", "keep"),
    [
        ({"tasks": ("route",)}, lambda row: row["task"] == "route"),
        ({"tasks": ("route", "other")}, lambda row: True),
        ({"tasks": ("nothing",)}, lambda row: False),
        ({"source": "real"}, lambda row: row["source"] == "real"),
        ({"role": "coder"}, lambda row: row["role"] == "coder"),
        ({"role": ""}, lambda row: row["role"] == ""),
        ({"since": 1_000_030.0}, lambda row: row["at"] >= "1970-01-12T13:47:10"),
        ({"until": 1_000_030.0}, lambda row: row["at"] < "1970-01-12T13:47:10"),
        ({"since": 1_000_010.0, "until": 1_000_020.0, "source": "real"}, None),
    ],
)
def test_filters_select_the_decisions_they_name(
    project: Project, tmp_path: Path, wanted: dict[str, Any], keep: Any
) -> None:
    write(project, tmp_path / "all.jsonl")
    manifest = write(project, tmp_path / "some.jsonl", **wanted)
    every, some = lines(tmp_path / "all.jsonl"), lines(tmp_path / "some.jsonl")
    if keep is None:
        assert 0 < len(some) < len(every)
    else:
        assert some == [row for row in every if keep(row)]
    assert manifest["decisions"] == len(some)


def test_parquet_and_csv_have_the_same_content_as_json(project: Project, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    for name in FORMATS:
        write(project, tmp_path / f"all.{name}", format=name)
    rows = lines(tmp_path / "all.jsonl")
    table = parquet.read_table(tmp_path / "all.parquet").to_pylist()
    for row, cells in zip(rows, table, strict=True):
        cells |= {name: json.loads(cells[name]) for name in ("state", "candidates", "details")}
        assert cells == row
    with (tmp_path / "all.csv").open(encoding="utf-8", newline="") as file:
        written = list(csv.DictReader(file))
    assert set(written[0]) == set(rows[0])
    for row, cells in zip(rows, written, strict=True):
        assert cells["id"] == row["id"]
        assert float(cells["propensity"]) == row["propensity"]
        assert json.loads(cells["signals"]) == row["signals"]


def test_a_csv_cell_is_never_a_formula(project: Project, tmp_path: Path) -> None:
    write(project, tmp_path / "all.csv", format="csv")
    with (tmp_path / "all.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    texts = [row["text"] for row in rows]
    assert "'=HYPERLINK(evil) 4" in texts
    for row in rows:
        for name, cell in row.items():
            if name not in ("reward", "propensity"):
                assert not cell.startswith(("=", "+", "@", "\t", "\r", "-")), cell


def test_a_file_is_overwritten_only_when_asked(project: Project, tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    path.write_text("mine", "utf-8")
    with pytest.raises(Conflict) as error:
        write(project, path)
    assert error.value.code == "file_exists"
    assert path.read_text("utf-8") == "mine"
    assert write(project, path, overwrite=True)["decisions"] == 30


@pytest.mark.parametrize("tasks", [("route",), ("other", "route"), ()])
def test_a_page_is_read_without_sorting_the_rest_of_the_store(
    project: Project, tmp_path: Path, tasks: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    if project.database.engine != "sqlite":
        pytest.skip("reads the plan of SQLite")
    seen: list[tuple[str, Any]] = []
    query = project.database.query
    monkeypatch.setattr(
        project.database, "query", lambda sql, values=(): (seen.append((sql, values)), query(sql, values))[1]
    )
    export(project.database, project.query, tmp_path / "some.jsonl", ExportFilter(tasks=tasks), now=1.0)
    pages = [(sql, values) for sql, values in seen if "FROM decisions d LEFT JOIN settled s" in sql]
    assert pages
    for sql, values in pages:
        plan = [row[3] for row in query(f"EXPLAIN QUERY PLAN {sql}", values)]
        assert not [step for step in plan if "TEMP B-TREE" in step], plan


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_a_failed_export_leaves_no_file(
    project: Project, tmp_path: Path, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(what: str, done: int, of: int | None) -> None:
        raise OSError(28, "No space left on device")

    folder = tmp_path / "out"
    folder.mkdir()
    with pytest.raises(HeadwayError) as error:
        export(project.database, project.query, folder / "x", ExportFilter(), format=kind, now=0.0, progress=broken)
    assert error.value.code == "disk_full"
    assert not list(folder.iterdir())


def test_a_missing_package_is_named(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match="headway\\[parquet\\]"):
        write(project, tmp_path / "x.parquet", format="parquet")
    with pytest.raises(InvalidInput):
        write(project, tmp_path / "x.xml", format="xml")
    assert not list(tmp_path.glob("x*"))


def test_an_empty_store_gives_an_empty_file_with_a_manifest(tmp_path: Path, environ: dict[str, str]) -> None:
    with headway.open(tmp_path / "new", environ=environ) as project:
        for kind in ("jsonl", "csv"):
            assert write(project, tmp_path / f"none.{kind}", format=kind)["decisions"] == 0
    assert (tmp_path / "none.jsonl").read_text("utf-8") == ""
    assert (tmp_path / "none.csv").read_text("utf-8").startswith("id,task,at")


CHILD = """
import resource, sys
from pathlib import Path
from headway.project import Project
from headway.kits.data.exporter import ExportFilter, export
with Project(Path(sys.argv[1])) as project:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    export(project.database, project.query, Path(sys.argv[2]), ExportFilter(), now=0.0, format=sys.argv[3])
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("format", "most"), [("jsonl", 20e6), ("parquet", 90e6)])
def test_memory_is_bounded(tmp_path: Path, format: str, most: float) -> None:
    """Parquet also loads its library and holds a row group of 8 MB; the whole file is 150 MB of objects."""
    folder, size = tmp_path / "project", 8_000
    with Project(folder, seed=1) as project:
        for start in range(0, size, 1000):
            made = [project.consider("route", "words " * 500 + str(start + at), ["a", "b"]) for at in range(1000)]
            project.submit(made).result()
    done = subprocess.run(
        [sys.executable, "-c", CHILD, folder, tmp_path / "x", format], capture_output=True, text=True, check=True
    )
    grown = int(done.stdout) * (1 if sys.platform == "darwin" else 1024)
    if format == "jsonl":
        assert (tmp_path / "x").stat().st_size > 24e6
    else:
        from pyarrow import parquet

        assert parquet.ParquetFile(tmp_path / "x").metadata.num_row_groups == 3
    assert grown < most, "a page at a time, not the whole file"


def test_rewards_are_counted_by_role_source_action_and_rater(project: Project) -> None:
    spreads = distribution(project.database, project.query, "route", low=-1.0, high=1.0)
    rows = [row for row in project.query.settled("route") if row.reward is not None]
    rewards = [row.reward for row in rows if row.reward is not None]
    whole = spreads.whole
    assert (whole.decisions, whole.n, whole.pending, whole.rewarded) == (20, len(rows), 20 - len(rows), len(rows))
    assert whole.mean == pytest.approx(sum(rewards) / len(rewards))
    mean = sum(rewards) / len(rewards)
    assert whole.std == pytest.approx((sum((reward - mean) ** 2 for reward in rewards) / (len(rewards) - 1)) ** 0.5)
    assert (whole.low, whole.high) == (min(rewards), max(rewards))
    assert sum(whole.bins) == len(rows)
    for reward in rewards:
        place = sum(1 for edge in spreads.edges[1:-1] if edge <= reward + 1e-12)
        assert whole.bins[place] > 0
    for kind, name_of in (
        ("role", lambda row: row.decision.situation.role or "none"),
        ("source", lambda row: row.decision.source),
        ("action", lambda row: row.decision.action),
    ):
        for name, spread in spreads.groups[kind].items():
            mine = [row.reward for row in rows if name_of(row) == name]
            assert spread.n == len(mine)
            assert spread.mean == (pytest.approx(sum(mine) / len(mine)) if mine else None)
        assert sum(spread.decisions for spread in spreads.groups[kind].values()) == 20
    assert spreads.raters["ann", "reward"].n == len(rows)
    assert set(spreads.raters) == {("ann", "reward"), ("unnamed", "cost")}


def test_the_ends_of_the_range_fall_into_the_first_and_the_last_bin(tmp_path: Path, environ: dict[str, str]) -> None:
    with headway.open(tmp_path / "ends", environ=environ) as project:
        for reward in (-1.0, 1.0, -1.0, 1.0, 1.0):
            project.signal(project.decide("route", "x", ["a", "b"]).id, reward=reward)
        project.settle("route")
        rewards = distribution(project.database, project.query, "route", low=-1.0, high=1.0)
    assert (rewards.whole.bins[0], rewards.whole.bins[-1], sum(rewards.whole.bins)) == (2, 3, 5)
