"""Log rows and helpers for the tests of imports."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from headway.kits.data import ImportReport
from headway.project import Project

INTERACTION = {"timestamp": "2026-05-22T10:32:01Z", "prompt": "Why?", "response": "Because.", "reward": 0.5}


def lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return path


def adds_up(report: ImportReport) -> bool:
    parts = (report.stored, report.already, report.late, report.conflicts, report.rejected, report.skipped)
    return report.read == sum(parts) and report.records == sum(report.statuses.values()) == sum(report.sources.values())


def stored(project: Project) -> int:
    return int(project.database.query("SELECT COUNT(*) FROM decisions")[0][0])


def sage_row(n: int) -> dict[str, Any]:
    rng = random.Random(n)
    used = rng.random() < 0.4
    return {
        "schema_version": "1", "session_id": f"s{n % 7}", "task_id": f"synth_coder_{n:06d}", "agent_role": "coder",
        "timestamp": f"2025-12-0{1 + n % 9}T00:00:00.{n:06d}+00:00", "task_complexity_score": rng.random(),
        "primary_failure_count": rng.randint(0, 4), "action_fallback": int(used), "primary_model": "qwen2.5-coder:1.5b",
        "fallback_model": "größer:14b", "model_chosen": "größer:14b" if used else "qwen2.5-coder:1.5b",
        "reward": rng.uniform(-1.0, 1.25), "terminal": True, "reward_version": "reward_v1",
        "data_source": ["real", "synthetic", "unknown"][n % 3],
        "state": {"task_complexity_score": 0.5, "files": ["a"], "nested": {"deep": None}, "verification_passed": True},
    }  # fmt: skip
