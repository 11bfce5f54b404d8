"""A judge beside people, through a project: asked, calibrated against them, and a signal of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from headway.nouns.protocols import Completion, Delta, Prompt, Scored
from headway.project import Project
from headway.reward.by_class import WEIGHTS
from headway.reward.second_rater import calibrate, is_ai, stars

Opened = Callable[..., Project]
TOML = """
[tasks.mutate]
actions = "mutations"
reward = "headway.reward.by_class:mutation_reward"
"""


class Generous:
    """A judge that gives one star more than the answer names, and says nothing of use where it names none."""

    model = "generous"

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        return [self._reply(each.turns[0].content) for each in prompts]

    def _reply(self, text: str) -> Completion:
        answer = text.rpartition("Answer:\n")[2].splitlines()[1]
        said = f"I give it {min(int(answer[0]) + 1, 5)} out of 5." if answer[0].isdigit() else "A fine answer!"
        return Completion(text=said, tokens=(1,), logprob_model=(), logprob_acting=(), finish="stop", prompt_tokens=())

    def stream(self, prompt: Prompt) -> Iterator[Delta]:
        raise AssertionError(prompt)

    def score(self, prompt: Prompt, reply: str | Sequence[int], *, ended: bool = False) -> Scored:
        raise AssertionError(prompt)


def test_a_calibrated_judge_rates_what_nobody_rated_and_is_never_a_person(opened: Opened) -> None:
    project = opened(TOML)
    both = []
    for n in range(40):
        answer = f"{1 + n % 4} star work"
        pick = project.decide("mutate", f"Write a poem, number {n}.", state={"prompt_class": "creative"})
        project.signal(pick.id, human=1.0 + n % 4, rater="ann")
        both.append((stars(Generous(), [("Write a poem.", answer)])[0] or 0.0, 1.0 + n % 4))
    calibration = calibrate(both)
    assert calibration.bias == 1.0
    alone = project.decide("mutate", "Write a poem that nobody reads.", state={"prompt_class": "creative"})
    given, nothing = stars(Generous(), [("Write a poem.", "2 star work"), ("Write a poem.", "none")])
    assert (given, nothing) == (3.0, None)
    rated = calibration.rate(given or 0.0, judge=Generous.model)
    assert rated.value == pytest.approx(2.0, abs=0.15)
    project.signal(alone.id, ai=rated.value, rater=rated.rater)
    found = project.outcome(alone.id)
    assert found is not None
    assert found.reward == pytest.approx(WEIGHTS["creative"]["ai"] * (rated.value - 3.0) / 2.0)
    (stored,) = project.query.signals(alone.id, live=True)
    assert (stored.name, is_ai(stored.rater)) == ("ai", True)
