"""The loop from the command line, on a real project."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.terminal import contents, headway, process

ANY_ID = "0197c1f2-a3b4-7000-a1b2-c3d4e5f60718"


def first_id(folder: Path) -> str:
    identifier: str = headway("-C", folder, "data", "log", "-n", 1, "--json").json["decisions"][0]["id"]
    return identifier


def candidate(folder: Path) -> str:
    policy: str = headway("-C", folder, "status", "--json").json["tasks"][0]["current"]
    return policy


def test_a_project_starts_decides_and_is_rewarded(empty: Path) -> None:
    done = headway("-C", empty, "init", "--task", "route", "--actions", "small,large", "--reward", "solved=1")
    assert done.code == 0
    assert "Next: headway -C" in done.out
    made = headway(
        "-C", empty, "decide", "route", "Fix the build", "--state", "task_complexity_score=0.9", "--json"
    ).json
    assert made["action"] in ("small", "large")
    assert made["probabilities"] == {"small": 0.5, "large": 0.5}
    assert made["next"] == f"headway -C {empty} signal {made['id']} solved=1"
    done = headway("-C", empty, "signal", made["id"], "solved=yes", "cost_usd=0.01", "--json")
    assert done.json["outcome"] == {"status": "rewarded", "reward": 1.0}
    explained = headway("-C", empty, "explain", made["id"]).out
    assert "task_complexity_score=0.9" in explained
    assert "rewarded, reward 1.000" in explained


def test_init_writes_an_example_once_and_keeps_existing_files(empty: Path) -> None:
    folder = empty / "new" / "project"
    assert headway("-C", folder, "init", "--json").json["written"] is True
    text = (folder / "headway.toml").read_text("utf-8")
    assert text.startswith("# The settings of Headway")
    (folder / "headway.toml").write_text(f"{text}# mine\n", "utf-8")
    again = headway("-C", folder, "init")
    assert "is unchanged" in again.out
    assert (folder / "headway.toml").read_text("utf-8").endswith("# mine\n")
    assert (folder / ".headway" / ".gitignore").read_text("utf-8") == "*\n"
    assert headway("-C", folder, "doctor").code == 0


def test_init_writes_only_settings_that_load(empty: Path) -> None:
    done = headway("-C", empty / "x", "init", "--task", "Not A Name", "--json")
    assert (done.code, "code" in done.error) == (1, True)
    assert not (empty / "x").exists()


def test_the_same_id_gives_the_same_decision(empty: Path) -> None:
    words = ("-C", empty, "decide", "route", "x", "--candidates", "a,b", "--id", ANY_ID, "--json")
    first, second = headway(*words).json, headway(*words).json
    assert first == second
    assert first["id"] == f"dec_{ANY_ID.replace('-', '')}"
    assert len(contents(empty)["decisions"]) == 1


def test_text_and_candidates_may_come_from_standard_input_or_be_described(empty: Path) -> None:
    done = headway(
        *("-C", empty, "decide", "route", "-", "--candidate", "plain", "--candidate", '{"name": "rich", "cost": 0.5}'),
        *("--episode", "chat-1", "--role", "coder", "--json"),
        stdin="from a pipe\n",
    )
    identifier = done.json["id"]
    report = headway("-C", empty, "explain", identifier, "--json").json
    assert (report["text"], report["role"], report["episode"]) == ("from a pipe", "coder", "chat-1")
    assert [candidate["name"] for candidate in report["candidates"]] == ["plain", "rich"]


def test_a_signal_is_replaced_withdrawn_and_accepted_early(empty: Path) -> None:
    early = headway("-C", empty, "signal", ANY_ID, "reward=0.5", "--early", "--json")
    assert (early.json["new"], early.json["outcome"]) == (1, None)
    headway("-C", empty, "decide", "route", "x", "--candidates", "a,b", "--id", ANY_ID)
    assert headway("-C", empty, "signal", ANY_ID, "reward=0.25", "--json").json["outcome"]["reward"] == 0.25
    done = headway("-C", empty, "signal", ANY_ID, "--withdraw", "reward", "--json")
    assert done.json["withdrawn"] == ["reward"]
    assert done.json["outcome"] == {"status": "pending", "reward": None}


@pytest.mark.kits("raters")
def test_two_raters_are_distinguished(empty: Path) -> None:
    headway("-C", empty, "decide", "route", "x", "--candidates", "a,b", "--id", ANY_ID)
    headway("-C", empty, "signal", ANY_ID, "reward=1", "--rater", "ann")
    done = headway("-C", empty, "signal", ANY_ID, "reward=0", "--rater", "bob", "--json")
    assert done.json["outcome"]["reward"] == 0.5
    assert done.json["undo"].endswith("--withdraw reward --rater bob")
    raters = headway("-C", empty, "rewards", "analyze", "route", "--json").json["by_rater"]
    assert [(row["rater"], row["mean"]) for row in raters] == [("ann", 1.0), ("bob", 0.0)]


def test_learn_check_answers_by_its_exit_status(project: Path) -> None:
    done = headway("-C", project, "learn", "route", "--check", "--json")
    assert (done.code, done.json["due"], done.json["missing"]) == (3, False, 50)


def test_learn_is_due_after_enough_outcomes(empty: Path) -> None:
    for at in range(50):
        made = headway("-C", empty, "decide", "route", f"ask {at}", "--candidates", "a,b", "--json").json
        headway("-C", empty, "signal", made["id"], f"reward={at % 2}")
    assert headway("-C", empty, "learn", "route", "--check").code == 0
    learned = headway("-C", empty, "learn", "route", "--seed", 3, "--set", "model=clusters", "--json").json
    assert learned["policy"].startswith("bandit@")
    assert learned["seed"] == 3
    assert headway("-C", empty, "learn", "route", "--check").code == 3


def test_rollback_learn_prove_plan_report_promote(project: Path) -> None:
    current = candidate(project)
    back = headway("-C", project, "rollback", "route", "--why", "a test", "--json").json
    assert (back["current"], back["was"], back["why"]) == ("uniform@0", current, "a test")
    assert back["undo"] == f"headway -C {project} rollback route --to {current}"
    learned = headway("-C", project, "learn", "route", "--seed", 7, "--set", "ridge=10")
    assert re.search(r"bandit@\w+  learned from [\d,]+ decisions", learned.out)
    assert "constant best" in learned.out
    assert "Next: headway -C" in learned.out
    planned = headway("-C", project, "plan", "route", "--uplift", "0.05", "--json").json
    assert planned["decisions"] >= 200
    assert "a 20% canary" in planned["savings"]
    verdict = headway("-C", project, "prove", "route", "--check", "--json")
    assert (verdict.code, verdict.json["state"], verdict.json["synthetic"]) == (0, "pass", 1500)
    assert verdict.json["evidence"]["against"] == "uniform@0"
    page = project / "verdict.html"
    done = headway("-C", project, "report", "route", "--html", page, "--markdown", project / "verdict.md")
    assert done.code == 0
    assert page.read_text("utf-8").lower().startswith("<!doctype html>")
    assert "synthetic" in page.read_text("utf-8")
    promoted = headway("-C", project, "promote", "route", "--at-once", "--who", "ann")
    assert re.search(r"route now .+ \(bandit@\w+\) \(was uniform@0\)\.", promoted.out)
    assert promoted.out.endswith(f"Undo: headway -C {project} rollback route\n")


def test_a_canary_begins_and_ends(project: Path) -> None:
    current = candidate(project)
    headway("-C", project, "rollback", "route")
    done = headway("-C", project, "promote", "route", "--policy", current, "--canary", "0.2")
    assert f"{current} now decides on 20% of route." in done.out
    assert headway("-C", project, "status", "--json").json["tasks"][0]["canary"] == current
    headway("-C", project, "promote", "route", "--policy", current, "--canary", "0")
    assert headway("-C", project, "status", "--json").json["tasks"][0]["canary"] is None


def test_prove_against_another_policy_does_not_affect_the_gate(project: Path) -> None:
    current = candidate(project)
    report = headway("-C", project, "prove", "--policy", current, "--against", "uniform@0", "--json").json
    assert report["passed"] is True
    assert report["next"].startswith(f"headway -C {project} report")


@pytest.mark.kits("next_action")
def test_rank_and_score_predict_without_logging(project: Path) -> None:
    before = contents(project)
    easy, hard = "Write a short reminder. Keep it short.", "Derive the worst-case bound of a replicated log."
    ranked = headway("-C", project, "rank", "route", '["small", "large"]', "--text", hard, "--json").json["ranking"]
    assert ranked[0]["predicted"] >= ranked[1]["predicted"]
    (project / "candidates.json").write_text('["large", "small"]', "utf-8")
    assert (
        headway("-C", project, "rank", "route", project / "candidates.json", "--text", hard, "--json").json["ranking"]
        == ranked
    )
    assert (
        headway("-C", project, "rank", "route", "-", "--text", hard, "--json", stdin='["small", "large"]').json[
            "ranking"
        ]
        == ranked
    )
    declared = headway("-C", project, "rank", "route", "--text", hard, "--json").json["ranking"]
    assert declared == ranked
    score = headway("-C", project, "score", "route", "small", "--text", easy, "--json").json
    assert -1.0 <= score["predicted"] <= 1.5
    assert headway("-C", project, "score", "route", "small", "--text", easy).out.splitlines()[1].endswith("  small")
    assert contents(project) == before


@pytest.mark.kits("next_action")
def test_a_described_candidate_can_be_scored(project: Path) -> None:
    toml = project / "headway.toml"
    toml.write_text(toml.read_text("utf-8").replace('actions = ["small", "large"]\n', ""), "utf-8")
    words = ("--type", "fix", "--description", "Add error handling", "--scope", "small")
    report = headway("-C", project, "score", "route", *words, "--json").json
    assert (report["name"], report["type"], report["scope"]) == ("Add error handling", "fix", "small")


def test_explain_replays_exactly_or_names_what_is_missing(project: Path) -> None:
    made = headway("-C", project, "decide", "route", "Prove the bound", "--json").json
    done = headway("-C", project, "explain", made["id"], "--replay", "--json")
    assert (done.code, done.json["exact"]) == (0, True)
    assert done.json["replayed"]["propensity"] == made["propensity"]
    assert "exactly the same" in headway("-C", project, "explain", made["id"], "--replay").out
    shutil.rmtree(project / ".headway" / "policies")
    done = headway("-C", project, "explain", made["id"], "--replay", "--json")
    assert (done.code, done.json["exact"]) == (3, None)


@pytest.mark.parametrize(("change", "code", "said"), [(1e-16, 0, "which is rounding"), (0.01, 1, "NOT the same")])
def test_another_last_digit_is_told_from_another_probability(
    project: Path, change: float, code: int, said: str
) -> None:
    made = headway("-C", project, "decide", "route", "Prove the bound", "--json").json
    with closing(sqlite3.connect(project / ".headway" / "headway.db")) as store, store:
        (row, blob), *_ = store.execute("SELECT seq, probabilities FROM decisions ORDER BY seq DESC LIMIT 1")
        first, *others = struct.unpack(f"<{len(blob) // 8}d", blob)
        changed = struct.pack(f"<{len(blob) // 8}d", first - change, *others)
        assert changed != blob
        store.execute("UPDATE decisions SET probabilities = ? WHERE seq = ?", (changed, row))
    done = headway("-C", project, "explain", made["id"], "--replay", "--json")
    assert (done.code, done.json["exact"]) == (code, False)
    assert done.json["difference"] == pytest.approx(change, rel=0.5)
    assert said in headway("-C", project, "explain", made["id"], "--replay").out


@pytest.mark.kits("raters")
def test_rescore_follows_the_settings_in_both_directions(project: Path) -> None:
    toml = project / "headway.toml"
    text = toml.read_text("utf-8")
    toml.write_text(text.replace("reward = { reward = 1.0 }", "reward = { reward = 0.5 }"), "utf-8")
    signals = contents(project)["signals"]
    mean = headway("-C", project, "rewards", "analyze", "route", "--json").json["all"]["mean"]
    done = headway("-C", project, "rewards", "rescore", "route", "--json").json
    assert done["changed"] == done["settled"] == 1500
    half = headway("-C", project, "rewards", "analyze", "route", "--json").json["all"]["mean"]
    assert half == pytest.approx(mean / 2, abs=1e-12)
    toml.write_text(text, "utf-8")
    headway("-C", project, "rewards", "rescore", "route")
    assert headway("-C", project, "rewards", "analyze", "route", "--json").json["all"]["mean"] == pytest.approx(mean)
    assert contents(project)["signals"] == signals


@pytest.mark.kits("raters")
def test_rewards_are_drawn(project: Path) -> None:
    plot = project / "rewards.png"
    assert headway("-C", project, "rewards", "analyze", "route", "--plot", plot).code == 0
    assert plot.read_bytes().startswith(b"\x89PNG")


@pytest.mark.kits("audit")
def test_an_external_log_is_proven(tmp_path: Path) -> None:
    rows = []
    for at in range(1200):
        good = at % 2  # logged by a fair coin; the candidate always takes the good action
        rows.append(
            {"reward": 0.9 if good else 0.1, "propensity": 0.5, "target_probability": good, "baseline_probability": 0.5}
        )
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    done = headway("audit", path, "--json")
    assert (done.code, done.json["state"]) == (0, "better"), done.out
    assert done.json["comparisons"][0]["evidence"]["difference"]["value"] == pytest.approx(0.4, abs=0.05)
    assert "BETTER" in headway("audit", path).out
    old = headway("prove", "--log", path, "--target", "target_probability")
    assert old.code == 2
    assert f"headway audit {path}" in old.err


@pytest.mark.kits("raters")
def test_every_screen_of_a_synthetic_project_is_marked(project: Path) -> None:
    identifier = first_id(project)
    for words in (
        ["status"],
        ["data", "stats"],
        ["data", "log"],
        ["data", "export", "--out", project / "x.jsonl"],
        ["rewards", "analyze", "route"],
        ["rewards", "rescore", "route"],
        ["explain", identifier],
        ["explain", identifier, "--replay"],
        ["rank", "route", "--text", "x"],
        ["report", "route"],
        ["rollback", "route"],
        ["learn", "route"],
        ["prove", "route"],
        ["plan", "route", "--uplift", "0.05"],
        ["promote", "route"],
        ["signal", identifier, "reward=0.5"],
    ):
        done = headway("-C", project, *words)
        assert done.code == 0, (words, done.err)
        assert "synthetic" in done.out, words
        assert "\x1b" not in done.out + done.err
        assert re.search(r"^(Next|Undo): headway", done.out, re.MULTILINE), words


@pytest.mark.kits("*")
def test_json_is_one_document_for_every_command(project: Path) -> None:
    identifier = first_id(project)
    for words in (
        ["status"],
        ["doctor"],
        ["data", "stats"],
        ["data", "log"],
        ["data", "export", "--out", project / "y.csv"],
        ["rewards", "analyze", "route"],
        ["rewards", "rescore", "route"],
        ["decide", "route", "x"],
        ["signal", identifier, "reward=0.5"],
        ["explain", identifier],
        ["explain", identifier, "--replay"],
        ["rank", "route"],
        ["score", "route", "small"],
        ["report", "route"],
        ["rollback", "route"],
        ["learn", "route"],
        ["learn", "route", "--check"],
        ["prove", "route"],
        ["plan", "route", "--uplift", "0.05", "--register"],
        ["promote", "route", "--canary", "0.1"],
        ["completion", "bash"],
    ):
        done = headway("-C", project, *words, "--json")
        assert done.code in (0, 3), (words, done.out)
        assert done.err == ""
        assert done.json


def test_the_installed_program_prints_no_escape_codes(project: Path) -> None:
    done = process("status", cwd=project, FORCE_COLOR="1", TERM="xterm-256color")
    assert (done.code, done.err) == (0, "")
    assert "\x1b" not in done.out
    assert done.out.splitlines()[-1].startswith("Next: headway ")
