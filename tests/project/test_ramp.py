"""A promotion takes over the traffic in steps, and stops where more traffic makes the candidate worse."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headway.nouns.errors import Conflict
from headway.project import Project
from headway.project.alarm import _ramps
from tests.project.test_experiment import Traffic

TOML = (
    '[store]\ndurability = "process"\n[tasks.route]\nactions = ["small", "large"]\nrange = [0, 1]\nfinal_after_s = 0\n'
    'encoder = "structure"\nexperiment = "off"\n'
)


class Promoted(Traffic):
    """A project whose candidate, which prefers "large", is proven."""

    policy = ""

    def step(self, n: int = 25, *, large: float = 0.9, most: int = 60) -> list[str]:
        """Play and look until something follows; what followed, at most after so many looks."""
        for _ in range(most):
            self.play(n, large, 0.3)
            entry = self.project.guard("route")
            if entry is not None:
                return [entry.kind, f"{entry.share:g}"]
        return []

    @property
    def rows(self) -> list[tuple[str, float]]:
        """The kinds and shares of the ledger since the proof."""
        kinds = ("canary", "experiment", "promote", "retire", "rollback")
        return [(entry.kind, entry.share) for entry in self.project.ledger.entries("route") if entry.kind in kinds]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float, str]:
    one = Promoted(tmp_path_factory.mktemp("proven"), TOML)
    one.play(300, 0.9, 0.3)
    policy = one.project.learn("route")
    one.play(300, 0.9, 0.3)
    assert one.project.prove(policy).passed
    one.project.close()
    return one.folder, one.now, policy


@pytest.fixture
def proven(played: tuple[Path, float, str], tmp_path: Path) -> Iterator[Promoted]:
    folder, now, policy = played
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    one = Promoted(tmp_path, TOML)
    one.now, one.policy = now, policy
    yield one
    one.project.close()


@pytest.fixture
def again(proven: Promoted) -> Iterator[Callable[[str], Project]]:
    """The same project with other settings."""

    def opened(toml: str) -> Project:
        (proven.folder / "headway.toml").write_text(toml)
        return proven.again()

    return opened


def test_a_promotion_goes_up_in_steps_and_a_good_policy_gets_all_of_the_traffic(proven: Promoted) -> None:
    project = proven.project
    entry = project.promote(task="route")
    assert (entry.kind, entry.share, entry.policy) == ("canary", 0.1, proven.policy)
    assert project.current("route").ref == "uniform@0", "until the last step is over"
    assert "10% of route, step 1 of 4" in str(project.status().task("route").ramp.text)
    assert project.next_step("route").verb == "ramp"
    with pytest.raises(Conflict, match="step 1 of 4") as early:
        project.promote(task="route")
    assert early.value.code == "ramp_running"
    followed = [proven.step() for _ in range(4)]
    assert followed == [["canary", "0.25"], ["canary", "0.5"], ["canary", "0.95"], ["promote", "0"]]
    last = project.ledger.current("route")
    assert last is not None
    assert (last.policy, last.evidence_id) == (proven.policy, entry.evidence_id)
    assert list(last.detail["ramp"]) == [0.1, 0.25, 0.5, 1.0]
    assert project.current("route").ref == proven.policy
    assert project.status().task("route").ramp is None


def test_the_propensity_of_a_step_is_that_of_the_mixture_and_replays(proven: Promoted) -> None:
    project = proven.project
    alone = project.decide("route", "ask 1").probabilities
    project.promote(task="route")
    picks = [project.decide("route", f"ask {number}") for number in range(20)]
    project.promote(task="route", at_once=True)
    whole = project.decide("route", "ask 1").probabilities
    for pick in picks:
        assert pick.probabilities == pytest.approx([0.9 * a + 0.1 * b for a, b in zip(alone, whole, strict=True)])
        assert pick.propensity == pick.probabilities[[c.name for c in pick.candidates].index(pick.action)]
        assert pick.exploration.endswith("ramp 0.1")
        assert project.replay(pick.id).exact


def test_a_policy_that_gets_worse_with_its_share_loses_it(proven: Promoted) -> None:
    proven.project.promote(task="route")
    assert proven.step() == ["canary", "0.25"]
    assert proven.step(large=0.0) == ["retire", "0"]
    ended = proven.project.ledger.last("route", "retire")
    assert ended is not None
    assert ended.why.startswith("automatic: Proven worse than uniform@0")
    assert "on 25% of the traffic" in ended.why
    assert proven.project.current("route").ref == "uniform@0"
    assert proven.project.decide("route", "ask").exploration == "epsilon, floor 0.02"
    (span,) = _ramps(proven.project, "route")
    assert span[1] == ended.at, "its outcomes raise no alarm"


def test_a_rollback_ends_a_promotion_at_any_step_and_at_once_skips_the_rest(proven: Promoted) -> None:
    project = proven.project
    project.promote(task="route")
    ended = project.rollback("route", why="costs went up")
    assert (ended.kind, ended.why) == ("retire", "rolled back from 10% of the traffic: costs went up")
    assert project.ledger.heads("route").canary is None
    project.promote(proven.policy, task="route")
    entry = project.promote(proven.policy, task="route", at_once=True)
    assert (entry.kind, entry.detail["at_once"]) == ("promote", True)
    assert project.current("route").ref == proven.policy
    assert proven.rows == [("canary", 0.1), ("retire", 0.0), ("canary", 0.1), ("promote", 0.0)]


def test_another_process_sees_the_step_and_a_restart_goes_on_with_it(
    proven: Promoted, again: Callable[[str], Project]
) -> None:
    proven.project.promote(task="route")
    with Project(proven.folder, environ={}, clock=lambda: proven.now) as worker:
        assert worker.decide("route", "ask").exploration.endswith("ramp 0.1")
        proven.step()
        worker.servings.forget("route")
        assert worker.decide("route", "ask").exploration.endswith("ramp 0.25")
    before = proven.project.ledger.heads("route").canary
    assert again(TOML).ledger.heads("route").canary == before
    assert proven.step() == ["canary", "0.5"]


def test_a_promotion_ends_where_its_evidence_no_longer_applies(
    proven: Promoted, again: Callable[[str], Project]
) -> None:
    proven.project.promote(task="route")
    project = again(TOML + 'explore = { kind = "epsilon", value = 0.3 }\n')
    proven.play(30, 0.9, 0.3)
    entry = project.guard("route")
    assert entry is not None
    assert (entry.kind, entry.share) == ("canary", 0.0)
    assert "does not apply any more" in entry.why
    assert project.next_step("route").verb == "prove"


def test_the_steps_can_be_switched_off(proven: Promoted, again: Callable[[str], Project]) -> None:
    assert again(TOML + 'ramp = "off"\n').promote(task="route").kind == "promote"


def test_after_an_experiment_the_steps_begin_above_its_share(proven: Promoted) -> None:
    project = proven.project
    project.start_experiment("route", share=0.4)
    proven.play(400, 0.9, 0.3)
    entry = project.promote(because=project.prove(task="route"), task="route")
    assert (entry.kind, entry.share) == ("canary", 0.5)
    assert entry.ramp is not None
    assert entry.ramp.proven == 0.4
    ended = project.experiment("route")
    assert ended is not None
    assert ended.ended == "better"
