"""Runs that go wrong in ways that a stranger tries: bad settings, a bad file, a branch in use, a half journal."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.kits.next_action.improve.forecasts import runs_of
from headway.kits.next_action.improve.journal import Journal
from headway.kits.next_action.improve.repository import Repository
from headway.kits.next_action.improve.run import opened_run, play_several
from headway.nouns.errors import Conflict, Damaged
from headway.project import Project
from tests.kits.next_action.improve.conftest import Ground, scored
from tests.kits.next_action.improve.test_run import raised


@pytest.mark.slow
def test_a_run_that_got_no_proposals_starts_again_from_the_present_commit(ground: Ground) -> None:
    ground.write("proposals.jsonl", "{not json\n")
    ground.commit()
    assert raised(ground).code == "bad_proposal"
    ground.offer(scored(4))
    ground.write("score.txt", "3\n")
    head = ground.commit()
    (result,) = ground.play()
    assert (result.verdict, result.before, result.after) == ("kept", 3.0, 4.0)
    assert ground.git("rev-list", f"{head}..improve/up-001").split() == [result.commit]


def test_too_few_repeats_to_keep_anything_are_refused(ground: Ground) -> None:
    ground.offer(scored(2), alpha=0.01, repeats=11)
    ground.commit()
    error = raised(ground)
    assert error.code == "too_few_repeats"
    assert "`repeats` to 12 or more" in str(error.hint)


def test_a_run_whose_rounds_are_used_up_leaves_no_worktree_behind(ground: Ground) -> None:
    ground.offer(scored(2))
    ground.commit()
    with Project(ground.folder) as project:
        played = [result for _, result in play_several(project, ["up"], rounds=1)]
    assert [result and result.verdict for result in played] == ["kept", None]
    assert len(ground.git("worktree", "list").splitlines()) == 1


def test_a_branch_that_is_checked_out_is_not_moved(ground: Ground) -> None:
    first, second = ground.commit(), ground.commit()
    ground.git("branch", "improve/up-001", first)
    ground.git("checkout", "--quiet", "improve/up-001")
    with pytest.raises(Conflict) as error:
        Repository(ground.folder).point("improve/up-001", second, before=first)
    assert (error.value.code, "Check out another branch" in str(error.value.hint)) == ("branch_in_use", True)


def test_a_reader_leaves_a_line_that_is_being_written(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b'{"event": "start"}\n{"event": "pa')
    assert [row["event"] for row in Journal(path, repair=False).events] == ["start"]
    assert path.read_bytes().endswith(b'"pa')
    Journal(path)
    assert path.read_bytes() == b'{"event": "start"}\n'


@pytest.mark.parametrize("line", ["garbage", '{"event": "outcome", "result": {"round": 1}}', '{"event": "pair"}'])
def test_a_damaged_journal_is_reported_and_set_aside_by_a_restart(ground: Ground, line: str) -> None:
    ground.offer(scored(2))
    ground.commit()
    left = ground.folder / ".headway" / "improve" / "up" / "001"
    left.mkdir(parents=True)
    (left / "journal.jsonl").write_text(f"{line}\n", "utf-8")
    with Project(ground.folder) as project:
        with pytest.raises(Damaged) as error, opened_run(project, "up"):
            pass
        assert (error.value.code, "Line 1" in error.value.message) == ("journal_damaged", True)
        assert "--restart" in str(error.value.hint)
        with opened_run(project, "up", restart=True) as run:
            assert run.folder.name == "002"
        assert (left / "journal.damaged").read_text("utf-8") == f"{line}\n"
        assert list(runs_of(project, "up")) == ["001", "002"]
