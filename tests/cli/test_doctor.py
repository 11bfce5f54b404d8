"""The doctor reports every problem with its fix, and exits 1."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.terminal import headway


def states(folder: Path) -> dict[str, bool | None]:
    report = headway("-C", folder, "doctor", "--json")
    checks = {check["name"]: check["ok"] for check in report.json["checks"]}
    assert report.code == (1 if False in checks.values() else 0)
    assert report.json["ok"] == (report.code == 0)
    return checks


def test_a_sound_project_passes_every_check(played: Path) -> None:
    checks = states(played)
    assert {"python", "sqlite", "settings", "disk", "permissions", "store", "policies", "current of route"} <= set(
        checks
    )
    assert "All checks passed." in headway("-C", played, "doctor").out


def test_an_empty_folder_has_no_problems(empty: Path) -> None:
    assert states(empty)["project"] is None
    assert not list(empty.iterdir())


def loosen(project: Path) -> None:
    (project / ".headway").chmod(0o755)


def misspell(project: Path) -> None:
    (project / "headway.toml").write_text("[tasks.route]\nkindd = 'choice'\n", "utf-8")


def lose_the_reward_function(project: Path) -> None:
    (project / "headway.toml").write_text("[tasks.route]\nreward = 'nowhere_to_be_found:score'\n", "utf-8")


def overwrite_the_store(project: Path) -> None:
    (project / ".headway" / "headway.db").write_bytes(b"this is no database" * 1000)


def cut_a_bundle(project: Path) -> None:
    (bundle,) = (project / ".headway" / "policies").iterdir()
    weights = bundle / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-7])


@pytest.mark.parametrize(
    ("damage", "wrong"),
    [
        (loosen, {"permissions"}),
        (misspell, {"settings"}),
        (lose_the_reward_function, {"settings"}),
        (overwrite_the_store, {"store"}),
        (cut_a_bundle, {"policies", "current of route"}),
    ],
)
def test_each_problem_is_reported_with_its_fix(project: Path, damage: Callable[[Path], None], wrong: set[str]) -> None:
    damage(project)
    assert {name for name, ok in states(project).items() if ok is False} == wrong
    text = headway("-C", project, "doctor")
    assert text.code == 1
    assert all(f"{name}: " in text.out for name in wrong)


def test_a_missing_extra_is_reported_with_the_command_that_installs_it(empty: Path) -> None:
    text = headway("-C", empty, "doctor").out
    for line in text.splitlines():
        if "not installed" in line:
            assert "pip install 'headway[" in line


def test_doctor_runs_no_reward_function(project: Path) -> None:
    marker = project / "ran"
    (project / "theirs.py").write_text(
        f"open({str(marker)!r}, 'w').close()\ndef score(decision, signals): return 1.0\n", "utf-8"
    )
    (project / "headway.toml").write_text("[tasks.route]\nreward = 'theirs:score'\n", "utf-8")
    assert states(project)["settings"] is True
    assert not marker.exists()
    headway("-C", project, "status")
    assert marker.exists()  # where rewards are computed, they run
