"""An evaluation gives a number, or says why there is none; whatever it does, only its own copy changes."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from headway.kits.next_action.improve.evaluation import ProposalEvaluation, metric_of, read_only_paths
from headway.kits.next_action.improve.file_rules import FileRules
from headway.kits.next_action.improve.settings import ImproverSettings
from headway.nouns.errors import Unavailable
from tests.kits.next_action.improve.conftest import Ground

RULES = FileRules(files=("*.txt",), read_only=("eval.sh", "data"), most_files=1)


@pytest.mark.parametrize(
    ("output", "value"),
    [
        ("score: 1.5\n", 1.5),
        ("noise\n  SCORE = -2e3  \nmore", -2000.0),
        ('{"score": 3, "tests_passing": 4, "name": "x"}', 3.0),
        ("the score: 4\nscore: 5 points\nscore:7", 7.0),
    ],
)
def test_the_metric_is_read_from_one_line(output: str, value: float) -> None:
    assert metric_of(output, "score").value == value


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ("", "not at all"),
        ("score: \nscore: x\n[1]\n{broken", "not at all"),
        ("score: 1\nscore: 1\n", "2 times, expected once"),
        ('score: 1\n{"score": 1}', "2 times"),
        ("score: nan", "expected a finite number"),
        ("score: inf", "expected a finite number"),
        ('{"score": true}', "not at all"),
        ('{"score": 1e999}', "not at all"),
    ],
)
def test_anything_else_is_no_measurement(output: str, why: str) -> None:
    measured = metric_of(output, "score")
    assert measured.value is None
    assert why in measured.why


def test_other_numbers_of_a_json_line_are_kept() -> None:
    assert metric_of('{"score": 3, "tests_passing": 4, "word": "x"}', "score").others == {"tests_passing": 4.0}


def test_a_folder_with_only_read_only_files_is_protected_as_a_whole(tmp_path: Path) -> None:
    for name in ("eval.sh", "data/a/x", "data/y", "src/data.py", "mixed/eval.sh"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "data" / "away").symlink_to("/etc")
    rules = FileRules(files=("**",), read_only=("eval.sh", "data/**"), most_files=1)
    assert read_only_paths(tmp_path, rules) == ("data/a", "data/y", "eval.sh")


class Bench:
    def __init__(self, ground: Ground) -> None:
        self.snapshot, self.outside = ground.folder.parent / "snapshot", ground.folder.parent / "outside"
        self.snapshot.mkdir()
        (self.snapshot / "data").mkdir()
        (self.snapshot / "data" / "x").write_text("x")
        (self.snapshot / "score.txt").write_text("1")
        self.scratch = ground.folder.parent / "scratch"

    def measure(self, script: str, **more: object) -> str | float:
        """The number, or the reason."""
        (self.snapshot / "eval.sh").write_text(script)
        settings = ImproverSettings(
            scope="x", metric="score", files=("*.txt",), proposals="p",
            **{"eval": ("sh", "eval.sh"), "timeout_s": 20.0, "disk_mb": 1, **more},  # type: ignore[arg-type]
        )  # fmt: skip
        before = {path: path.read_bytes() for path in self.snapshot.rglob("*") if path.is_file()}
        evaluation = ProposalEvaluation(settings, RULES, self.snapshot, self.scratch, protected=self.snapshot)
        measured = evaluation.measure(self.snapshot)
        assert not self.scratch.exists()
        assert not self.outside.exists()
        assert {path: path.read_bytes() for path in self.snapshot.rglob("*") if path.is_file()} == before
        return measured.why if measured.value is None else measured.value


@pytest.fixture
def bench(ground: Ground) -> Bench:
    return Bench(ground)


def test_the_evaluation_may_write_in_its_copy(bench: Bench) -> None:
    assert bench.measure("mkdir build && echo 5 > build/n && echo x > score.txt && echo score: $(cat build/n)") == 5.0


def test_a_second_measurement_sees_nothing_of_the_first(bench: Bench) -> None:
    script = "test -e mark && echo score: 2 || { touch mark; echo score: 1; }"
    assert [bench.measure(script), bench.measure(script)] == [1.0, 1.0]


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo score: 1; exit 3", "exit code 3"),
        ("kill -SEGV $$", "signal 11"),
        ("echo oops >&2; false", "oops"),
        ("echo hello", "not at all"),
        ("echo score: 1; echo score: 2", "2 times"),
        ("head -c 3000000 /dev/zero | tr '\\0' x; echo score: 1", "printed more than"),
        ("for n in 1 2 3 4 5; do head -c 900000 /dev/zero > big$n; done; echo score: 1", "it wrote more than"),
        ("set -e; echo x > data/x; echo score: 1", "exit code"),
        ("set -e; rm -rf data; echo score: 1", "exit code"),
        ("set -e; echo 'echo score: 9' > eval.sh; echo score: 1", "exit code"),
        ("set -e; mv data elsewhere; echo score: 1", "exit code"),
        ("set -e; echo x > /outside; echo score: 1", "exit code"),
        ("set -e; echo x > ../outside; echo score: 1", "exit code"),
    ],
)
def test_an_evaluation_that_fails_is_never_a_number(bench: Bench, script: str, why: str) -> None:
    reason = bench.measure(script)
    assert isinstance(reason, str), reason
    assert why in reason


def test_nothing_of_the_host_can_be_read_or_written(bench: Bench) -> None:
    bench.outside.write_text("secret")
    secret = bench.outside
    bench.outside = bench.outside.with_name("other")
    reason = bench.measure(f"set -e; cat {secret}; echo score: 1")
    assert isinstance(reason, str)
    assert bench.measure(f"echo x 2>/dev/null > {secret} || true; echo score: 1") == 1.0
    assert secret.read_text() == "secret"


def test_read_only_files_can_be_read(bench: Bench) -> None:
    assert bench.measure("test $(cat data/x) = x && echo score: 1") == 1.0


def test_an_evaluation_that_hangs_is_ended(bench: Bench) -> None:
    assert "longer than 1 s" in str(bench.measure("sleep 100 & sleep 100", timeout_s=1.0))


def test_a_number_outside_the_declared_range_is_no_measurement(bench: Bench) -> None:
    assert "outside the range 0 to 1" in str(bench.measure("echo score: 1.5", range=(0.0, 1.0)))


def test_a_missing_program_is_an_error_and_says_nothing_about_the_files(ground: Ground) -> None:
    ground.offer(eval=["no-such-program"])
    ground.commit()
    with pytest.raises(Unavailable) as error:
        ground.play()
    assert error.value.code == "eval_not_started"
    assert "no-such-program" in error.value.message


def test_folders_that_are_nested_very_deeply_are_removed(bench: Bench) -> None:
    nest = "import os\nfor _ in range(1500):\n    os.mkdir('d')\n    os.chdir('d')\nprint('score: 1')\n"
    (bench.snapshot / "nest.py").write_text(nest)
    assert bench.measure("", eval=("python3", "nest.py"), disk_mb=64) == 1.0


def test_a_readable_path_is_visible_under_its_own_name(bench: Bench) -> None:
    with TemporaryDirectory(dir="/var/tmp") as folder:  # the sandbox has a /dev/shm of its own, where tmp_path may be
        tools = Path(folder)
        (tools / "run.sh").write_text("echo score: 8\n")
        tools.chmod(0o755)
        way = os.path.relpath(tools, bench.snapshot)
        assert bench.measure("", eval=("sh", f"{way}/run.sh"), readable=(way,)) == 8.0
