"""A project that imports its own export learns the same policy: the order in which outcomes became known is kept."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headway.kits.data.exporter import ExportFilter, export
from headway.project import Project

TOML = """[tasks.route]
actions = ["small", "large"]
reward = { solved = 1.0 }
reward_after_s = 3600
on_censored = 0.25
"""


def played(project: Project, clock: list[float], *, corrected: bool) -> list[str]:
    """Two hundred decisions, rated in another order than they were made in; some are never rated."""
    rng = random.Random(5)
    ids = []
    for number in range(200):
        clock[0] += 1.0
        ids.append(project.decide("route", f"ask {number}", state={"x": rng.random()}).id)
    project.settle("route")
    order = rng.sample(ids, 180)
    for place, identifier in enumerate(order):
        clock[0] += 1.0
        project.signal(identifier, solved=rng.random())
        if corrected and place == 90:
            project.settle("route")
            clock[0] += 4000.0
            project.settle("route")  # what is unrated by now is censored, and rated afterwards
    if corrected:
        project.settle("route")
        for identifier in order[:30]:
            project.signal(identifier, solved=rng.random())
        for identifier in order[30:35]:
            project.withdraw(identifier, "solved")
    clock[0] += 4000.0
    project.settle("route")
    return ids


def opened(folder: Path, clock: list[float], **more: Any) -> Project:
    folder.mkdir(exist_ok=True)
    (folder / "headway.toml").write_text(TOML)
    return Project(folder, environ={}, seed=3, clock=lambda: clock[0], **more)


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize("corrected", [False, True])
def test_an_import_learns_the_policy_of_the_export(tmp_path: Path, kind: str, corrected: bool) -> None:
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    clock = [1_790_000_000.0]
    path = tmp_path / f"route.{kind}"
    with (
        opened(tmp_path / "one", clock, source="synthetic") as one,
        opened(tmp_path / "two", clock, source="synthetic") as two,
    ):
        played(one, clock, corrected=corrected)
        export(one.database, one.query, path, ExportFilter(), format=kind, now=clock[0])
        two.import_file(path)
        two.settle("route")
        ours = [(row.decision.id, row.reward, row.status) for row in one.query.settled("route")]
        theirs = [(row.decision.id, row.reward, row.status) for row in two.query.settled("route")]
        assert [row for row in ours if row[2] != "pending"] == theirs
        assert ours != sorted(ours), "the order of ids would have been kept anyway"
        first, second = one.learn("route"), two.learn("route")
        (_, learned), (_, again) = (project.registry.load(project.registry.find(ref), task="route")
                                    for project, ref in ((one, first), (two, second)))  # fmt: skip
        assert learned.keys() == again.keys()
        for name, tensor in learned.items():
            np.testing.assert_array_equal(np.asarray(tensor), np.asarray(again[name]))
        if not corrected:
            assert one.registry.find(first) == two.registry.find(second), "the same rows under the same numbers"


def test_a_file_without_the_order_is_still_read(tmp_path: Path) -> None:
    import json

    clock = [1_790_000_000.0]
    path = tmp_path / "route.jsonl"
    with opened(tmp_path / "one", clock) as one, opened(tmp_path / "two", clock) as two:
        ids = played(one, clock, corrected=False)
        export(one.database, one.query, path, ExportFilter(), format="jsonl", now=clock[0])
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        for row in rows:
            del row["settled"]
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        report = two.import_file(path)
        assert (report.stored, report.ignored) == (len(ids), {})
        two.settle("route")
        assert {row.decision.id for row in two.query.settled("route")} == set(ids)
