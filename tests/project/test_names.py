"""Policies have names for people, in the ledger, and one sentence on what they learned."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from headway.nouns import errors
from headway.project import Project, learned_text, name_policy, policy_names, said

TOML = """\
[tasks.route]
actions = ["small", "large"]
reward = { solved = 1.0 }
"""
DAY = 86_400.0
NOON = 1_794_571_200.0  # 13 November 2026, 12:00 UTC


class Clock:
    now = NOON

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Proofs are solved by the large model only, anything else by both; the small one is a little better there."""
    (tmp_path / "headway.toml").write_text(TOML, "utf-8")
    opened = Project(tmp_path, environ={}, clock=Clock(), seed=5)
    for number in range(240):
        hard = number % 3 == 0
        text = f"Please prove lemma {number} today" if hard else f"Please translate line {number} today"
        pick = opened.decide("route", text)
        opened.signal(pick.id, solved=float(pick.action == "large") if hard else 0.9 + 0.1 * (pick.action == "small"))
    return opened


def test_a_policy_is_called_by_its_day_and_what_it_does_until_it_is_named(project: Project) -> None:
    with project:
        first, second = project.learn("route", seed=1), project.learn("route", seed=2)
        project.clock.now += DAY  # type: ignore[attr-defined]
        third = project.learn("route", seed=3)
        names = policy_names(project, "route")
        assert [names[ref].name for ref in (first, second, third)] == ["13 Nov", "13 Nov no. 2", "14 Nov"]
        does = names[first].does
        told = re.fullmatch(r"small for (\d\d)%, large for (\d\d)%", does)
        assert told is not None, does
        assert int(told[1]) + int(told[2]) == 100
        assert 55 <= int(told[1]) <= 75, "a third of the requests needs the large one"
        assert said(names, first) == f"13 Nov: {does} ({first})"
        assert said(names, f"{second} is better than rules@0.") == f"13 Nov no. 2 ({second}) is better than rules@0."
        assert said(names, "bandit@ffff is unknown, mail@ad.de is none") == "bandit@ffff is unknown, mail@ad.de is none"
        entry = name_policy(project, second, "  cheap   first ", who="ada")
        assert (entry.kind, entry.why, entry.who) == ("name", "cheap first", "ada")
        assert project.ledger.state("route", entry.policy_hash) == "candidate", "a name changes no state"
        assert project.ledger.states("route")[entry.policy_hash] == "candidate"
        assert policy_names(project, "route")[second].text.startswith("cheap first: small for ")
        name_policy(project, second, "cheap only")
        assert policy_names(project, "route")[second].name == "cheap only"


def test_a_name_is_short_unique_and_never_looks_like_a_reference(project: Project) -> None:
    with project:
        first, second = project.learn("route", seed=1), project.learn("route", seed=2)
        for wrong in ("", "x" * 61, "same as bandit@4f2a"):
            with pytest.raises(errors.InvalidInput):
                name_policy(project, first, wrong)
        with pytest.raises(errors.InvalidInput):
            name_policy(project, "rules@0", "the rules")
        name_policy(project, first, "cheap first")
        with pytest.raises(errors.Conflict):
            name_policy(project, second, "cheap first")


def test_a_name_survives_a_copy_of_the_folder(project: Project, tmp_path: Path) -> None:
    with project:
        ref = project.learn("route", seed=1)
        name_policy(project, ref, "cheap first")
    shutil.copytree(tmp_path, tmp_path.parent / "copy")
    with Project(tmp_path.parent / "copy", environ={}) as copied:
        assert policy_names(copied, "route")[ref].name == "cheap first"


def test_what_a_policy_learned_is_the_word_that_divides_its_choices(project: Project) -> None:
    with project:
        ref = project.learn("route", seed=1)
        told = learned_text(project, "route", ref)
        match = re.fullmatch(
            r'Prefers (\w+) for (\d+)% of the requests with "(\w+)", and for (\d+)% of the others.', told
        )
        assert match is not None, told
        action, there, word, elsewhere = match.groups()
        assert word in (("prove", "lemma") if action == "large" else ("translate", "line"))
        assert int(there) >= 90 >= 10 >= int(elsewhere)
        assert learned_text(project, "route", "uniform@0") == "It is built in: it learned nothing."


def test_what_a_policy_learned_never_quotes_a_deleted_text(project: Project) -> None:
    from headway.observe import DeletionFilter

    with project:
        ref = project.learn("route", seed=1)
        project.erase(DeletionFilter(before=NOON + DAY))
        assert "lemma" not in str(project.ledger.entries("route"))
        assert learned_text(project, "route", ref).startswith("Unknown: there is no decision to ask it about")
