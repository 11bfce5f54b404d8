"""`headway grow`, as a stranger meets it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from torch import Tensor

from headway.kits.grow import metrics
from headway.kits.grow.collect import draw
from headway.kits.grow.commands.evaluate import load_policy
from headway.kits.grow.commands.grow import measured
from headway.kits.grow.morph import ways as ways_of_growing
from headway.kits.grow.morph.baselines import BASELINES, Chooser
from headway.kits.grow.morph.blueprints import OPS, SPACE
from headway.kits.grow.morph.evaluate import EpisodeTable, lanes, played, policy_chooser, shown_episode, without
from headway.kits.grow.morph.ways import compared, markdown, page, summarised
from headway.kits.grow.morph.world import MorphWorld
from headway.kits.grow.network import RecurrentNetwork
from headway.kits.grow.shapes import RecurrentShape
from headway.nouns.errors import InvalidInput
from tests.cli.terminal import headway

TINY = {"minibatches": 1, "batch": 8, "horizon": 8}


@pytest.fixture
def network() -> RecurrentNetwork:
    world = MorphWorld
    shape = RecurrentShape.of(SPACE, features=world.features, indices=world.indices, feedback_columns=world.feedback)
    return RecurrentNetwork(shape, seed=1)


@pytest.fixture
def stored(network: RecurrentNetwork, tmp_path: Path) -> Path:
    path = tmp_path / "policy.safetensors"
    tensors = {name: np.asarray(values, dtype=np.float32) for name, values in network.tensors().items()}
    save_file(tensors, path, metadata={"knobs": "{}", "extra": json.dumps({"shape": network.shape.to_json()})})
    return path


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Episodes of a few epochs."""
    monkeypatch.setattr(ways_of_growing, "played", lambda chooser, **how: played(chooser, **how, **TINY))


def network_chooser(network: RecurrentNetwork) -> Chooser:
    """The argmax of a network in torch, in every step."""
    memory: dict[int, Tensor] = {}

    @torch.no_grad()
    def choose(world: MorphWorld) -> Tensor:
        observations, _ = world.present()
        features = torch.as_tensor(observations.features, device=world.device)
        indices = torch.as_tensor(observations.indices, device=world.device)
        before = memory.get(0, torch.zeros(world.count, network.shape.memory_width, device=world.device))
        output, memory[0] = network.step(features, indices, before)
        table = torch.tensor(world.space.relevant, device=world.device).long()
        actions: Tensor = draw(world.space, table, network.scores(output), world.masks, None)
        return actions

    return choose


def test_the_policy_of_a_file_decides_like_the_network_that_was_trained(
    network: RecurrentNetwork, stored: Path
) -> None:
    policy = load_policy(stored)
    ours, theirs = (
        played(chooser, seed=4, count=3, **TINY) for chooser in (policy_chooser(policy), network_chooser(network))
    )
    assert ours.ops.tolist() == theirs.ops.tolist()
    assert ours.net == pytest.approx(theirs.net)


def test_a_shape_survives_a_header_that_sorts_its_keys(network: RecurrentNetwork) -> None:
    body = json.loads(json.dumps(network.shape.to_json(), sort_keys=True))
    assert RecurrentShape.from_json(body) == network.shape


def test_a_comparison_pairs_hosts_and_draws_policies_anew() -> None:
    rng = np.random.default_rng(0)
    hosts = rng.normal(0.8, 0.1, 64)

    def table(shift: float) -> EpisodeTable:
        columns = {name: np.zeros(64) for name in (*ways_of_growing._POINTS, "penalty")}
        columns["net"] = hosts + shift + rng.normal(0, 0.001, 64)
        return EpisodeTable(columns, np.zeros(6, dtype=np.int64), np.zeros(13, dtype=np.int64))

    done = summarised({"learned": [table(0.03), table(0.05)], "plateau": [table(0.0)]}, seed=0)
    mean, low, high = done.differences["plateau"]
    assert mean == pytest.approx(0.04, abs=0.002)
    assert 0.025 < low < 0.035, "another training could have been the weaker one"
    assert 0.045 < high < 0.055
    assert done.ratio > 1
    assert "| learned |" in markdown(done)
    assert page(done).count("<table>") == 4


def test_parts_that_a_policy_does_not_have_are_taken_away(stored: Path) -> None:
    policy = load_policy(stored)
    ways = without(policy)
    assert {"whole", "no memory", "no feedback", "random blueprint"} <= ways.keys()
    some = {name: [ways[name]] for name in ("whole", "random slot")}
    done = compared(some, seed=1, hosts=2, baselines=(), **TINY)
    assert [row.way for row in done.ways] == ["whole", "random slot"]
    assert sum(done.ways[0].ops) == pytest.approx(8)
    assert len(done.ways[0].ops) == len(OPS)


def test_an_episode_is_told_slot_by_slot_with_names() -> None:
    first, second = lanes(BASELINES["fixed schedule"](0), seed=4, hosts=2, minibatches=1, batch=8, horizon=16)
    assert first.stages.shape == second.stages.shape == (16, 3)
    told = shown_episode(first)
    assert [lane.slot for lane in told.slots] == list(SPACE.heads[1].choices)
    sown = told.operations.index(next(said for said in told.operations if said.startswith("GERMINATE")))
    _, slot, blueprint, *_ = told.operations[sown].split()
    lane = told.slots[SPACE.heads[1].choices.index(slot)]
    assert (lane.stages[sown], lane.blueprints[sown]) == ("DORMANT", "")
    assert lane.blueprints[sown + 1] == blueprint
    assert "BLENDING" in lane.stages
    blending = lane.stages.index("BLENDING")
    assert lane.alphas[sown + 1] == 0 < lane.alphas[blending + 1]
    assert len(told.accuracy) == 16
    assert all(np.isfinite(lane.contributions))


def test_speed_counts_the_steps_of_all_hosts() -> None:
    speed = measured(hosts=2, steps=2)
    assert speed.per_s > 0
    assert speed.per_cpu_s > 0


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_evaluate_writes_a_report(stored: Path, tmp_path: Path) -> None:
    report = tmp_path / "report"
    done = headway("grow", "evaluate", stored, "--hosts", 2, "--report", report, "--json").json
    assert done["ways"][0]["way"] == "learned"
    assert set(done["differences"]) == {
        "plateau",
        "fixed schedule",
        "best schedule",
        "static-all",
        "random-valid",
        "wait-only",
    }
    text = (report / "report.html").read_text("utf-8")
    assert "data:image/png;base64," in text
    assert "http" not in text.replace("http-equiv", "")
    assert (report / "report.md").exists()


@pytest.mark.slow
def test_a_training_that_ends_with_waiting_alone_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_ALARM", 0.0)  # so that any WAIT counts
    knobs = [part for knob in ("envs=4", "episodes=1", "confirm=1") for part in ("--set", knob)]
    done = headway("-C", tmp_path, "grow", "train", "--steps", 64, *knobs)
    assert "the policy only waited" in done.out + done.err


@pytest.mark.parametrize(
    ("policies", "code"),
    [((), "nothing_named"), (("missing.safetensors",), "bundle_damaged")],
)
def test_a_policy_that_is_not_there_is_named(policies: tuple[str, ...], code: str) -> None:
    done = headway("grow", "evaluate", *policies, "--json")
    assert done.code != 0
    assert code in done.err + done.out


@pytest.mark.parametrize(("device", "hosts_on"), [("cuda", "cuda"), ("mps", None)])
def test_the_hosts_go_to_a_gpu_of_cuda_and_stay_on_the_cpu_beside_mps(
    device: str, hosts_on: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, object] = {}

    def practise(*_: object, **given: object) -> None:
        asked.update(given)
        raise InvalidInput("That is enough.", code="enough")

    monkeypatch.setattr("headway.kits.practice.practise", practise)
    done = headway("-C", tmp_path, "grow", "train", "--device", device, "--json")
    assert "enough" in done.out + done.err
    assert asked["device"] == device
    assert asked["settings"].get("device") == hosts_on  # type: ignore[attr-defined]
