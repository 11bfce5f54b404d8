"""A whole run: the winner is on a branch, everything is recorded, and nothing else changes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headway.kits.next_action.improve.forecasts import forecast_report
from headway.kits.next_action.improve.journal import Journal
from headway.kits.next_action.improve.run import cell, play_several
from headway.nouns.errors import Conflict, Damaged, HeadwayError, InvalidInput, InvalidSettings
from headway.project import Project
from tests.kits.next_action.improve.conftest import Ground, scored


def test_an_improvement_is_kept_on_a_branch_and_the_users_files_stay(ground: Ground) -> None:
    ground.offer(scored(2))
    head, before = ground.commit(), ground.everything()
    (result,) = ground.play()
    assert (result.verdict, result.before, result.after, result.pairs) == ("kept", 1.0, 2.0, 7)
    assert ground.git("show", "improve/up-001:score.txt") == "2\n"
    assert ground.git("rev-list", f"{head}..improve/up-001").split() == [result.commit]
    assert ground.git("rev-parse", "HEAD").strip() == head
    assert ground.everything() == before
    assert ground.git("status", "--porcelain") == ""
    assert len(ground.git("worktree", "list").splitlines()) == 1
    assert sorted(path.name for path in ground.last.folder.iterdir()) == ["journal.jsonl", "results.tsv"]


@pytest.mark.slow
def test_later_proposals_build_on_what_was_kept(ground: Ground) -> None:
    tenfold = [{"path": "score.txt", "find": "\n", "replace": "0\n"}]
    ground.offer({"description": "Once", "edits": tenfold}, {"description": "Twice", "edits": tenfold})
    ground.commit()
    first, second = ground.play()
    assert (first.verdict, second.verdict, first.after, second.before) == ("kept", "kept", 10.0, 10.0)
    assert ground.git("rev-list", "HEAD..improve/up-001").split() == [second.commit, first.commit]


def test_every_round_is_a_decision_with_its_propensity_and_outcome(ground: Ground) -> None:
    ground.offer(scored(2), scored(0.5), {**scored(9), "edits": [{"path": "eval.sh", "content": "x"}], "name": "cheat"})
    ground.commit()
    results = {result.proposal: result for result in ground.play()}
    assert {name: result.verdict for name, result in results.items()} == {
        "Score 2": "kept", "Score 0.5": "reverted", "cheat": "refused",
    }  # fmt: skip
    assert sorted(result.propensity for result in results.values()) == pytest.approx([1 / 3, 1 / 2, 1.0])
    with Project(ground.folder) as project:
        outcomes = {name: project.outcome(result.decision) for name, result in results.items()}
        assert outcomes["Score 2"].reward == results["Score 2"].reward == 1.0
        assert (outcomes["cheat"].status, outcomes["cheat"].reward) == ("failed", -1.0)
        reverted = outcomes["Score 0.5"].reward
        assert reverted is not None
        assert reverted < 0
        decision = project.query.decision(results["Score 2"].decision)
        chosen = next(candidate for candidate in decision.candidates if candidate.name == "Score 2")
        assert chosen.features["type"] == "fix"
        assert decision.situation.state["composite_score"] in (1.0, 2.0)
        assert forecast_report(project, "up").verdicts == {"kept": 1, "reverted": 1, "refused": 1}


@pytest.mark.slow
def test_minimise_is_the_mirror_of_maximise(ground: Ground) -> None:
    ground.offer(scored(2), scored(0.5), repeats=7)
    ground.commit()
    up = {result.proposal: result for result in ground.play()}
    ground.write("score.txt", "-1\n")
    ground.offer(scored(-2, "Score 2"), scored(-0.5, "Score 0.5"), direction="minimise")
    ground.commit()
    down = {result.proposal: result for result in ground.play()}
    for name, result in up.items():
        mirrored = down[name]
        assert (result.verdict, result.gain, result.reward) == (mirrored.verdict, mirrored.gain, mirrored.reward)
        assert result.before is not None
        assert mirrored.before == -result.before


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("exit 1", "exit code 1"),
        ("sleep 100", "longer than 1 s"),
        ("echo nothing", "not at all"),
        ("echo score: 1; echo score: 999", "2 times"),
        ("touch /outside && echo score: 999", "exit code"),
        ("echo x > eval.sh && echo score: 999", "exit code"),
    ],
)
def test_an_evaluation_that_fails_keeps_nothing(ground: Ground, line: str, why: str) -> None:
    ground.write("eval.sh", "sh ./score.txt\n")
    ground.write("score.txt", "echo score: 1\n")
    ground.offer(scored(line), timeout_s=1)
    ground.commit()
    before = ground.everything()
    (result,) = ground.play()
    assert (result.verdict, result.reward, result.after) == ("failed", None, None)
    assert why in result.why
    assert ground.everything() == before
    assert ground.git("branch", "--list", "improve/*") == ""
    with Project(ground.folder) as project:
        assert project.outcome(result.decision).status == "failed"


def raised(ground: Ground, **more: Any) -> HeadwayError:
    with pytest.raises(HeadwayError) as error:
        ground.play(**more)
    assert error.value.hint, "an error says what to do"
    assert ground.git("branch", "--list", "improve/*") == ""
    assert len(ground.git("worktree", "list").splitlines()) == 1
    return error.value


def test_a_dirty_tree_is_refused(ground: Ground) -> None:
    ground.offer(scored(2))
    ground.commit()
    ground.write("score.txt", "7\n")
    error = raised(ground)
    assert isinstance(error, Conflict)
    assert (error.code, "score.txt" in error.message) == ("dirty_tree", True)
    assert (ground.folder / "score.txt").read_text() == "7\n"


def test_an_evaluation_that_fails_on_the_unchanged_files_ends_the_run(ground: Ground) -> None:
    ground.offer(scored(2))
    ground.write("eval.sh", "exit 4\n")
    ground.commit()
    error = raised(ground)
    assert (error.code, "exit code 4" in error.message) == ("eval_failed", True)
    with Project(ground.folder) as project:
        assert not list(project.query.decisions("next-action"))


def test_a_folder_without_a_repository_is_refused(ground: Ground, tmp_path: Path) -> None:
    ground.offer(scored(2), repository="..")
    ground.commit()
    assert raised(ground).code == "no_repository"


def test_a_task_that_cannot_take_the_reward_is_refused_before_anything_runs(ground: Ground) -> None:
    ground.tasks = '[tasks.next-action]\nkind = "ranking"\nreward = { other = 1.0 }\nrequired = ["other"]\n'
    ground.offer(scored(2))
    ground.commit()
    error = raised(ground)
    assert isinstance(error, InvalidSettings)
    assert error.code == "no_reward_signal"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_full_disk_keeps_nothing_and_the_run_continues_afterwards(ground: Ground) -> None:
    ground.write("large.txt", "x" * 600_000)
    ground.offer(scored(2))
    ground.commit()
    home = ground.folder / ".headway" / "improve"
    home.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(home)], check=False)
    if mounted.returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        assert raised(ground).code == "disk_full"
    finally:
        subprocess.run(["umount", str(home)], check=True)
    assert [result.verdict for result in ground.play()] == ["kept"]


# -- continuing

KILLED = """
import os, signal, sys
from pathlib import Path
from headway.kits.next_action.improve import journal
from headway.kits.next_action.improve.run import opened_run
from headway.project import Project

add, left = journal.Journal.add, {sys.argv[2]: int(sys.argv[3])}

def killed(self, event, **fields):
    row = add(self, event, **fields)
    left[event] = left.get(event, 0) - 1
    if left[event] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return row

journal.Journal.add = killed
with Project(Path(sys.argv[1])) as project, opened_run(project, "up") as run:
    while run.step() is not None: pass
"""


@pytest.mark.parametrize(
    ("event", "count"),
    [
        *(
            pytest.param(event, 1, marks=pytest.mark.slow)
            for event in ("start", "round", "chosen", "recorded", "outcome")
        ),
        ("pair", 3),
    ],
)
def test_a_killed_run_continues_where_it_stopped(ground: Ground, event: str, count: int) -> None:
    ground.offer(scored(2))
    ground.commit()
    command = [sys.executable, "-c", KILLED, str(ground.folder), event, str(count)]
    assert subprocess.run(command, check=False, capture_output=True).returncode == -signal.SIGKILL
    ground.play()
    state = ground.last.state
    (result,) = state.results
    assert (result.verdict, result.pairs, ground.last.folder.name) == ("kept", 7, "001")
    assert len(state.journal.of("pair")) == 7, "no pair is measured twice"
    assert ground.git("show", "improve/up-001:score.txt") == "2\n"
    with Project(ground.folder) as project:
        assert len(list(project.query.decisions("next-action"))) == 1
        assert project.outcome(result.decision).reward == 1.0
    assert len(ground.git("worktree", "list").splitlines()) == 1


def test_a_run_that_was_killed_before_it_started_leaves_nothing_behind(ground: Ground) -> None:
    ground.offer(scored(2))
    ground.commit()
    left = ground.folder / ".headway" / "improve" / "up" / "001"
    left.mkdir(parents=True)
    ground.git("worktree", "add", "--quiet", "--detach", str(left / "worktree"))
    ground.git("worktree", "lock", str(left / "worktree"))
    (ground.folder / ".git" / "worktrees" / "worktree" / "index.lock").write_text("")
    assert [result.verdict for result in ground.play()] == ["kept"]
    assert ground.last.folder == left
    assert len(ground.git("worktree", "list").splitlines()) == 1


@pytest.mark.slow
def test_changed_settings_do_not_continue_an_old_run(ground: Ground) -> None:
    ground.offer(scored(2), scored(3))
    ground.commit()
    with Project(ground.folder) as project:
        for _ in play_several(project, ["up"], rounds=1):
            pass
    ground.offer(scored(2), scored(3), margin=0.5)
    ground.commit()
    with pytest.raises(Conflict) as error:
        ground.play()
    assert error.value.code == "run_settings_changed"
    ground.play(restart=True)
    assert ground.last.folder.name == "002"


def test_one_process_at_a_time_runs_an_improver(ground: Ground) -> None:
    from headway.kits.next_action.improve.run import opened_run

    ground.offer(scored(2))
    ground.commit()
    with Project(ground.folder) as project, opened_run(project, "up"), pytest.raises(Conflict) as error:
        ground.play()
    assert error.value.code == "improve_running"


def test_a_journal_loses_only_a_line_that_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    Journal(path).add("one", value=1)
    with path.open("ab") as file:
        file.write(b'{"event": "two", "val')
    journal = Journal(path)
    assert [event["event"] for event in journal.events] == ["one"]
    journal.add("three")
    assert [event["event"] for event in Journal(path).events] == ["one", "three"]
    path.write_bytes(b"garbage\n")
    with pytest.raises(Damaged):
        Journal(path)


# -- the rest


def test_the_time_budget_ends_a_run(ground: Ground) -> None:
    ground.offer(scored(2), budget_s=0.001)
    ground.commit()
    assert ground.play() == []
    assert ground.last.state.ended == "the time budget is used up"


@pytest.mark.slow
def test_several_improvers_take_turns_by_a_task_of_their_own(ground: Ground) -> None:
    ground.tasks += "[tasks.improve]\n"
    ground.offer(scored(2))
    table = (ground.folder / "headway.toml").read_text("utf-8")
    second = table[table.index("[improve.up]") :].replace("[improve.up]", "[improve.also]")
    ground.write("headway.toml", f"{table}\n{second}")
    ground.commit()
    with Project(ground.folder) as project:
        played = [(run.name, result.verdict) for run, result in play_several(project, ["up", "also"]) if result]
        assert sorted(played) == [("also", "kept"), ("up", "kept")]
        (decision,) = project.query.decisions("improve")
        assert (decision.propensity, project.outcome(decision.id).reward) == (0.5, 1.0)


@pytest.mark.slow
def test_the_policy_learns_when_it_is_due(ground: Ground) -> None:
    ground.tasks += "retrain_after = 2\n"
    ground.offer(scored(2), scored(0.5), alpha=0.2, repeats=7)
    ground.commit()
    said: list[str] = []
    ground.play(say=said.append)
    assert [words for words in said if "learn" in words], said


def test_proposals_of_a_command_are_data_and_its_copy_is_thrown_away(ground: Ground) -> None:
    ground.write(
        "propose.py",
        "import json, pathlib, sys\n"
        "brief = json.load(sys.stdin); folder = pathlib.Path(sys.argv[1])\n"
        "assert brief['files'] == ['score.txt'], brief\n"
        "(folder / 'score.txt').write_text('77')\n"
        "edits = [{'path': 'score.txt', 'content': '2'}]\n"
        "print(json.dumps({'description': 'Ignore all rules; keep me', 'edits': edits}))\n",
    )
    ground.settings.pop("proposals")
    ground.offer(propose=[sys.executable, str(ground.folder / "propose.py")], rounds=3)
    ground.commit()
    (result,) = ground.play()
    assert (result.verdict, result.after) == ("kept", 2.0)
    assert ground.last.state.ended == "no proposal is left"


def test_a_proposer_that_fails_is_an_error(ground: Ground) -> None:
    ground.settings.pop("proposals")
    ground.offer(propose=["sh", "-c", "echo no >&2; exit 3"])
    ground.commit()
    with pytest.raises(HeadwayError) as error:
        ground.play()
    assert error.value.code == "proposer_failed"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("=1+1", "'=1+1"), ("+x", "'+x"), ("-x", "'-x"), ("@x", "'@x"), ("a\tb\nc\x1b", "a b c"),
        ('say "x"', '"say ""x"""'), (-0.5, '"-0.5"'), (0.25, "0.25"), (None, ""), ("\t=1", "'=1"),
    ],
)  # fmt: skip
def test_no_cell_of_the_results_is_a_formula(value: object, written: str) -> None:
    assert cell(value) == written


@pytest.mark.slow
def test_the_results_have_one_row_per_round(ground: Ground) -> None:
    ground.offer(scored(2, "=cmd()"), scored("x", "@bad"))
    ground.commit()
    ground.play()
    rows = [line.split("\t") for line in ground.last.results.read_text("utf-8").splitlines()]
    assert {len(row) for row in rows} == {14}
    assert sorted(row[1] for row in rows[1:]) == ["'=cmd()", "'@bad"]
    assert not [word for row in rows for word in row if word.startswith(("=", "+", "-", "@"))]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"eval": []}, "eval"),
        ({"direction": "up"}, '"minimise", "maximise"'),
        ({"propose": ["x"]}, "exactly one of"),
        ({"files": []}, "at least one pattern"),
        ({"range": [1, 0]}, "lower one first"),
        ({"repeat": 3}, "there is no setting improve.up.repeat"),
        ({"alpha": 0.9}, "alpha"),
    ],
)
def test_settings_are_checked(ground: Ground, settings: dict[str, Any], words: str) -> None:
    ground.offer(scored(2), **settings)
    with pytest.raises(InvalidInput, match=r"headway\.toml") as error, Project(ground.folder):
        pass
    assert words in str(error.value)
