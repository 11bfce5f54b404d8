"""A training may begin with what a teacher of the world does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from headway.kits.grow.knobs import RecurrentKnobs  # noqa: E402
from headway.kits.grow.learner import learned  # noqa: E402
from headway.kits.grow.morph.baselines import TaughtMorph, dense_schedules, fixed_schedule  # noqa: E402
from headway.kits.grow.morph.blueprints import BLUEPRINTS, NAMES, OPS  # noqa: E402
from headway.kits.grow.training import Training, _fit_critic, imitate  # noqa: E402
from headway.nouns.errors import InvalidInput  # noqa: E402
from tests.kits.grow.toy_world import ToyWorld  # noqa: E402

KNOBS = RecurrentKnobs(
    width=16, envs=8, horizon=9, minibatches=2, epochs=2, steps=72, episodes=4, confirm=4, rate=1e-2,
    imitate="shown", imitate_passes=15, imitate_rate=1e-2,
)  # fmt: skip


class Taught(ToyWorld):
    """A teacher that goes where the start of the episode showed; it never waits or turns."""

    horizon = 9

    def teacher(self, name: str) -> Callable[[], Any]:
        assert name == "shown"
        return lambda: np.stack((np.ones(self.count), self.goal, np.zeros(self.count)), axis=1).astype(np.int64)


@pytest.mark.slow
def test_the_policy_does_what_its_teacher_does_before_it_practises() -> None:
    before, after = Training(Taught, KNOBS, seed=3), Training(Taught, KNOBS, seed=3)
    agreement = imitate(after, "shown")
    assert agreement > 0.95
    assert after.counts.steps == 0, "imitation is no practice"
    assert after.evaluate(8, seed=9) > 2 * before.evaluate(8, seed=9)


def test_a_run_imitates_once_and_says_how_well() -> None:
    training = Training(Taught, KNOBS, seed=3)
    training.run()
    first = training.agreement
    assert learned(training).metrics["imitation_agreement"] == first
    training.run()
    assert training.agreement is first


def test_the_critic_learns_last_and_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[str, Any] = {}
    fit = _fit_critic

    def watched(given: Training) -> None:
        kept.update({name: value.detach().clone() for name, value in given.network.named().items()})
        fit(given)

    monkeypatch.setattr("headway.kits.grow.training._fit_critic", watched)
    training = Training(Taught, KNOBS, seed=3)
    imitate(training, "shown")
    now = training.network.named()
    assert {name.split(".")[0] for name in now if not torch.equal(now[name], kept[name])} == {"value"}


def test_the_teacher_plays_as_many_episodes_as_were_asked_for() -> None:
    made: list[int] = []

    def make(count: int) -> Taught:
        made.append(count)
        return Taught(count)

    imitate(Training(make, replace(KNOBS, imitate_episodes=3, imitate_passes=1), seed=3), "shown")
    assert made == [8, 24]


def test_doubt_in_imitation_keeps_other_choices_likely() -> None:
    def sure(doubt: float) -> float:
        training = Training(Taught, replace(KNOBS, entropy=0.1, imitate_doubt=doubt), seed=3)
        imitate(training, "shown")
        return training.once(detailed=True).heads["op"]["entropy"]

    assert sure(0.0) < sure(10.0)


def test_a_world_without_teachers_and_an_unknown_teacher_are_refused() -> None:
    with pytest.raises(InvalidInput, match="no teachers"):
        imitate(Training(ToyWorld, KNOBS, seed=3), "shown")
    with pytest.raises(InvalidInput, match="best schedul'"):
        TaughtMorph(2).teacher("best schedul")


def test_a_baseline_of_morph_is_a_teacher() -> None:
    world = TaughtMorph(3, minibatches=1, batch=4, horizon=12)
    world.reset(1)
    teacher, wanted = world.teacher("fixed schedule"), fixed_schedule()
    for _ in range(8):
        assert torch.equal(teacher(), wanted(world))
        world.step(teacher())
    assert int(world.slots.seed.max()) == 1


def _sown(seed: int) -> list[tuple[int, int, str]]:
    """What the dense schedules germinate in two episodes of six hosts: step, host, blueprint."""
    world = TaughtMorph(6, minibatches=1, batch=4, horizon=12)
    world.reset(1)
    choose, sown = dense_schedules(seed), []
    for step in range(2 * world.horizon):
        actions = choose(world)
        for host, row in enumerate(actions.tolist()):
            if row[0] == OPS.index("GERMINATE"):
                sown.append((step, host, NAMES[row[2]]))
        world.step(actions)
    return sown


def test_dense_schedules_grow_one_dense_seed_per_episode_and_draw_it_anew() -> None:
    first = _sown(1)
    assert sorted((step // 12, host) for step, host, _ in first) == [
        (turn, host) for turn in (0, 1) for host in range(6)
    ]
    assert all(step % 12 <= 6 and BLUEPRINTS[name].kernel == "dense" for step, _, name in first)
    assert len({name for *_, name in first}) > 2
    assert first == _sown(1)
    assert first != _sown(2)
