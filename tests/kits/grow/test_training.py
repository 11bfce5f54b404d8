"""Training: exact resume, metrics, knobs, and the way through the terminal."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from headway.kits.grow.gymnasium_world import MaskedCartPole  # noqa: E402
from headway.kits.grow.knobs import RecurrentKnobs, knobs_from, preset_knobs  # noqa: E402
from headway.kits.grow.learner import RunFolder, learned, practise  # noqa: E402
from headway.kits.grow.scaffold import Scaffold, best_memoryless  # noqa: E402
from headway.kits.grow.training import Training  # noqa: E402
from headway.kits.practice import practise as practise_in_world  # noqa: E402
from headway.nouns.errors import Conflict, Damaged, InvalidInput, InvalidSettings, UnknownName  # noqa: E402
from headway.project import Project  # noqa: E402
from tests.kits.grow.toy_world import ToyWorld  # noqa: E402

KNOBS = RecurrentKnobs(
    width=16, envs=4, horizon=12, minibatches=2, epochs=2, steps=10_000, episodes=4, confirm=4, target_kl=0.0
)


def same(left: Training, right: Training) -> bool:
    mine, theirs = left.state()[0], right.state()[0]
    return mine.keys() == theirs.keys() and all(np.array_equal(mine[name], theirs[name]) for name in mine)


@pytest.mark.parametrize("make", [ToyWorld, MaskedCartPole])
def test_an_interrupted_run_continues_bit_for_bit(make: Any, tmp_path: Path) -> None:
    straight, first = (Training(make, replace(KNOBS, chunk=5), seed=2) for _ in range(2))
    for _ in range(4):
        straight.once()
    for _ in range(2):
        first.once()
    RunFolder(tmp_path, "toy").save(first)
    second = Training(make, replace(KNOBS, chunk=5), seed=2)
    assert not same(first, second)
    assert RunFolder(tmp_path, "toy").load(second) == first.counts.steps
    assert same(first, second)
    for _ in range(2):
        second.once()
    assert same(straight, second)


def test_a_snapshot_of_another_network_or_world_is_refused_and_both_are_named(tmp_path: Path) -> None:
    training = Training(ToyWorld, KNOBS, seed=2)
    with pytest.raises(UnknownName):
        RunFolder(tmp_path / "none", "toy").load(training)
    training.once()
    folder = RunFolder(tmp_path, "toy")
    folder.save(training)
    with pytest.raises(Conflict, match=r"width 16.*width 24.*width 16 and 24"):
        folder.load(Training(ToyWorld, replace(KNOBS, width=24), seed=2))
    with pytest.raises(Conflict, match=r"V2.*V1"):
        folder.load(Training(ToyWorld, replace(KNOBS, preset="v1"), seed=2))
    with pytest.raises(Conflict, match=r"world 'toy' and 'other'"):
        RunFolder(tmp_path, "other").load(training)
    with pytest.raises(Conflict, match=r"copies 4 and 6"):
        folder.load(Training(ToyWorld, replace(KNOBS, envs=6), seed=2))
    with pytest.raises(Conflict, match=r"settings \{\} and \{'mode': 'sparse'\}"):
        RunFolder(tmp_path, "toy", {"mode": "sparse"}).load(training)
    next(tmp_path.glob("weights-*")).write_bytes(b"broken")
    with pytest.raises(Damaged):
        folder.load(training)


def test_metrics_say_what_an_update_did(tmp_path: Path) -> None:
    training = Training(ToyWorld, replace(KNOBS, steps=96), seed=2)
    folder = RunFolder(tmp_path, "toy")
    folder.run(training)
    metrics = tmp_path / "metrics.jsonl"
    lines = [json.loads(line) for line in metrics.read_text("utf-8").splitlines()]
    assert [line["update"] for line in lines] == [1, 2]
    last = lines[-1]
    assert set(last["heads"]) == {"op", "place", "size"}
    for head in last["heads"].values():
        assert set(head) == {"entropy", "use", "gradient_norm", "clip_fraction"}
    assert sum(last["lead"].values()) == pytest.approx(1.0)
    assert last["first_ratios"] == [1.0, 1.0]
    assert {"explained_variance", "kl", "value_error", "idle_alarm", "credit", "advantage_by_lag", "world"} <= set(last)
    assert list(last["memory"]) == ["hidden", "cell"]
    assert list(last["memory"]["cell"])[:2] == ["0", "1"]
    assert all(value > 0 for part in last["memory"].values() for value in part.values())
    assert last["evaluation"] == training.counts.curve[-1].mean
    again = Training(ToyWorld, replace(KNOBS, steps=192), seed=2)
    torn = '{"update": 3, "ste'  # of a process that was killed while it wrote
    metrics.write_text(metrics.read_text("utf-8") + json.dumps({"update": 3}) + "\n" + torn, "utf-8")
    folder.load(again)
    folder.run(again)
    updates = [json.loads(line)["update"] for line in metrics.read_text("utf-8").splitlines()]
    assert updates == [1, 2, 3, 4]


def test_an_update_that_is_interrupted_leaves_the_snapshot_of_the_last_one_that_ended(tmp_path: Path) -> None:
    class Interrupted(ToyWorld):
        steps = 0

        def step(self, actions: Any) -> Any:
            type(self).steps += 1
            if type(self).steps == 2 * KNOBS.horizon + 5:
                raise KeyboardInterrupt
            return super().step(actions)

    knobs = replace(KNOBS, steps=192, evaluate_every=1000)
    straight, cut = Training(ToyWorld, knobs, seed=2), Training(Interrupted, knobs, seed=2)
    straight.run()
    with pytest.raises(KeyboardInterrupt):
        RunFolder(tmp_path, "toy").run(cut)
    again = Training(ToyWorld, knobs, seed=2)
    assert 0 < RunFolder(tmp_path, "toy").load(again) < straight.counts.steps
    again.run()
    assert same(straight, again)


def test_a_training_that_starts_anew_forgets_the_snapshot_of_an_earlier_one(tmp_path: Path) -> None:
    how: Any = {"steps": 128, "envs": 4, "horizon": 16, "width": 16, "confirm": 4, "episodes": 4}
    families: Any = [("actor_critic", {"envs": 4, "horizon": 16, "confirm": 4, "episodes": 4}), ("recurrent", how)]
    for family, knobs in families:
        world = "masked_cartpole" if family == "recurrent" else "cartpole"
        with Project(tmp_path) as project:
            practise_in_world(project, world, family=family, seed=1, **{**knobs, "steps": 128})

            def killed(*_: Any) -> None:
                raise SystemExit

            with pytest.raises(SystemExit):  # before its first snapshot
                practise_in_world(project, world, family=family, seed=1, progress=killed, **{**knobs, "steps": 256})
            with pytest.raises(UnknownName, match="no unfinished run"):
                practise_in_world(project, world, family=family, seed=1, resume=True, **{**knobs, "steps": 256})


def test_a_world_that_gives_what_is_not_finite_teaches_nothing() -> None:
    class Broken(ToyWorld):
        def step(self, actions: Any) -> Any:
            result = super().step(actions)
            return replace(result, rewards=np.full(self.count, np.nan))

    training = Training(Broken, KNOBS, seed=2)
    before = training.network.tensors()
    with pytest.raises(InvalidInput, match="reward"):
        training.once()
    assert all(np.array_equal(before[name], tensor) for name, tensor in training.network.tensors().items())


def test_every_option_learns_without_an_error() -> None:
    for options in (
        {"critic": "state", "preset": "v1"}, {"critic": "sampled_op", "value_clip": 0.2}, {"layers": 2, "attention": 3},
        {"returns": "none", "entropy_by": "head", "schedule": "linear", "shared": False}, {"feedback": False},
    ):  # fmt: skip
        training = Training(ToyWorld, replace(KNOBS, **options), seed=1)
        updated = training.once(detailed=True)
        assert all(np.isfinite(value) for value in updated.stats.values())


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore")  # torch warns of its own calls while it compiles
def test_a_compiled_network_learns_the_same(need_tool: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    need_tool("g++", package="g++")
    from torch._inductor import config

    monkeypatch.setattr(config, "compile_threads", 1)  # more are processes that outlive the test
    compiled, plain = (Training(ToyWorld, replace(KNOBS, compile=on), seed=1) for on in (True, False))
    assert compiled.once().first_ratios == (1.0, 1.0)
    plain.once()
    theirs = plain.network.tensors()
    for name, tensor in compiled.network.tensors().items():
        assert np.allclose(tensor, theirs[name], atol=1e-6), name


@pytest.mark.parametrize(
    "given",
    [{"rate": -1.0}, {"rate": "fast"}, {"steps": 0}, {"returns": "some"}, {"entropy_heads": 3}, {"residual": 1}],
)
def test_knobs_out_of_range_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidSettings):
        knobs_from(given)


def test_knobs_come_from_the_command_line() -> None:
    assert knobs_from({"entropy_heads": "op:1,slot:1.5", "rate": 1, "target": 3}).entropy_heads == {
        "op": 1,
        "slot": 1.5,
    }
    with pytest.raises(InvalidSettings, match="width"):
        knobs_from({"widht": 3})


def test_a_published_policy_is_rebuilt_and_plays_like_the_network(tmp_path: Path) -> None:
    with Project(tmp_path) as project:
        done = practise_in_world(
            project, "masked_cartpole", seed=1, steps=512, envs=4, horizon=16, width=16, target=float("nan"), confirm=4,
            episodes=4,
        )  # fmt: skip
        digest = project.registry.find(done.policy)
        header = project.registry.header(digest)
        assert (header.family, header.kind) == ("recurrent", "factored")
        again = practise(project, "masked_cartpole", seed=1, steps=1024, envs=4, horizon=16, width=16,
                         target=float("nan"), confirm=4, episodes=4, resume=True)  # fmt: skip
        assert again.about.resumed_from == 512
        assert again.about.steps == 1024
    lines = (tmp_path / ".headway/work/masked_cartpole-1-recurrent/metrics.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["steps"] for line in lines][-1] == 1024


def test_a_run_that_ended_after_its_last_update_resumes_to_the_same_policy(tmp_path: Path) -> None:
    how: Any = {"seed": 1, "steps": 512, "envs": 4, "horizon": 16, "width": 16, "confirm": 4, "episodes": 4}
    with Project(tmp_path) as project:
        whole = practise(project, "masked_cartpole", target=float("nan"), **how)
        again = practise(project, "masked_cartpole", target=float("nan"), resume=True, **how)
        assert again.about.steps == again.about.resumed_from == 512
        assert again.learned.metrics == whole.learned.metrics
        assert all(np.array_equal(array, whole.learned.tensors[name]) for name, array in again.learned.tensors.items())
        reached = practise(project, "masked_cartpole", target=1.0, **{**how, "steps": 4096})
        assert reached.about.reached
        after = practise(project, "masked_cartpole", target=1.0, resume=True, **{**how, "steps": 4096})
        assert (after.about.reached, after.about.steps) == (True, reached.about.steps), "it does not train on"
        assert after.learned.metrics == reached.learned.metrics


def test_what_is_learned_rebuilds_the_policy() -> None:
    from headway.nouns.kit import catalogue

    training = Training(ToyWorld, KNOBS, seed=2)
    training.once()
    result = learned(training)
    policy: Any = catalogue().build(result.family, result.knobs, result.tensors, result.extra)
    assert policy.shape == training.shape
    assert policy.space == ToyWorld(1).space


def test_an_actor_critic_is_refused_in_a_factored_world(tmp_path: Path) -> None:
    with Project(tmp_path) as project, pytest.raises(InvalidInput, match="actor_critic") as caught:
        practise_in_world(project, "masked_cartpole", family="actor_critic")
    assert "recurrent" in (caught.value.hint or "")
    with Project(tmp_path) as project, pytest.raises(InvalidInput, match="bandit"):
        practise_in_world(project, "cartpole", family="bandit")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_masked_cartpole_is_balanced_from_memory() -> None:
    training = Training(MaskedCartPole, preset_knobs("masked_cartpole"), seed=3)
    training.run()
    assert training.counts.reached
    training.close()


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_scaffold_is_solved_with_a_memory_and_not_without() -> None:
    knobs = preset_knobs("scaffold")
    training = Training(Scaffold, knobs, seed=1)
    training.run()
    assert training.counts.reached, training.counts.curve
    without = Training(Scaffold, replace(knobs, remember=False, steps=training.counts.steps), seed=1)
    without.run()
    # 300 episodes of a return of at most 1/3: more than 0.6 of them has a probability below 1e-20
    assert without.evaluate(300, 11) < 0.6
    assert best_memoryless() < 0.6


def test_a_network_without_a_memory_forgets_everything() -> None:
    training = Training(ToyWorld, replace(KNOBS, remember=False), seed=2)
    assert training.once().first_ratios == (1.0, 1.0)
    assert training.stage.memory.eq(0.0).all()


def test_nothing_is_learned_from_noise_before_the_world_has_paid() -> None:
    class Unpaid(ToyWorld):
        def step(self, actions: Any) -> Any:
            return replace(super().step(actions), rewards=np.zeros(self.count))

    training = Training(Unpaid, replace(KNOBS, entropy=0.0, shared=False), seed=2)
    before = training.network.tensors()
    training.once()
    after = training.network.tensors()
    assert all(np.array_equal(before[name], after[name]) for name in before if name.startswith("head."))
    assert not np.array_equal(before["value.0.weight"], after["value.0.weight"])
