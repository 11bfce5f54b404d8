"""Several tasks are learned side by side."""

from __future__ import annotations

from pathlib import Path
from uuid import NAMESPACE_OID, uuid5

import pytest

from headway.kits.crews.learn_tasks import learn_tasks
from headway.kits.crews.processes import ProcessCrew
from headway.project import Project
from tests.cli.terminal import headway
from tests.kits.crews.crew_work import MortalCrew

TASKS = ("route", "reply", "rank")
TOML = "".join(
    f'[tasks.{name}]\nactions = ["small", "large"]\nreward = {{ solved = 1.0 }}\nretrain_after = 20\n' for name in TASKS
)


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", str(root))


def recorded(folder: Path) -> Path:
    """A project whose first two tasks have enough outcomes; equal rows in every folder."""
    folder.mkdir()
    (folder / "headway.toml").write_text(TOML, "utf-8")
    with Project(folder, clock=lambda: 1_700_000_000.0, seed=5) as project:
        for task in TASKS[:2]:
            for number in range(40):
                name = f"{task}-{number}"
                # Parts follow from ids, and choices from the seed: nothing here is left to chance.
                choice = project.decide(task, f"request {number}", key=name, id=str(uuid5(NAMESPACE_OID, name)))
                project.signal(choice.id, solved=float(number % 3 == 0))
    return folder


def policies(folder: Path) -> dict[str, list[str]]:
    with Project(folder) as project:
        return {task: [entry.policy for entry in project.ledger.entries(task)] for task in TASKS}


@pytest.mark.slow
def test_tasks_side_by_side_are_learned_as_one_by_one_also_by_workers_that_die(tmp_path: Path) -> None:
    folder = recorded(tmp_path / "one")
    (tmp_path / "marks").mkdir()
    mortal = MortalCrew(2, tmp_path / "marks")
    learned = list(learn_tasks(folder, TASKS[:2], mortal, seed=3))
    assert [one.task for one in learned] == list(TASKS[:2])
    assert mortal.killed == 1
    after = policies(folder)
    assert after["route"] == [learned[0].policy]  # also of the worker that was killed after it had published
    with Project(folder) as project:
        assert [project.learn(task, seed=3) for task in TASKS[:2]] == [one.policy for one in learned]
    assert policies(folder) == after
    alone = recorded(tmp_path / "alone")
    assert list(learn_tasks(alone, TASKS[:2], ProcessCrew(1), seed=3)) == learned
    assert policies(alone) == after


@pytest.mark.slow
def test_a_task_that_cannot_be_learned_does_not_stop_the_others(tmp_path: Path) -> None:
    folder = recorded(tmp_path / "one")
    learned = list(learn_tasks(folder, ("rank", "route"), ProcessCrew(2)))
    assert learned[0].code
    assert not learned[0].policy
    assert learned[1].policy


def test_learn_all_learns_what_is_due(tmp_path: Path) -> None:
    folder = recorded(tmp_path / "one")
    done = headway("-C", folder, "learn", "--all", "--workers", "2", "--json")
    assert done.code == 0, done.err
    assert [one["task"] for one in done.json["tasks"]] == list(TASKS[:2])
    assert "No task is due" in headway("-C", folder, "learn", "--all").out
    assert headway("-C", folder, "learn", "route", "--all").code == 2
