"""What an evaluation would read instead of its own files is not for a proposal to add; what a model is shown."""

from __future__ import annotations

import os
import py_compile
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.kits.next_action.improve import rounds, sources
from headway.kits.next_action.improve.evaluation import Measurement, ProposalEvaluation
from headway.kits.next_action.improve.file_rules import FileRules
from headway.kits.next_action.improve.paired_test import share_of
from headway.kits.next_action.improve.run import Run
from headway.kits.next_action.improve.settings import ImproverSettings
from headway.kits.next_action.improve.sources import Brief
from headway.nouns.errors import InvalidInput
from tests.kits.next_action.improve.conftest import Ground

FAKE = "print('score: 9')\n"


def added(path: str, content: str = FAKE) -> dict[str, Any]:
    return {"description": f"Add {path}", "edits": [{"path": path, "content": content}]}


@pytest.mark.parametrize(
    ("command", "path", "content"),
    [
        (["python3", "-m", "bench"], "bench/__main__.py", FAKE),
        (["python3", "-m", "bench"], "bench/__init__.py", f"{FAKE}raise SystemExit\n"),
        (["python3", "bench.py"], "statistics.py", f"{FAKE}raise SystemExit\n"),
        (["python3", "bench.py"], "helper/__init__.py", f"{FAKE}raise SystemExit\n"),
        (["make", "-s"], "GNUmakefile", "all:\n\t@echo score: 9\n"),
        (["sh", "eval.sh"], "conftest.py", FAKE),
        (["sh", "eval.sh"], "tests/conftest.py", FAKE),
        (["sh", "eval.sh"], "sitecustomize.py", FAKE),
        (["sh", "eval.sh"], ".local/lib/python3/site-packages/usercustomize.py", FAKE),
        (["sh", "eval.sh"], "site-packages/x.pth", "import os\n"),
        (["sh", "eval.sh"], "__pycache__/helper.cpython-313.pyc", "x"),
        (["sh", "eval.sh"], "helper.pyc", "x"),
        (["sh", "eval.sh"], "pytest.ini", "[pytest]\n"),
        (["sh", "eval.sh"], "data.bin", "a\0b"),
    ],
)
def test_a_file_that_the_evaluation_would_read_instead_is_refused(
    ground: Ground, command: list[str], path: str, content: str
) -> None:
    ground.write("bench.py", "import statistics, helper\nprint('score:', statistics.mean([1]))\n")
    ground.write("helper.py", "")
    ground.write("Makefile", "all:\n\t@echo score: 1\n")
    ground.offer(added(path, content), eval=command, files=["**"])
    ground.commit()
    (result,) = ground.play()
    assert (result.verdict, result.code) == ("refused", "shadows_evaluation"), result.why


@pytest.mark.parametrize("path", ["src/new.py", "src/package/json.py", "src/more/notes.txt", "src/other/__init__.py"])
def test_an_ordinary_new_file_is_measured(ground: Ground, path: str) -> None:
    ground.write("src/package/__init__.py", "")
    ground.offer(added(path), files=["src/**"])
    ground.commit()
    (result,) = ground.play()
    assert result.verdict == "reverted", result.why


def test_a_file_that_is_asked_for_by_its_path_may_be_added(ground: Ground) -> None:
    ground.offer(added("conftest.py"), files=["conftest.py", "src/**"])
    ground.commit()
    (result,) = ground.play()
    assert result.verdict == "reverted", result.why


@pytest.mark.parametrize(
    ("command", "path"),
    [
        (["python3", "-m", "unittest", "discover", "-s", "tests"], "tests/test_a.py"),
        (["python3", "-m", "unittest", "discover", "-s", "tests"], "tests/test_new.py"),
        (["sh", "linked.sh"], "parts/eval.sh"),
        (["sh", "-c", "python3 -m unittest; echo score: 1"], "tests/test_a.py"),
        (["sh", "-c", "python3 -m unittest; echo score: 1"], "tests/inputs.json"),
        (["sh", "-c", "cd src && python3 -m unittest; echo score: 1"], "src/test_new.py"),
        (["sh", "-c", "pytest -q; echo score: 1"], "src/deep/added_test.py"),
    ],
)
def test_what_the_evaluation_runs_is_protected_without_being_listed(
    ground: Ground, command: list[str], path: str
) -> None:
    ground.write("tests/test_a.py", "print('score: 1')\n")
    ground.write("parts/eval.sh", "echo score: 1\n")
    (ground.folder / "linked.sh").symlink_to("parts/eval.sh")
    ground.offer(added(path), eval=command, files=["**"])
    ground.commit()
    (result,) = ground.play()
    assert (result.verdict, result.code) == ("refused", "read_only_file"), result.why


@pytest.mark.parametrize("config", ["", "[pytest]\npython_files = check_*.py\n"])
def test_tests_that_no_rule_can_tell_from_other_files_must_be_named(ground: Ground, config: str) -> None:
    ground.write("checks/check_a.py", "print('score: 1')\n")
    if config:
        ground.write("pytest.ini", config)
        ground.write("tests/test_a.py", "")
    ground.offer(added("checks/check_b.py"), eval=["python3", "-m", "pytest"], files=["**"])
    ground.commit()
    with pytest.raises(InvalidInput, match="without naming them") as raised:
        ground.play()
    assert raised.value.code == "tests_not_named"


def test_a_module_beside_a_script_in_a_package_hides_no_installed_one(ground: Ground) -> None:
    """Python imports `random` from the folder of `pkg/bench.py`, although that is a package."""
    ground.write("pkg/__init__.py", "")
    ground.write("pkg/bench.py", "import random\nprint('score:', getattr(random, 'score', 1))\n")
    ground.offer(added("pkg/random.py", "score = 9\n"), eval=["python3", "pkg/bench.py"], files=["**"])
    ground.commit()
    (result,) = ground.play()
    assert (result.verdict, result.code) == ("refused", "shadows_evaluation"), result.why


def _change(tree: Path) -> None:
    (tree / "eval.sh").write_text("echo score: 9\n")


def _add(tree: Path) -> None:
    (tree / "parts" / "z.sh").write_text("echo score: 9; exit\n")


def _take_away(tree: Path) -> None:
    (tree / "parts" / "b.sh").unlink()


def _link(tree: Path) -> None:
    (tree / "parts" / "b.sh").unlink()
    (tree / "parts").rename(tree / "away")
    (tree / "parts").symlink_to("away")


def _precompile(tree: Path) -> None:
    source = tree / "helper.py"
    honest = source.read_text()
    source.write_text("worth = 9\n")
    py_compile.compile(str(source), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    source.write_text(honest)


@pytest.mark.parametrize("attack", [_change, _add, _take_away, _link, _precompile])
def test_the_read_only_files_are_laid_over_whatever_a_proposal_left(
    ground: Ground, attack: Callable[[Path], None]
) -> None:
    """No rule is asked here: as if a proposal had found a way around all of them."""
    ground.write("eval.sh", "for part in parts/*.sh; do . $part; done\n")
    ground.write("parts/a.sh", "worth=$(python3 -c 'import helper; print(helper.worth)')\n")
    ground.write("parts/b.sh", "echo score: $worth; exit\n")
    ground.write("helper.py", "worth = 1\n")
    trees = [ground.folder.parent / name for name in ("protected", "proposal")]
    for tree in trees:
        shutil.copytree(ground.folder, tree, ignore=shutil.ignore_patterns(".git", ".headway"))
    attack(trees[1])
    settings = ImproverSettings(scope="s", metric="score", eval=("sh", "eval.sh"), files=("**",), proposals="p")
    rules = FileRules(files=("**",), read_only=("eval.sh", "parts/**"), most_files=1)
    scratch = ground.folder.parent / "scratch"
    evaluation = ProposalEvaluation(settings, rules, ground.folder, scratch, protected=trees[0])
    measured = evaluation.measure(trees[1])
    assert (measured.value, measured.why) == (1.0, "")


def test_a_binary_patch_is_refused(ground: Ground) -> None:
    ground.write("score.txt", "\0")
    ground.git("add", "--all")
    ground.git("-c", "core.attributesFile=/dev/null", "commit", "--quiet", "--message", "binary")
    ground.write("score.txt", "2\n")
    patch = ground.git("diff", "--binary")
    assert "GIT binary patch" in patch
    ground.write("score.txt", "\0")
    ground.offer({"description": "Text by a binary patch", "patch": patch}, eval=["sh", "eval.sh"])
    ground.write("eval.sh", "echo score: 1\n")
    ground.commit()
    (result,) = ground.play()
    assert (result.verdict, result.code) == ("refused", "shadows_evaluation"), result.why


def test_a_model_is_shown_regular_files_only_and_no_secrets(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2" * 9
    outside = tmp_path / "outside.txt"
    outside.write_text("outside of the tree", "utf-8")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "link.py").symlink_to(outside)
    os.mkfifo(tree / "queue.py")
    (tree / "long.py").write_text("x" * 1_000_000, "utf-8")
    (tree / "code.py").write_text(f"token = '{secret}'\n", "utf-8")
    settings = ImproverSettings(scope="s", metric="m", eval=("sh",), files=("**",), model="small")
    paths = ["code.py", "gone.py", "link.py", "queue.py", "long.py"]
    brief = Brief(improver="up", settings=settings, snapshot=tree, paths=paths, results=[])
    question = sources._question(brief, lambda text: text.replace(secret, "[redacted]"))
    assert "outside of the tree" not in question
    assert secret not in question
    assert "[redacted]" in question
    assert len(question) < 70_000


def test_the_tests_of_a_run_share_one_error_budget() -> None:
    shares = [share_of(0.05, tested=tested, kept=0, rounds=50) for tested in range(5000)]
    assert 0.0499 < sum(shares) <= 0.05
    assert share_of(0.05, tested=3, kept=1, rounds=50) == 2 * shares[3]


def test_the_order_of_the_pairs_is_drawn_anew_in_every_run(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """An order that is the same in every run would keep what the order alone makes better."""
    orders: list[list[bool]] = []
    pair = rounds._pair

    def noted(run: Run, candidate: Path, base: Path, *, candidate_first: bool) -> tuple[Measurement, Measurement]:
        orders[-1].append(candidate_first)
        return pair(run, candidate, base, candidate_first=candidate_first)

    monkeypatch.setattr(rounds, "_pair", noted)
    for _ in range(3):
        orders.append([])
        ground.offer(added("src/a.txt", "1\n"), rounds=1, repeats=40)
        ground.commit()
        ground.play(restart=True)
    assert all(len(order) >= 20 for order in orders)
    assert len({tuple(order[:20]) for order in orders}) == 3
