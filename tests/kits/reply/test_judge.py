"""A judge votes only if it agrees with the ratings, and its votes are its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import headway
from headway.kits.models.language import Prompt
from headway.kits.reply.commands.compare import agreement, judge_pairs, judged, required
from headway.kits.reply.comparison import BlindPair
from headway.nouns.errors import Conflict
from headway.project import Project
from tests.kits.reply.test_shaping import said


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "headway.toml").write_text('[tasks.reply]\nkind = "reply"\n')
    return headway.open(tmp_path)


class Judge:
    """Answers with the place of the answer that a function likes more."""

    def __init__(self, worth: Callable[[str], float]) -> None:
        self.worth = worth

    def generate(self, prompts: Sequence[Prompt]) -> list[Any]:
        answers = [re.findall(r"Answer: (.*)", prompt.turns[-1].content) for prompt in prompts]
        chosen = [1 if self.worth(one) > self.worth(two) else 2 for one, two in answers]
        return [SimpleNamespace(text=f" {place}.") for place in chosen]


def rate(project: Project, pairs: int) -> None:
    for place in range(pairs):
        project.signal(said(project, f"question {place}", "short").id, stars=5)
        project.signal(said(project, f"question {place}", "a long answer that nobody reads").id, stars=1)


def test_a_judge_is_calibrated_by_the_pairs_on_which_it_agrees(project: Project) -> None:
    rate(project, 24)
    like_the_user: Any = Judge(lambda text: -len(text))
    unlike: Any = Judge(len)
    always_first: Any = SimpleNamespace(generate=lambda prompts: [SimpleNamespace(text="1") for _ in prompts])
    silent: Any = SimpleNamespace(generate=lambda prompts: [SimpleNamespace(text="Both.") for _ in prompts])
    told = agreement(project, "reply", like_the_user)
    assert (told.right, told.wrong, told.calibrated) == (24, 0, True)
    required(told)
    for judge in (unlike, always_first, silent):
        with pytest.raises(Conflict) as raised:
            required(agreement(project, "reply", judge))
        assert raised.value.code == "judge_not_calibrated"


def test_few_ratings_calibrate_no_judge(project: Project) -> None:
    rate(project, 19)
    judge: Any = Judge(lambda text: -len(text))
    told = agreement(project, "reply", judge)
    assert (told.right, told.calibrated) == (19, False)


def test_the_votes_of_a_judge_have_its_name(project: Project) -> None:
    judge: Any = Judge(lambda text: -len(text))
    assert judged(judge, ("q", "a"), ("q", "much longer")) == 1.0
    drawn = project.consider("reply", "q", ("base@0", "language@4f2a"))
    project.submit([drawn]).result()
    shown_first = next(each.name for each in drawn.decision.candidates if each.name != drawn.decision.action)
    pair = BlindPair(decision=drawn.decision, by_first=shown_first, question="q", first="much longer", second="a")
    assert judge_pairs(project, [pair], judge, rater="judge:large") == 1
    (decision,) = project.query.decisions("reply")
    assert decision.id == drawn.decision.id
    (signal,) = project.query.signals(decision.id)
    assert (signal.name, signal.value, signal.rater) == ("preferred", 1.0, "judge:large")
