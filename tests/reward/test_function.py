"""Custom reward functions: loaded, versioned by their source, with clear errors."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from headway.nouns.errors import InvalidInput, InvalidSettings
from headway.nouns.records import Candidate, Decision, Situation
from headway.reward.compose import Rewards

GOOD = "def score(decision, signals):\n    return signals['quality'] / 2 - (0 if decision is None else 0.25)\n"


def write(directory: Path, source: str, name: str = "my_rewards.py") -> None:
    file = directory / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(source, encoding="utf-8")


def load(directory: Path, name: str = "my_rewards:score", required: list[str] | None = None) -> Rewards:
    return Rewards.from_settings(reward=name, directory=directory, required=required)


def decision() -> Decision:
    return Decision(
        id="dec_1",
        situation=Situation(task="route"),
        candidates=(Candidate("a"),),
        probabilities=(1.0,),
        action="a",
        propensity=1.0,
        policy="uniform@0",
        policy_hash="",
        config_hash="",
        encoder="",
        exploration="none",
        seed=0,
        at=0.0,
    )


def test_a_function_of_the_project_receives_decision_and_signals(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    rewards = load(tmp_path)
    assert rewards.outcome({"quality": 1.0}, age_s=0.0).reward == 0.5
    assert rewards.outcome({"quality": 1.0}, age_s=0.0, decision=decision()).reward == 0.25


def test_the_first_signal_settles_unless_signals_are_required(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    assert load(tmp_path).outcome({}, age_s=0.0).status == "pending"
    rewards = load(tmp_path, required=["quality", "reviewed"])
    assert rewards.outcome({"quality": 1.0}, age_s=0.0).status == "pending"
    assert rewards.outcome({"quality": 1.0, "reviewed": 1.0}, age_s=0.0).status == "rewarded"


def test_the_result_of_a_function_is_clipped_to_the_range(tmp_path: Path) -> None:
    write(tmp_path, "def score(decision, signals):\n    return 7\n")
    outcome = load(tmp_path).outcome({"x": 1.0}, age_s=0.0)
    assert (outcome.reward, outcome.clipped) == (1.0, True)


def test_the_version_follows_the_source(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    first = load(tmp_path)
    again = load(tmp_path)
    write(tmp_path, GOOD.replace("/ 2", "/ 4"))  # same length, same second: a bytecode cache would not notice
    changed = load(tmp_path)
    assert first.version == again.version != changed.version
    assert first.outcome({"quality": 1.0}, age_s=0.0).reward == 0.5
    assert changed.outcome({"quality": 1.0}, age_s=0.0).reward == 0.25


def test_two_projects_may_have_files_of_the_same_name(tmp_path: Path) -> None:
    write(tmp_path / "one", GOOD)
    write(tmp_path / "two", "def score(decision, signals):\n    return -1.0\n")
    assert load(tmp_path / "one").outcome({"quality": 1.0}, age_s=0.0).reward == 0.5
    assert load(tmp_path / "two").outcome({"quality": 1.0}, age_s=0.0).reward == -1.0


def test_a_function_in_a_package_may_import_sibling_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "", "judging_package/__init__.py")
    write(tmp_path, "HALF = 0.5\n", "judging_package/numbers.py")
    write(
        tmp_path,
        "from judging_package.numbers import HALF\n\n\ndef score(decision, signals):\n    return HALF\n",
        "judging_package/judge.py",
    )
    before = list(sys.path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    rewards = load(tmp_path, "judging_package.judge:score")
    assert rewards.outcome({"x": 1.0}, age_s=0.0).reward == 0.5
    assert sys.path == before
    for name in [name for name in sys.modules if name.startswith("judging_package")]:
        del sys.modules[name]


def test_a_package_that_is_shadowed_by_another_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "", "json/__init__.py")
    write(tmp_path, GOOD, "json/decoder.py")
    with pytest.raises(InvalidSettings, match="already loaded"):
        load(tmp_path, "json.decoder:score")


def test_a_function_may_come_from_an_installed_package() -> None:
    rewards = Rewards.from_settings(reward="headway.reward.compose:reward_v1", range=(-2, 2))
    assert rewards.outcome({"timeout": 1.0}, age_s=0.0).reward == -1.0


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("return signals['nothing']", "raised KeyError"),
        ("return float('nan')", "returned nan"),
        ("return float('inf')", "returned inf"),
        ("return None", "returned None"),
        ("return '0.5'", "returned '0.5'"),
    ],
)
def test_a_failing_function_is_reported_with_the_decision(tmp_path: Path, body: str, says: str) -> None:
    write(tmp_path, f"def score(decision, signals):\n    {body}\n")
    with pytest.raises(InvalidInput) as caught:
        load(tmp_path).outcome({"x": 1.0}, age_s=0.0, decision=decision())
    message = str(caught.value)
    assert caught.value.code == "reward_function_failed"
    assert says in message
    assert "my_rewards:score" in message
    assert "dec_1" in message


def test_a_function_cannot_change_the_signals(tmp_path: Path) -> None:
    write(tmp_path, "def score(decision, signals):\n    signals.clear()\n    return 0.0\n")
    signals = {"x": 1.0}
    load(tmp_path).outcome(signals, age_s=0.0)
    assert signals == {"x": 1.0}


@pytest.mark.parametrize(
    ("name", "source", "says"),
    [
        ("my_rewards:scor", GOOD, "Did you mean 'score'?"),
        ("my_rewards:score", "def score(:\n", "SyntaxError"),
        ("my_rewards:score", "1 / 0\n", "ZeroDivisionError"),
        ("no_such_module_here:score", GOOD, "ModuleNotFoundError"),
        ("my_rewards:score", "score = 3\n", "has no function 'score'"),
        ("sys:exit", GOOD, "no source file"),
    ],
)
def test_a_function_that_cannot_be_loaded_is_reported_with_the_reason(
    tmp_path: Path, name: str, source: str, says: str
) -> None:
    write(tmp_path, source)
    with pytest.raises(InvalidSettings) as caught:
        load(tmp_path, name)
    assert caught.value.code == "bad_reward_function"
    assert says in str(caught.value)


@pytest.mark.parametrize("name", ["a:b:c", "a.:b", ":b", "a:", "../x:y", "a:b\n"])
def test_an_invalid_function_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidSettings):
        Rewards.from_settings(reward=name)
