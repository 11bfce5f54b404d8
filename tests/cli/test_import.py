"""`headway data import`, `mine`, `transform` and `leaks`, as typed."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.cli.terminal import headway, process

TOML = '[tasks.next-action]\nkind = "ranking"\nfamily = "bandit"\nreward = { composite_delta = 1.0 }\n'


def buffer(count: int = 60) -> list[dict[str, Any]]:
    rng = random.Random(3)
    rows = []
    for n in range(count):
        delta = round(rng.gauss(0, 0.1), 4)
        rows.append(
            {
                "id": f"tb_{n}", "ts": f"2026-03-11T10:{n % 60:02}:00Z", "agent": "a",
                "state": {"composite_score": round(rng.random(), 3), "recent_deltas": [0.0, delta]},
                "action": {"type": "fix", "description": f"Change {n} ({delta:+.4f})", "scope": "small",
                           "branch": f"b{n}"},
                "reward": {"composite_delta": delta}, "metadata": {"source": "autoresearch", "round": n},
            }
        )  # fmt: skip
    return rows


def lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return path


@pytest.fixture
def folder(empty: Path) -> Path:
    (empty / "headway.toml").write_text(TOML, "utf-8")
    return empty


@pytest.mark.kits("formats", "next_action")
def test_an_import_is_reported_and_a_second_one_changes_nothing(folder: Path, tmp_path: Path) -> None:
    path = lines(tmp_path / "buffer.jsonl", buffer())
    done = headway("-C", folder, "data", "import", path)
    assert done.code == 0, done.err
    assert (
        "leak: 60 of 60 labelled rows give their outcome away; learning leaves action.description:numbers, " in done.out
    )
    assert "fields that are not imported: metadata.round (60)" in done.out
    assert "Next: headway -C" in done.out
    (report,) = headway("-C", folder, "data", "import", path, "--json").json["files"]
    counts = ("read", "stored", "already", "late", "conflicts", "rejected", "skipped")
    assert [report[name] for name in counts] == [60, 0, 60, 0, 0, 0, 0]
    assert report["leaks"]["fields"] == ["action.description:numbers", "recent_deltas"]
    assert report["statuses"] == {"rewarded": 60}


@pytest.mark.kits("formats", "next_action")
def test_leaks_are_shown_by_stats_leaks_learn_and_doctor(folder: Path, tmp_path: Path) -> None:
    headway("-C", folder, "data", "import", lines(tmp_path / "buffer.jsonl", buffer()))
    assert "recent_deltas[-1]" in headway("-C", folder, "data", "stats").out
    done = headway("-C", folder, "data", "leaks", "next-action", "--json")
    assert (done.code, done.json["fields"]) == (1, ["action.description:numbers", "recent_deltas"])
    learned = headway("-C", folder, "learn", "next-action")
    assert "left out: recent_deltas gives the outcome away" in learned.out, learned.err
    trusted = headway("-C", folder, "learn", "next-action", "--trust", "recent_deltas", "--json")
    assert trusted.json["trained_on"]["left_out"] == ["action.description:numbers"]
    checks = headway("-C", folder, "doctor", "--json").json["checks"]
    assert [check["ok"] for check in checks if check["name"] == "leaks of next-action"] == [None]


@pytest.mark.kits("formats", "next_action")
def test_a_bad_line_is_an_error_with_its_location_and_a_hint(folder: Path, tmp_path: Path) -> None:
    rows = buffer(5)
    rows[3]["reward"]["composite_delta"] = {"oops": ["x"]}
    rows[4]["ts"] = "yesterday"
    path = lines(tmp_path / "buffer.jsonl", rows)
    done = headway("-C", folder, "data", "import", path, "--json")
    assert done.code == 1
    assert done.error["code"] == "bad_import"
    assert done.error["message"] == "buffer.jsonl line 5: ts is 'yesterday', expected a time. Nothing was stored."
    done = headway("-C", folder, "data", "import", path, "--on-error", "skip")
    assert done.code == 0
    assert "rejected: buffer.jsonl line 5: ts is 'yesterday', expected a time." in done.out
    dry = headway("-C", folder, "data", "import", path, "--dry-run", "--json")
    assert (dry.code, dry.json["files"][0]["already"], dry.json["files"][0]["rejected"]) == (1, 4, 1)


@pytest.mark.kits("formats", "next_action")
def test_a_table_needs_a_column_mapping(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("q,model,score\nWhy?,small,0.5\n", "utf-8")
    (folder / "headway.toml").unlink()
    words = ("-C", folder, "data", "import", path, "--task", "route", "--map", "text=q", "--map", "action=model")
    assert headway(*words, "--json").error["code"] == "bad_mapping"
    done = headway(*words, "--map", "reward=score", "--map", "propensity=unknown", "--json")
    assert done.json["files"][0]["stored"] == 1
    explained = headway("-C", folder, "data", "log", "--json").json["decisions"][0]
    assert explained["propensity"] is None
    text = headway("-C", folder, "explain", explained["id"]).out
    assert "its probability is not known" in text
    assert headway("-C", folder, "explain", explained["id"], "--replay").code == 3


@pytest.mark.kits("formats", "next_action")
def test_an_imported_signal_that_the_reward_ignores_is_reported(empty: Path, tmp_path: Path) -> None:
    done = headway("-C", empty, "data", "import", lines(tmp_path / "buffer.jsonl", buffer(5)))
    assert "declare reward = { composite_delta = 1.0 } in headway.toml" in done.out


@pytest.mark.kits("formats", "next_action")
def test_mining_searches_a_folder_and_marks_the_results(folder: Path, tmp_path: Path) -> None:
    journals = tmp_path / "work" / ".jfl" / "journal"
    journals.mkdir(parents=True)
    entry = {"session": "s", "type": "fix", "title": "Mend it", "status": "complete"}
    lines(journals / "one.jsonl", [{**entry, "ts": f"2026-01-{10 + n}T00:00:00Z"} for n in range(9)])
    lines(tmp_path / "work" / "buffer.jsonl", buffer(3))
    done = headway("-C", folder, "data", "mine", tmp_path / "work")
    assert done.code == 0, done.err
    assert "9 mined labels, not measured" in done.out
    assert "is measured, not mined: headway data import" in done.out
    stats = headway("-C", folder, "data", "stats", "--json").json
    assert stats["tasks"]["next-action"]["by_source"] == {"mined": 9}
    assert headway("-C", folder, "learn", "next-action", "--json").error["code"] == "nothing_to_learn"


@pytest.mark.kits("formats", "next_action")
def test_transform_writes_the_learners_input(folder: Path, tmp_path: Path) -> None:
    headway("-C", folder, "data", "import", lines(tmp_path / "buffer.jsonl", buffer()))
    out = tmp_path / "training.jsonl"
    done = headway("-C", folder, "data", "transform", "next-action", "--out", out, "--json").json
    rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert done["rows"] == len(rows) == done["parts"]["train"] + done["parts"]["tune"]
    assert 20 < len(rows) < 60, "the part that is held out for proof is not read"
    assert all("recent_deltas" not in row["state"] and "(#)" in row["action"]["description"] for row in rows)
    assert (
        headway("-C", folder, "data", "transform", "next-action", "--out", out, "--json").error["code"] == "file_exists"
    )


@pytest.mark.kits("formats", "next_action")
def test_routing_rows_are_imported_and_exported(empty: Path, tmp_path: Path) -> None:
    row = {
        "schema_version": "1", "session_id": "s", "task_id": "t", "agent_role": "coder",
        "timestamp": "2025-01-01T00:00:00+00:00", "task_complexity_score": 0.3, "primary_failure_count": 0,
        "action_fallback": 0, "primary_model": "p", "fallback_model": "f", "model_chosen": "p", "reward": 0.75,
        "terminal": True, "reward_version": "reward_v1", "data_source": "synthetic", "state": {},
    }  # fmt: skip
    path, back = lines(tmp_path / "rows.jsonl", [row]), tmp_path / "back.jsonl"
    assert process("-C", empty, "data", "import", path, cwd=tmp_path).code == 0
    done = headway("-C", empty, "data", "export", "--format", "sage-routing", "--out", back)
    assert done.code == 0, done.err
    assert back.read_bytes() == path.read_bytes()
    assert "synthetic data: 1 decision came" in done.out
