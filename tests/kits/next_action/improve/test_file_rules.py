"""Which files a proposal may change."""

from __future__ import annotations

import pytest

from headway.kits.next_action.improve.file_rules import FileRules, checked_path, named_by
from headway.nouns.errors import InvalidInput

RULES = FileRules(files=("src/**", "*.cfg", "docs"), read_only=("src/data/*.json", "src/**/test_*.py"), most_files=2)


def refused(*paths: str) -> str:
    with pytest.raises(InvalidInput) as error:
        RULES.check(paths)
    return error.value.code


@pytest.mark.parametrize(
    "path", ["src/a.py", "src/deep/er/a.py", "setup.cfg", "docs/x/y.md", "docs", "src/data/a/b.json"]
)
def test_files_in_scope_may_change(path: str) -> None:
    RULES.check([path])
    assert RULES.allows(path)


@pytest.mark.parametrize("path", ["bench.py", "sub/setup.cfg", "docsx/a", "xsrc/a", "srcx"])
def test_other_files_may_not(path: str) -> None:
    assert refused(path) == "out_of_scope"


@pytest.mark.parametrize("path", ["src/data/a.json", "src/test_a.py", "src/x/test_a.py", "src/Data/A.JSON"])
def test_read_only_files_may_not_in_any_spelling(path: str) -> None:
    assert refused("src/a.py", path) == "read_only_file"
    assert not RULES.allows("src/test_a.py")


def test_a_proposal_may_not_change_more_files_than_allowed() -> None:
    RULES.check(["src/a", "src/b", "src/a"])
    assert refused("src/a", "src/b", "src/c") == "too_many_files"


def test_a_proposal_has_to_change_something() -> None:
    assert refused() == "empty_proposal"


@pytest.mark.parametrize(
    "path",
    [
        "", "/etc/passwd", "../x", "src/../../x", "src//a", "./src/a", "src/.git/config", ".GIT/config",
        "src/.gitmodules", ".gitattributes", "a\\b", "C:x", "src/a\nb", "src/a\0", "x" * 1001, "a/" * 40 + "a",
    ],
)  # fmt: skip
def test_paths_that_leave_the_repository_or_belong_to_git_are_refused(path: str) -> None:
    with pytest.raises(InvalidInput) as error:
        checked_path(path)
    assert error.value.code == "unsafe_path"


def test_the_files_of_a_command_are_known_as_words_and_as_modules() -> None:
    files = ["bench.py", "a/b.py", "a/__init__.py", "c/__main__.py", "b.py", "data"]
    assert named_by(["python3", "./bench.py", "--out", "data"], files) == ["bench.py", "data"]
    assert named_by(["python3", "-m", "a.b"], files) == ["a/b.py"]
    assert named_by(["python3", "-m", "c"], files) == ["c/__main__.py"]
    assert named_by(["-m"], files) == []


def test_the_files_in_a_line_for_a_shell_are_known() -> None:
    files = ["bench.py", "conf/x.toml", "a/b.py"]
    line = "cd . && python3 ./bench.py --conf=conf/x.toml > out.txt"
    assert named_by(["sh", "-c", line], files) == ["bench.py", "conf/x.toml"]
    assert named_by(["bash", "-c", "exec python3 -m a.b; true"], files) == ["a/b.py"]
    assert named_by(["sh", "-c", "make bench"], ["Makefile", "package.json"]) == ["Makefile"]


@pytest.mark.parametrize(
    ("command", "named"),
    [
        (["pytest", "-q", "tests/"], ["tests"]),
        (["python3", "-m", "pytest", "./tests/unit/test_a.py::test_x"], ["tests/unit/test_a.py"]),
        (["python3", "-m", "unittest", "discover", "-s", "tests"], ["tests"]),
        (["sh", "-c", "cd src && pytest ../tests tests/unit"], ["tests/unit"]),
        (["sh", "-c", "pytest -q . | tail -1"], ["**/test*.py", "**/*_test.py", "**/test/**", "**/tests/**"]),
        (["python3", "run.py", "--out", "tests"], []),
    ],
)
def test_a_folder_that_is_given_to_a_test_runner_is_the_evaluation(command: list[str], named: list[str]) -> None:
    assert named_by(command, ["src/a.py", "tests/unit/test_a.py"]) == named


def test_patterns_that_protect_nothing_are_named() -> None:
    rules = FileRules(files=["**"], read_only=["eval.sh", "test/**", "data"], most_files=1)
    assert rules.unmatched(["eval.sh", "src/a.py", "data/x"]) == ["test/**"]
