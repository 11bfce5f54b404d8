"""The trainer on a tiny random model: what goes up and down, exact undo, exact resumption, budgets."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from headway.kits.reply.learn.data import Sample  # noqa: E402
from headway.kits.reply.learn.kto import Kto, beta_for  # noqa: E402
from headway.kits.reply.learn.objective import Sft  # noqa: E402
from headway.kits.reply.learn.ppo import Ppo  # noqa: E402
from headway.kits.reply.learn.trainer import Trainer  # noqa: E402
from headway.nouns.errors import Unavailable  # noqa: E402
from tests.kits.reply.rated import quick, replies, train_samples, tuned_model  # noqa: E402

LEARNERS = [pytest.param("sft", marks=pytest.mark.slow), "kto", pytest.param("ppo", marks=pytest.mark.slow)]


def objective(name: str, knobs: Any) -> Any:
    return {"sft": Sft, "kto": lambda: Kto(likelihood=knobs.likelihood), "ppo": lambda: Ppo(knobs)}[name]()


@pytest.fixture(scope="module")
def base(tiny: Path) -> Any:
    return tuned_model(tiny)


@pytest.fixture(scope="module")
def samples(base: Any) -> list[Sample]:
    return train_samples(replies(base))


def train(base: Any, samples: list[Sample], learner: str = "kto", work: Path | None = None, **given: Any) -> Trainer:
    base.adapter.reset(0)
    knobs = quick(learner=learner, **given)
    trainer = Trainer(base, samples, objective(learner, knobs), knobs, seed=0, work=work)
    trainer.run()
    return trainer


def moved(trainer: Trainer, samples: list[Sample]) -> dict[bool, float]:
    """How far log π of whole replies moved from the base, by sign."""
    place = {sample.id: at for at, sample in enumerate(trainer.samples)}
    now = trainer.scores(trainer.rows)
    shift: dict[bool, list[float]] = {True: [], False: []}
    for sample in samples:
        if sample.id in place:
            at = place[sample.id]
            shift[sample.desirable].append(float((now[at] - trainer.base[at]).sum()))
    return {sign: float(np.mean(values)) for sign, values in shift.items() if values}


@pytest.mark.parametrize("learner", LEARNERS)
def test_good_replies_go_up_and_bad_ones_down_and_both_stay_bounded(
    base: Any, samples: list[Sample], learner: str
) -> None:
    trainer = train(base, samples, learner, epochs=4, budget=0.2)
    shift = moved(trainer, samples)
    assert shift[True] > 0.05
    assert shift[True] < 40.0
    if learner != "sft":
        assert -40.0 < shift[False] < shift[True] - 0.05
        assert shift[False] < 0.0


def test_the_ratio_is_exactly_one_on_the_first_pass(base: Any, samples: list[Sample]) -> None:
    trainer = train(base, samples, "ppo", epochs=1, batch=3, accumulate=100)
    assert trainer.objective.first_ratios == (1.0, 1.0)
    assert trainer.counts.updates == 1


@pytest.mark.slow
def test_logged_log_probabilities_are_those_of_the_scorer(base: Any, samples: list[Sample]) -> None:
    trainer = train(base, samples, "ppo", epochs=1)
    for sample, scored in zip(trainer.samples, trainer.base, strict=True):
        assert scored.tolist() == pytest.approx(sample.logged, abs=1e-3)


@pytest.mark.slow
def test_replies_too_far_from_their_writer_are_dropped(base: Any, samples: list[Sample]) -> None:
    strange = [replace(samples[0], logged=tuple(-9.0 for _ in samples[0].reply)), *samples[1:]]
    trainer = train(base, strange, "ppo", epochs=1)
    assert trainer.objective.dropped == {0}


@pytest.mark.parametrize("learner", LEARNERS)
def test_withdrawing_a_rating_and_training_again_is_as_if_it_had_never_been_given(base: Any, learner: str) -> None:
    rated = replies(base)
    first = train(base, train_samples(rated[:-1]), learner).tensors()
    with_it = train(base, train_samples(rated), learner).tensors()
    withdrawn = train(base, train_samples([*rated[:-1], replace(rated[-1], reward=None)]), learner).tensors()
    assert all(np.array_equal(first[name], withdrawn[name]) for name in first)
    assert any(not np.array_equal(first[name], with_it[name]) for name in first)


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_run_that_was_killed_continues_bit_for_bit(
    base: Any, samples: list[Sample], learner: str, tmp_path: Path
) -> None:
    whole = train(base, samples, learner, tmp_path / "whole", epochs=3)
    knobs = quick(learner=learner, epochs=3)
    base.adapter.reset(0)
    killed = Trainer(base, samples, objective(learner, knobs), knobs, seed=0, work=tmp_path / "killed")

    def die(what: str, done: int, total: int | None) -> None:
        if done == whole.counts.updates - 2:  # after a snapshot, with an update that is lost
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        killed.run(die)
    base.adapter.reset(99)
    again = Trainer(base, samples, objective(learner, knobs), knobs, seed=0, work=tmp_path / "killed")
    again.run()
    assert all(np.array_equal(whole.tensors()[name], value) for name, value in again.tensors().items())
    lines = [
        [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("whole", "killed")
    ]
    assert [{**line, "seconds": 0} for line in lines[0]] == [{**line, "seconds": 0} for line in lines[1]]
    assert [line["update"] for line in lines[0]] == list(range(1, whole.counts.updates + 1))
    assert {"policy_loss", "kl", "reward", "rate", "steps"} <= set(lines[0][0])
    assert ("value_loss" in lines[0][0]) == (learner == "ppo")


@pytest.mark.slow
def test_a_snapshot_of_other_ratings_is_not_used(base: Any, samples: list[Sample], tmp_path: Path) -> None:
    train(base, samples, "kto", tmp_path)
    other = train(base, samples[:-1], "kto", tmp_path)
    fresh = train(base, samples[:-1], "kto")
    assert all(np.array_equal(fresh.tensors()[name], value) for name, value in other.tensors().items())


def test_training_stops_at_the_kl_budget(base: Any, samples: list[Sample]) -> None:
    trainer = train(base, samples, "sft", epochs=50, rate=3e-3, anchor=0.0, budget=0.02)
    assert trainer.counts.stopped == "the KL budget is used up"
    assert trainer.counts.updates < trainer.total
    assert trainer.counts.curve[-1][2] < 0.08  # one update beyond it, not many


def test_the_controller_slows_down_beyond_its_path_and_speeds_up_below_it() -> None:
    from headway.kits.reply.learn.objective import KlController

    slow, fast = KlController(0.04), KlController(0.04)
    slow.after(0.03, 0.1)
    fast.after(0.001, 0.5)
    assert slow.factor == 0.5
    assert fast.factor > 1.0
    assert not slow.spent


def test_numbers_that_are_not_finite_end_a_run(base: Any, samples: list[Sample]) -> None:
    poisoned = [replace(samples[0], weight=float("inf")), *samples[1:]]
    with pytest.raises(Unavailable) as raised:
        train(base, poisoned, "kto")
    assert raised.value.code == "training_diverged"


@pytest.mark.slow
def test_a_prompt_with_a_good_and_a_bad_reply_becomes_a_pair(base: Any, samples: list[Sample]) -> None:
    bad = next(sample for sample in samples if not sample.desirable)
    twin = replace(bad, id="twin", reply=tuple(reversed(bad.reply)), desirable=True, reward=1.0)
    trainer = train(base, [bad, twin, *[one for one in samples if one.prompt != bad.prompt]], "kto", epochs=3)
    now = trainer.scores(trainer.rows)
    gap = [float((now[at] - trainer.base[at]).sum()) for at in (0, 1)]
    assert gap[1] > gap[0]


def test_beta_falls_with_the_number_of_ratings() -> None:
    assert [beta_for(count) for count in (10, 30, 300, 301)] == [0.2, 0.1, 0.1, 0.05]


def test_the_base_itself_never_changes(base: Any, samples: list[Sample]) -> None:
    before = {name: value.clone() for name, value in base.network.named_parameters() if "lora" not in name}
    train(base, samples, "kto")
    with base.adapter.merged():
        pass
    after = dict(base.network.named_parameters())
    assert all(torch.equal(value, after[name]) for name, value in before.items())


@pytest.mark.slow
def test_merged_weights_answer_as_the_adapter_does(base: Any, samples: list[Sample]) -> None:
    trainer = train(base, samples, "kto", rate=1e-2)
    beside = trainer.scores(trainer.rows)
    with base.adapter.merged():
        inside = trainer.scores(trainer.rows)
    assert torch.cat(inside).tolist() == pytest.approx(torch.cat(beside).tolist(), abs=1e-4)
    assert torch.cat(beside).tolist() != pytest.approx(torch.cat(trainer.base).tolist(), abs=1e-2)


@pytest.mark.slow
def test_a_device_map_trains_the_same_adapter(tiny: Path, base: Any, samples: list[Sample]) -> None:
    from headway.kits.reply.learn.objective import Sft
    from headway.kits.reply.learn.tuned import TunedModel

    pytest.importorskip("accelerate")
    trained = []
    for device_map in ("", "auto"):
        tuned = TunedModel.load(tiny, rank=4, alpha=8.0, seed=0, device="cpu", device_map=device_map)
        trainer = Trainer(tuned, samples, Sft(), quick(learner="sft", epochs=1), seed=0)
        trainer.run()
        trained.append(trainer.tensors())
    one, other = trained
    assert all(np.array_equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_padding_to_few_lengths_changes_neither_scores_nor_gradients(tmp_path: Path, family: str) -> None:
    """As on CUDA; one row of the second batch fills the window, which padding must not leave."""
    import torch
    from transformers import AutoModelForCausalLM

    from headway.kits.reply.learn.scorer import ReplyScorer, TokenRow
    from tests.kits.reply.tiny import WINDOW, make

    network: Any = AutoModelForCausalLM.from_pretrained(make(tmp_path, family), dtype=torch.float32)
    words, lengths = network.get_input_embeddings(), []
    words.register_forward_hook(lambda _, ids, __: lengths.append(ids[0].shape[1]))
    short = [TokenRow((1, 2, 3), (4, 5)), TokenRow((9,), (8, 7, 6, 5))]
    long = [*short, TokenRow(tuple(range(200)), tuple(range(WINDOW - 200)))]
    for rows, wide in ((short, 48), (long, WINDOW)):
        found = []
        for multiple in (1, 48):
            network.zero_grad()
            scored = ReplyScorer(network, pad=259, multiple=multiple).rows(rows)
            scored.logprobs.sum().backward()  # type: ignore[no-untyped-call]
            found.append((scored.logprobs.detach(), words.weight.grad.clone()))
        assert lengths[-1] == wide
        for plain, padded in zip(*found, strict=True):
            assert torch.allclose(plain, padded, atol=1e-4)
