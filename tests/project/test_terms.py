"""What a pass is bound to: whatever would change what is served, or what it is judged by, asks for a new proof."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import headway
from headway.nouns.errors import Conflict
from tests.project.conftest import play

TASK = '[tasks.route]\nactions = ["small", "large"]\nfallback = "small"\nseed = 3\n'
STATED = TASK + 'explore = { kind = "epsilon", value = 0.1 }\nfloor = 0.02\n'
REWARD = "[tasks.route.reward]\nreward = 1.0\n"


@pytest.fixture(scope="module")
def proven(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose newest candidate has passed."""
    folder = tmp_path_factory.mktemp("proven") / "project"
    folder.mkdir()
    (folder / "headway.toml").write_text(STATED + REWARD)
    with headway.open(folder, environ={}, seed=3) as project:
        play(project, 1500)
        project.learn("route")
        verdict = project.prove(task="route")
        assert verdict.passed, verdict.reasons
        assert verdict.evidence is not None
        assert verdict.evidence.config_hash
        assert verdict.evidence.behaviour
    return folder


CHANGES = {
    "fallback": (('"small"\nseed', '"large"\nseed'), "fallback was small when it was proven and is large now"),
    "exploration": (("0.1", "0.3"), "explore was epsilon 0.1 when it was proven and is epsilon 0.3 now"),
    "floor": (("floor = 0.02", "floor = 0.05"), "floor was 0.02 when it was proven and is 0.05 now"),
    "reward weight": (("reward = 1.0", "reward = 0.5"), "the definition of the reward has changed"),
    "rules": (("seed = 3\n", 'seed = 3\nrules = [{ when = "task_complexity_score > 0.8", use = "large" }]\n'), "rules"),
    "guard": (("seed = 3\n", "seed = 3\nguards = { cost_usd = { tolerance = 0.1 } }\n"), "guard cost_usd was not set"),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_after_the_proof_is_refused_and_named(proven: Path, tmp_path: Path, what: str) -> None:
    folder = Path(shutil.copytree(proven, tmp_path / "project"))
    (before, after), reason = CHANGES[what]
    text = (folder / "headway.toml").read_text()
    assert before in text
    (folder / "headway.toml").write_text(text.replace(before, after))
    with headway.open(folder, environ={}, seed=3) as project:
        with pytest.raises(Conflict) as error:
            project.promote(task="route", at_once=True)
        assert error.value.code == "stale_evidence"
        assert reason in error.value.message
        step = project.next_step("route")
        assert step.verb == "prove"
        assert reason in step.why
        project.prove(task="route")
        assert project.next_step("route").verb != "prove"
        if what in ("exploration", "floor"):
            project.promote(task="route", at_once=True)


def test_another_encoder_is_named(proven: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(proven, tmp_path / "project"))
    (folder / "headway.toml").write_text(STATED.replace("seed = 3\n", 'seed = 3\nencoder = "structure"\n') + REWARD)
    with headway.open(folder, environ={}, seed=3) as project, pytest.raises(Conflict) as error:
        project.promote(task="route", at_once=True)
    assert error.value.code == "stale_evidence"
    assert "encoder was hashing when it was proven and is structure now" in error.value.message


def test_a_change_that_is_taken_back_leaves_the_proof_valid(proven: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(proven, tmp_path / "project"))
    (folder / "headway.toml").write_text(STATED.replace("0.1", "0.3") + REWARD)
    with headway.open(folder, environ={}, seed=3) as project:
        assert project.next_step("route").verb == "prove"
    (folder / "headway.toml").write_text(STATED + REWARD)
    with headway.open(folder, environ={}, seed=3) as project:
        project.canary(task="route", share=0.2)  # a canary is no change of what was proven
        assert project.next_step("route").verb == "promote"
        assert project.promote(task="route", at_once=True).kind == "promote"


def test_a_rolled_back_policy_is_proven_again_before_it_returns(proven: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(proven, tmp_path / "project"))
    with headway.open(folder, environ={}, seed=3) as project:
        policy = project.promote(task="route", at_once=True).policy
        project.rollback("route")
        with pytest.raises(Conflict) as error:
            project.promote(policy, task="route", at_once=True)
        assert "taken back" in error.value.message
        again = project.prove(policy, task="route").evidence
        assert again is not None
        assert again.challenger == 2


# -- built-in policies are what the settings say


def test_the_hash_of_a_fixed_policy_depends_on_its_arm(opened) -> None:
    project = opened(STATED)
    settings = project.settings.task("route")
    _, small = project.servings.resolve(settings, "fixed@0")
    other = opened(STATED.replace('fallback = "small"', 'fallback = "large"'))
    _, large = other.servings.resolve(other.settings.task("route"), "fixed@0")
    assert small != large
    assert project.servings.resolve(settings, "uniform@0") == other.servings.resolve(settings, "uniform@0")


def test_a_built_in_policy_stays_current_when_its_definition_changes(opened) -> None:
    project = opened(STATED + 'gate = "off"\n')
    play(project, 60)
    learned = project.learn("route")
    project.promote("fixed@0", task="route", at_once=True)
    project.promote(learned, task="route", at_once=True)
    project.rollback("route", to="fixed@0")
    project.close()
    project = opened(STATED.replace('fallback = "small"', 'fallback = "large"') + 'gate = "off"\n')
    assert project.decide("route", "x").policy == "fixed@0"
    assert project.current("route").ref == "fixed@0"
    back = project.rollback("route")
    assert back.policy == learned
    assert project.rollback("route").policy == "fixed@0"


def test_proof_of_a_built_in_policy_is_stale_when_its_arm_changes(opened) -> None:
    project = opened(STATED)
    play(project, 400)
    verdict = project.prove("fixed@0", task="route")
    project.close()
    project = opened(STATED.replace('fallback = "small"', 'fallback = "large"'))
    for because in (None, verdict):
        with pytest.raises(Conflict) as error:
            project.promote("fixed@0", task="route", because=because)
        assert error.value.code == "stale_evidence"
        assert "fallback was small" in error.value.message
