"""What the page shows of an evaluation: kept as data, read back without torch, refused with a place."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from headway.kits.grow.kept_evaluations import keep_evaluation, kept_evaluations
from tests.page.growing import TOML, small_evaluation
from tests.serve.conftest import Running

EVALUATION = small_evaluation()


def test_the_newest_evaluation_of_each_policy_of_a_task_is_read_back(tmp_path: Path) -> None:
    second = replace(EVALUATION, policies=["recurrent@51c0"], at="2026-11-04T10:00:00Z")
    other = replace(EVALUATION, task="other")
    for each in (replace(EVALUATION, hosts=2), second, other, EVALUATION):
        keep_evaluation(tmp_path, each)
    assert kept_evaluations(tmp_path, "grow") == [second, EVALUATION]
    (damaged,) = [path for path in (tmp_path / "work" / "grow-evaluations").iterdir() if b"51c0" in path.read_bytes()]
    damaged.write_text('{"task": "grow"}')
    assert kept_evaluations(tmp_path, "grow") == [EVALUATION]
    assert kept_evaluations(tmp_path / "nowhere", "grow") == []


def test_only_the_newest_evaluations_are_kept(tmp_path: Path) -> None:
    for place in range(53):
        path = keep_evaluation(tmp_path, replace(EVALUATION, policies=[f"recurrent@{place:04}"], at=f"{place:04}"))
        os.utime(path, ns=(place, place))
    kept = [each.policies[0] for each in kept_evaluations(tmp_path, "grow")]
    assert kept[0] == "recurrent@0052"
    assert len(kept) == 50
    assert kept[-1] == "recurrent@0003"


def test_the_records_are_read_without_torch_and_numpy() -> None:
    code = "import sys, headway.kits.grow.routes; print([name for name in ('torch', 'numpy') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_route_answers_with_the_evaluation_or_with_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "headway.toml").write_text(TOML, "utf-8")
    keep_evaluation(tmp_path / ".headway", EVALUATION)
    server = Running(tmp_path)
    try:
        answer = server.client.get("/v1/tasks/grow/grow").json()
        assert answer["evaluated"] == ["recurrent@8743"]
        assert answer["evaluation"]["episodes"][0]["slots"][0]["alphas"] == [0.0, 0.0, 0.0, 0.25, 0.5, 0.5]
        assert answer == server.client.get("/v1/tasks/grow/grow?policy=recurrent@8743").json()
        unknown = server.client.get("/v1/tasks/grow/grow?policy=recurrent@8744")
        assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "unknown_policy")
        assert "recurrent@8743" in unknown.json()["error"]["hint"]
        assert server.client.get("/v1/tasks/nowhere/grow").status_code == 404
    finally:
        assert "Traceback" not in server.stop()
