"""Bad input gives a code, a message, a hint and an exit status, and leaves the store unchanged."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.terminal import contents, headway, process, without_progress

NOBODY = "dec_0197c1f2a3b47000a1b2c3d4e5f60718"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["decide", "rute", "x"], "unknown_task"),
        (["decide", "Not A Task", "x"], "bad_task_name"),
        (["decide", "route", "x", "--candidates", "small,huge"], "unknown_action"),
        (["decide", "route", "x", "--candidates", "small,small"], "duplicate_candidate"),
        (["decide", "route", "x", "--candidate", "{broken"], "bad_candidate"),
        (["decide", "route", "x", "--state", "score=nan"], "not_finite"),
        (["decide", "route", "x", "--state", "score"], "bad_pair"),
        (["decide", "route", "x", "--state", "a=1", "--state", "a=2"], "bad_pair"),
        (["decide", "route", "x", "--id", "seven"], "bad_id"),
        (["decide", "route", "x", "--step", "-1", "--episode", "e"], "bad_step"),
        (["signal", NOBODY, "reward=nan"], "bad_signal"),
        (["signal", NOBODY, "reward=inf"], "bad_signal"),
        (["signal", NOBODY, "reward=good"], "bad_signal"),
        (["signal", NOBODY, "reward=1"], "unknown_decision"),
        (["signal", "dec_1", "reward=1"], "bad_id"),
        (["signal", NOBODY, "reward"], "bad_pair"),
        (["explain", NOBODY], "unknown_decision"),
        (["explain", "nothing"], "bad_id"),
        (["learn", "rute"], "unknown_task"),
        (["learn", "route", "--family", "bandits"], "family_missing"),
        (["prove", "route", "--policy", "bandit@ffff"], "unknown_policy"),
        (["prove", "route", "--policy", "bandit"], "bad_reference"),
        (["prove", "rute"], "unknown_task"),
        (["promote", "route", "--policy", "bandit@ffffffff"], "unknown_policy"),
        (["promote", "route"], "already_current"),
        (["promote", "route", "--canary", "1.5"], "bad_share"),
        (["rollback", "rute"], "unknown_task"),
        (["rollback", "route", "--to", "bandit@ffff"], "unknown_policy"),
        (["plan", "route", "--uplift", "0.1"], "same_policy"),
        (["rank", "route", "[broken"], "bad_candidates"),
        (["rank", "route", '{"a": 1}'], "bad_candidates"),
        (["rank", "route", "no-such-file.json"], "bad_candidates"),
        (["data", "stats", "rute"], "unknown_task"),
        (["data", "export", "--out", "x.jsonl", "--since", "yesterday"], "bad_time"),
        (["data", "export", "--out", "no/such/folder/x.jsonl"], "export_not_written"),
        (["rewards", "analyze", "rute"], "unknown_task"),
        (["audit", "no-such-file.csv"], None),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else str(value),
)
@pytest.mark.kits("next_action", "raters", "audit")
def test_bad_input_is_an_error_and_nothing_is_stored(
    project: Path, words: list[str], code: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    before = contents(project)
    done = headway(*words)
    assert done.code == 1, done.out
    assert done.err.startswith("Error: ")
    assert "Traceback" not in done.err
    report = headway(*words, "--json")
    assert (report.code, report.err) == (1, "")
    assert set(report.error) == {"code", "message", "hint"}
    assert code is None or report.error["code"] == code
    assert report.error["message"] in done.err
    assert contents(project) == before


@pytest.mark.parametrize(
    "words",
    [
        ["learn"],
        ["learn", "route", "--nonsense"],
        ["signal", NOBODY],
        ["prove"],
        ["prove", "route", "--log", "x.csv"],
        ["prove", "route", "--target", "column"],
        ["plan", "route", "--uplift", "much"],
        ["score", "route"],
        ["demo", "nonsense"],
        ["demo", "--n", "3"],
        ["completion", "powershell"],
        ["init", "--actions", "a,b"],
        ["data", "log", "-n", "0"],
        ["rank", "route", "-", "--text", "-"],
    ],
    ids=" ".join,
)
def test_an_invalid_command_line_exits_with_status_two(empty: Path, words: list[str]) -> None:
    done = headway("-C", empty, *words)
    assert (done.code, done.out) == (2, "")
    assert "--help" in done.err
    assert headway("-C", empty, *words, "--json").error["code"] == "usage"
    assert not list(empty.iterdir())


@pytest.mark.parametrize("words", [["status"], ["learn", "route"], ["explain", NOBODY], ["data", "stats"]])
def test_read_only_commands_create_no_project(empty: Path, words: list[str]) -> None:
    assert headway("-C", empty, *words, "--json").error["code"] == "no_project"
    assert headway("-C", empty / "gone", *words, "--json").error["code"] == "no_folder"
    assert not list(empty.iterdir())
    (empty / "headway.toml").touch()
    assert "is a file, not a folder" in headway("-C", empty / "headway.toml", *words).err


def damage(project: Path) -> None:
    (bundle,) = (project / ".headway" / "policies").iterdir()
    weights = bundle / "weights.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 0xFF
    weights.write_bytes(content)


@pytest.mark.parametrize("to", [pytest.param([], marks=pytest.mark.slow), ["--to", "uniform@0"]])
def test_a_damaged_bundle_makes_no_decisions_and_can_be_rolled_back(project: Path, to: list[str]) -> None:
    damage(project)
    before = contents(project)
    done = headway("-C", project, "decide", "route", "x", "--json")
    assert (done.code, done.error["code"]) == (1, "bundle_hash_mismatch")
    assert contents(project) == before
    assert headway("-C", project, "promote", "route", "--json").code == 1
    report = headway("-C", project, "doctor", "--json")
    assert report.code == 1
    assert {check["name"] for check in report.json["checks"] if check["ok"] is False} == {
        "policies",
        "current of route",
    }
    assert headway("-C", project, "rollback", "route", *to).code == 0
    assert headway("-C", project, "decide", "route", "x").code == 0


def test_a_bundle_of_another_task_is_refused(project: Path) -> None:
    toml = project / "headway.toml"
    toml.write_text(toml.read_text("utf-8") + '\n[tasks.other]\nactions = ["small", "large"]\n', "utf-8")
    current = headway("-C", project, "status", "--json").json["tasks"]
    (policy,) = [row["current"] for row in current if row["task"] == "route"]
    before = contents(project)
    for words in (["promote", "other", "--policy", policy], ["prove", "other", "--policy", policy]):
        assert headway("-C", project, *words, "--json").error["code"] == "wrong_task"
    assert headway("-C", project, "rollback", "other", "--to", policy, "--json").error["code"] == "wrong_task"
    assert contents(project) == before


def test_promotion_without_evidence_is_refused_with_reasons(project: Path) -> None:
    headway("-C", project, "rollback", "route")
    headway("-C", project, "learn", "route", "--set", "model=clusters", "--set", "clusters=4")
    before = contents(project)["ledger"]
    done = headway("-C", project, "promote", "route", "--json")
    assert (done.code, done.error["code"]) == (1, "gate_refused")
    assert done.error["reasons"]
    assert "headway prove route" in done.error["hint"]
    assert contents(project)["ledger"] == before


def test_broken_settings_are_an_error_that_names_the_file(project: Path) -> None:
    (project / "headway.toml").write_text("[tasks.route]\nactoins = []\n", "utf-8")
    done = headway("-C", project, "status", "--json")
    assert done.code == 1
    assert "headway.toml" in done.error["message"]
    assert "actions" in done.error["hint"]


def test_a_closed_pipe_leaves_no_traceback(project: Path) -> None:
    program = Path(sys.executable).with_name("headway")
    done = subprocess.run(
        ["bash", "-c", f"{program} data log -n 1500 | head -n 1"],
        cwd=project,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("id ")
    assert without_progress(done.stderr) == ""


def test_an_interrupt_is_one_line(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from headway.project import Project

    def interrupted(self: Project) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Project, "status", interrupted)
    done = headway("-C", project, "status")
    assert (done.code, done.err) == (130, "\nError: Interrupted.\n")


def test_a_folder_that_cannot_be_written_is_an_error(project: Path) -> None:
    shutil.rmtree(project / ".headway")
    (project / ".headway").write_text("a file", "utf-8")
    done = process("decide", "route", "x", cwd=project)
    assert done.code == 1
    assert done.err.startswith("Error: ")
    assert "Traceback" not in done.err
