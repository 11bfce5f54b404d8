"""Applying a proposal: inside the worktree, within the rules, without starting a program."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.kits.next_action.improve.file_rules import FileRules
from headway.kits.next_action.improve.proposals import Edit, Proposal, read_proposal
from headway.kits.next_action.improve.repository import Repository, Worktree
from headway.nouns.errors import Conflict, InvalidInput
from tests.kits.next_action.improve.conftest import Ground

ALL = FileRules(files=("**",), read_only=("eval.sh",), most_files=3)


@pytest.fixture
def tree(ground: Ground) -> Worktree:
    ground.write("src/a.py", "one\ntwo\n")
    (ground.folder / "link").symlink_to("/etc")
    ground.commit()
    repository = Repository(ground.folder)
    return repository.worktree(ground.folder / ".headway" / "worktree", repository.head())


def edits(*rows: Edit) -> Proposal:
    return Proposal(description="Try", edits=rows)


def refused(tree: Worktree, proposal: Proposal, rules: FileRules = ALL) -> str:
    base = tree_head(tree)
    with pytest.raises(InvalidInput) as error:
        tree.apply(proposal, rules, base)
    assert tree_head(tree) == base
    assert (tree.folder / "src/a.py").read_text() == "one\ntwo\n"
    return error.value.code


def tree_head(tree: Worktree) -> str:
    from headway.kits.next_action.improve.repository import _git

    assert _git(tree.folder, "status", "--porcelain") == ""
    return _git(tree.folder, "rev-parse", "HEAD").strip()


def test_edits_become_one_commit_and_the_users_files_stay(ground: Ground, tree: Worktree) -> None:
    before = ground.everything()
    base = tree_head(tree)
    rows = (
        Edit(path="src/a.py", find="two", replace="2"),
        Edit(path="new/b.txt", content="b"),
        Edit(path="score.txt", delete=True),
    )
    commit = tree.apply(edits(*rows), ALL, base)
    changed = ground.git("diff", "--name-status", "--no-renames", base, commit).split("\n")
    assert changed == ["A\tnew/b.txt", "D\tscore.txt", "M\tsrc/a.py", ""]
    assert ground.git("show", f"{commit}:src/a.py") == "one\n2\n"
    assert ground.everything() == before


def test_a_patch_is_applied_like_edits(ground: Ground, tree: Worktree) -> None:
    patch = "--- a/src/a.py\n+++ b/src/a.py\n@@ -1,2 +1,2 @@\n one\n-two\n+2"
    commit = tree.apply(Proposal(description="Try", patch=patch), ALL, tree_head(tree))
    assert ground.git("show", f"{commit}:src/a.py") == "one\n2\n"


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        ("--- a/eval.sh\n+++ b/eval.sh\n@@ -1 +1 @@\n-echo\n+echo 9\n", "read_only_file"),
        ("--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-three\n+3\n", "bad_patch"),
        ("--- /dev/null\n+++ b/../outside\n@@ -0,0 +1 @@\n+x\n", "unsafe_path"),
        ("--- /dev/null\n+++ b/.git/hooks/pre-commit\n@@ -0,0 +1 @@\n+x\n", "unsafe_path"),
        ("--- /dev/null\n+++ b/.gitattributes\n@@ -0,0 +1 @@\n+* filter=x\n", "unsafe_path"),
        ("diff --git a/s b/s\nnew file mode 120000\n--- /dev/null\n+++ b/s\n@@ -0,0 +1 @@\n+/etc\n", "unsafe_path"),
        ("diff --git a/eval.sh b/e\nsimilarity index 100%\nrename from eval.sh\nrename to e\n", "read_only_file"),
        ("--- /dev/null\n+++ b/link/passwd2\n@@ -0,0 +1 @@\n+x\n", "bad_patch"),
        ("not a patch", "bad_patch"),
    ],
)
def test_a_patch_that_breaks_a_rule_is_refused(tree: Worktree, patch: str, code: str) -> None:
    assert refused(tree, Proposal(description="Try", patch=patch)) in {code, "bad_patch"}
    assert not Path("/etc/passwd2").exists()


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (Edit(path="link/passwd2", content="x"), "unsafe_path"),
        (Edit(path="link", content="x"), "unsafe_path"),
        (Edit(path="link", delete=True), "unsafe_path"),
        (Edit(path="../outside", content="x"), "unsafe_path"),
        (Edit(path=".git", content="gitdir: /tmp"), "unsafe_path"),
        (Edit(path="eval.sh", content="echo score: 9"), "read_only_file"),
        (Edit(path="src/a.py", find="three", replace="3"), "bad_edit"),
        (Edit(path="src/a.py", find="o", replace="0"), "bad_edit"),
        (Edit(path="src/no.py", find="o", replace="0"), "bad_edit"),
        (Edit(path="src/a.py", content="one\ntwo\n"), "empty_proposal"),
        (Edit(path="src/a.py/below", content="x"), "bad_edit"),
        (Edit(path="src", content="x"), "bad_edit"),
        (Edit(path="src", delete=True), "bad_edit"),
        (Edit(path="x" * 300, content="x"), "bad_edit"),
    ],
)
def test_an_edit_that_breaks_a_rule_is_refused(tree: Worktree, edit: Edit, code: str) -> None:
    assert refused(tree, edits(edit)) == code
    assert not Path("/etc/passwd2").exists()


def test_the_number_of_files_is_enforced(tree: Worktree) -> None:
    assert refused(tree, edits(*(Edit(path=f"src/{name}", content="x") for name in "wxyz"))) == "too_many_files"


def test_hooks_and_ignore_rules_of_the_repository_have_no_say(ground: Ground, tree: Worktree, tmp_path: Path) -> None:
    hook = ground.write(".git/hooks/pre-commit", f"#!/bin/sh\ntouch {tmp_path}/ran\nexit 1\n")
    hook.chmod(0o755)
    rules = FileRules(files=(".headway/x",), read_only=("eval.sh",), most_files=3)
    commit = tree.apply(edits(Edit(path=".headway/x", content="x")), rules, tree_head(tree))
    assert ground.git("ls-tree", "--name-only", "-r", commit, ".headway").strip() == ".headway/x"
    assert not (tmp_path / "ran").exists()


def test_a_branch_that_somebody_moved_is_left_alone(ground: Ground, tree: Worktree) -> None:
    repository = Repository(ground.folder)
    base = repository.head()
    commit = tree.apply(edits(Edit(path="src/a.py", content="x")), ALL, base)
    ground.git("branch", "improve/up-001", base)
    with pytest.raises(Conflict) as error:
        repository.point("improve/up-001", commit, before="")
    assert error.value.code == "branch_moved"
    repository.point("improve/up-001", commit, before=base)
    assert repository.branch("improve/up-001") == commit


def test_the_title_of_a_proposal_is_only_text_in_the_message(ground: Ground, tree: Worktree) -> None:
    title = "#not a comment\n\nSigned-off-by: $(touch x) `y`"
    proposal = read_proposal({"description": title, "edits": [{"path": "src/a.py", "content": "z"}]}, "f")
    commit = tree.apply(proposal, ALL, tree_head(tree))
    assert ground.git("log", "-1", "--format=%s", commit).strip() == "#not a comment Signed-off-by: $(touch x) `y`"
    assert ground.git("log", "-1", "--format=%(trailers)", commit).strip() == ""
