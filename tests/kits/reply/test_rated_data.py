"""Rated replies as samples: signs, weights, what is held out; few-shot memory; what guards against forgetting."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headway.kits.reply.learn.data import RatedReply, Sample, cluster_of, divided, graded, is_held_out, ordered
from headway.kits.reply.learn.material import LikedReply, as_turns, nearest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from headway.kits.reply.learn.forgetting import Ewc, averaged, fisher, replayed  # noqa: E402
from headway.kits.reply.learn.kto import Kto  # noqa: E402
from headway.kits.reply.learn.trainer import Trainer  # noqa: E402
from tests.kits.reply.rated import quick, replies, train_samples, tuned_model  # noqa: E402


def reply(number: int, reward: float | None, **more: Any) -> RatedReply:
    values: dict[str, Any] = {
        "id": f"dec_{number:03}", "text": f"what is thing{number}?", "prompt": (1, 2), "reply": (3, 4, 5),
        "reward": reward, "at": float(number), **more,
    }  # fmt: skip
    return RatedReply(**values)


def rated(count: int = 40) -> list[RatedReply]:
    return [reply(number, 1.0 if number % 2 else -1.0) for number in range(count)]


def test_a_fifth_of_the_prompts_is_held_out_and_no_later_rating_moves_one() -> None:
    clusters = [cluster_of(f"what is thing{number}?") for number in range(2_000)]
    share = sum(map(is_held_out, clusters)) / len(clusters)
    assert 0.15 < share < 0.25  # 5.6 deviations of a fair draw
    before = {sample.id for sample in divided(graded(rated(30))).held_out}
    after = {sample.id for sample in divided(graded(rated(40))).held_out}
    assert before <= after
    assert before.isdisjoint({sample.id for sample in divided(graded(rated(40))).train})


def test_prompts_that_ask_the_same_are_one_cluster() -> None:
    assert cluster_of("What is a volcano?") == cluster_of("Tell me about volcanos, please.".replace("about ", ""))
    assert cluster_of("What is a volcano?") != cluster_of("What is a glacier?")
    assert cluster_of("?!") != cluster_of("...")


def test_a_reply_is_desirable_if_it_is_above_its_raters_mean_and_weighs_by_the_distance() -> None:
    kind = [reply(number, 0.5 if number % 2 else 1.0, rater="kind") for number in range(40)]
    signs = {sample.id: sample.desirable for sample in graded(kind)}
    assert signs["dec_000"]
    assert not signs["dec_001"], "0.5 is a bad rating of somebody who otherwise gives 1.0"
    graded_ones = {sample.reward: sample.weight for sample in graded([*rated(), reply(90, 0.25)])}
    assert graded_ones[0.25] < graded_ones[1.0]


def test_replies_of_others_are_at_most_positive_and_flagged_ones_never() -> None:
    extra = [
        reply(90, 1.0, foreign=True),
        reply(91, -1.0, foreign=True),
        reply(92, 1.0, flagged=True),
        reply(93, None),
        reply(94, -1.0, edited=(7, 8)),
    ]
    by_id = {sample.id: sample for sample in graded([*rated(), *extra])}
    assert by_id["dec_090"].desirable
    assert "dec_091" not in by_id
    assert not by_id["dec_092"].liked
    assert "dec_093" not in by_id
    assert by_id["dec_094/edit"].liked
    assert by_id["dec_094/edit"].reply == (7, 8)
    assert not by_id["dec_094"].desirable


def test_unrated_replies_are_skipped_or_count_as_zero_or_fade() -> None:
    rows = [*rated(), reply(90, None), reply(91, None, at=90.0 + 14 * 86_400)]
    assert "dec_090" not in {sample.id for sample in graded(rows)}
    positive = [replace(row, reward=1.0) if row.reward and row.at % 4 else row for row in rows]
    zero = {sample.id: sample for sample in graded(positive, unrated="zero")}
    assert not zero["dec_090"].desirable, "with a positive mean, zero is a bad rating: why skip is the default"
    fading = {sample.id: sample for sample in graded(positive, unrated="decay")}
    assert fading["dec_090"].weight == pytest.approx(fading["dec_091"].weight / 4, rel=0.01)


def test_replies_longer_than_the_sequence_are_left_out() -> None:
    assert not [
        sample for sample in graded([*rated(), reply(90, 1.0, reply=(1,) * 500)], sequence=100) if len(sample) > 100
    ]


def test_liked_replies_to_similar_questions_become_examples() -> None:
    liked = [
        LikedReply("What is a volcano?", "A mountain that erupts.", 1.0),
        LikedReply("Who was Ada Lovelace?", "A mathematician.", 1.0),
        LikedReply("What is a glacier?", "A river of ice.", 0.5),
    ]
    turns = as_turns(nearest(liked, "What is a geyser?", most=2))
    assert [turn.role for turn in turns] == ["user", "assistant", "user", "assistant"]
    assert turns[-1].content == "A mountain that erupts."
    assert "Ada" not in " ".join(turn.content for turn in turns)
    assert nearest(liked, "What is a volcano?", most=3)[-1].answer != "A mountain that erupts."
    assert nearest([], "What?") == []


# -- against forgetting


def sample(number: int, *, desirable: bool = True, reward: float = 1.0, length: int = 3) -> Sample:
    return Sample(
        id=f"s{number:03}", cluster=str(number), prompt=(1, 2), reply=(3,) * length, logged=(), reward=reward,
        desirable=desirable, weight=1.0, at=float(number),
    )  # fmt: skip


def test_the_curriculum_begins_with_clear_and_short_cases() -> None:
    samples = [sample(0, reward=0.1, length=40), sample(1, length=3), sample(2, length=40), sample(3, reward=0.1)]
    order = ordered(samples, [0, 1, 2, 3])
    assert order[0] == 1
    assert order[-1] == 0
    assert sorted(order) == [0, 1, 2, 3]


def test_replay_draws_evenly_from_both_signs_and_all_ages() -> None:
    old = [sample(number, desirable=number % 10 == 0) for number in range(100)]  # few good ones
    drawn = replayed(old, 16, seed=3)
    assert len(drawn) == 16
    assert 5 <= sum(one.desirable for one in drawn) <= 10
    assert {int(one.at) // 25 for one in drawn} == {0, 1, 2, 3}
    assert replayed(old, 16, seed=3) == drawn
    assert len(replayed(old[:3], 16, seed=3)) == 3


def test_averaging_gives_the_mean_change_of_every_layer() -> None:
    draws = np.random.default_rng(0)
    name = "base_model.model.layer.lora_A.weight"
    partner = name.replace("lora_A", "lora_B")
    adapters = [{name: draws.normal(size=(2, 6)), partner: draws.normal(size=(5, 2))} for _ in range(3)]
    mean = averaged(adapters, rank=6)
    wanted = sum(one[partner] @ one[name] for one in adapters) / 3
    assert np.allclose(mean[partner] @ mean[name], wanted, atol=1e-5)
    same = averaged([adapters[0]] * 3, rank=2)
    assert np.allclose(same[partner] @ same[name], adapters[0][partner] @ adapters[0][name], atol=1e-5)


@pytest.mark.slow
def test_ewc_holds_what_the_old_replies_depend_on(tiny: Path) -> None:
    base = tuned_model(tiny)
    samples = train_samples(replies(base))
    old, new = samples[: len(samples) // 2], samples[len(samples) // 2 :]

    def forgotten(strength: float) -> float:
        """How far log π of the old replies moves while the new ones are learned."""
        base.adapter.reset(0)
        knobs = quick(epochs=2, budget=10.0, anchors=0)
        before = Trainer(base, old, Kto(), knobs, seed=0)
        before.run()
        learned = before.scores(before.rows)
        after = Trainer(base, new, Kto(), knobs, seed=1)
        after.penalties = (Ewc(fisher(before, range(len(old))), base.adapter, strength),)
        after.run()
        now = before.scores(before.rows)
        return float(np.mean([abs(float((one - two).sum())) for one, two in zip(now, learned, strict=True)]))

    free, held = forgotten(0.0), forgotten(1e4)
    assert held < 0.7 * free


def test_ewc_is_zero_where_it_starts_and_its_gradient_is_that_of_the_square(tiny: Path) -> None:
    base = tuned_model(tiny)
    importance = [torch.full_like(matrix, 2.0) for matrix in base.adapter.parameters()]
    ewc = Ewc(importance, base.adapter, 3.0)
    assert ewc(base.adapter).item() == 0.0
    first = base.adapter.parameters()[0]
    with torch.no_grad():
        first += 0.5
    loss = ewc(base.adapter)
    loss.backward()
    assert loss.item() == pytest.approx(0.5 * 3.0 * 2.0 * 0.25 * first.numel(), rel=1e-4)
    assert torch.allclose(first.grad, torch.full_like(first, 3.0 * 2.0 * 0.5))
