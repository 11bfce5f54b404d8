"""The transformer of the ranker: exported as it was trained, the same bits in any set, resumed as if never stopped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headway.kits.next_action.architectures import eight_bits, spearman
from headway.kits.next_action.layout import ActionInputs, StateInputs
from headway.kits.next_action.learner import RankerLearner
from headway.kits.next_action.policy import Ranker, read, restored
from headway.kits.next_action.shapes import RankerShape
from headway.kits.next_action.world import Projects
from headway.nouns.errors import Damaged, InvalidInput
from headway.nouns.protocols import Learned
from tests.kits.next_action.test_ranker import ENCODER, STATE, candidates
from tests.kits.next_action.tuples import Tuples

torch = pytest.importorskip("torch", reason="torch is in the extra 'learn'")
pytest.importorskip("onnxruntime", reason="onnxruntime is in the extra 'text'")

from headway.kits.next_action import train as training  # noqa: E402 — needs torch
from headway.kits.next_action.graph import Scorer  # noqa: E402
from headway.kits.next_action.network import RankerNetwork  # noqa: E402

TINY = RankerShape(hidden=32, layers=2, heads=4, text=16, numbers=6, traits=5)
KNOBS = {"architecture": "small", "epochs": 2, "device": "cpu", "least": 50}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def weights(shape: RankerShape, seed: int = 3) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(0, 0.3, size).astype(np.float32) for name, size in shape.tensors().items()}


def inputs(shape: RankerShape, count: int) -> tuple[StateInputs, ActionInputs]:
    rng = np.random.default_rng(1)

    def some(*size: int) -> Any:
        return rng.normal(size=size).astype(np.float32)

    state = StateInputs(some(1, shape.text), some(1, shape.numbers), some(1, 8, 2))
    return state, ActionInputs(some(count, shape.text), some(count, shape.traits))


def from_torch(shape: RankerShape, tensors: dict[str, Any], state: StateInputs, actions: ActionInputs) -> Any:
    network = RankerNetwork(shape, seed=0)
    network.load(tensors)
    count = len(actions.text)
    zeros = np.zeros(count)
    rows = training.NetworkRows(state, np.zeros(count, np.int64), actions, zeros, zeros, zeros + 1)
    return training.outputs_of(network, rows, "cpu")


def test_the_full_size_has_about_fourteen_million_parameters() -> None:
    shape = RankerShape.of("full", text=256, numbers=22, traits=14)
    assert (shape.hidden, shape.layers, shape.heads) == (512, 4, 8)
    assert 13_500_000 < shape.parameters < 14_500_000
    network = RankerNetwork(TINY, seed=0)
    assert sum(weight.numel() for weight in network.parameters()) == TINY.parameters


def test_the_exported_graph_computes_what_torch_computes() -> None:
    tensors, (state, actions) = weights(TINY), inputs(TINY, 9)
    exported = Scorer(TINY, tensors)(state, actions)
    assert np.abs(exported - from_torch(TINY, tensors, state, actions)).max() < 1e-5


def test_a_row_has_the_same_bits_in_any_set() -> None:
    scorer, (state, actions) = Scorer(TINY, weights(TINY)), inputs(TINY, 40)
    whole = scorer(state, actions)
    for count in (1, 2, 5, 17, 39):
        few = scorer(state, ActionInputs(actions.text[:count], actions.traits[:count]))
        assert np.array_equal(few, whole[:count])
    scorer.together = False
    assert np.array_equal(scorer(state, actions), whole), "one by one gives the same bits"


def test_eight_bits_keep_the_order() -> None:
    tensors, (state, actions) = weights(TINY), inputs(TINY, 200)
    small = eight_bits(tensors)
    assert small["layer0.qkv.weight"].dtype == np.uint8
    rounded = {name: restored(small, name, size, prefix="") for name, size in TINY.tensors().items()}
    exact, close = (Scorer(TINY, values)(state, actions)[:, 0].astype(np.float64) for values in (tensors, rounded))
    assert spearman(exact, close) > 0.99
    assert spearman(exact, exact[::-1]) < 0.5
    small["layer0.qkv.weight"] = small["layer0.qkv.weight"][:3]
    with pytest.raises(Damaged):
        restored(small, "layer0.qkv.weight", TINY.tensors()["layer0.qkv.weight"], prefix="")


def test_a_shape_that_is_not_one_is_refused() -> None:
    for body in ({}, {"hidden": 30, "layers": 2, "heads": 4}, {"hidden": 32, "layers": 10**6, "heads": 4}, None):
        with pytest.raises(Damaged):
            RankerShape.from_json(body, text=1, numbers=1, traits=1)


def test_an_unknown_device_is_refused() -> None:
    assert training.device_named("auto") in ("cpu", "cuda", "mps")
    with pytest.raises(InvalidInput, match="no device") as error:
        training.device_named("abacus")
    assert error.value.code == "bad_device"


def learn(work: Path | None = None, **knobs: Any) -> Learned:
    rows = Tuples(Projects(leak=False), 400)
    return RankerLearner(ENCODER).learn(rows, {**KNOBS, **knobs}, seed=7, work=work)


def built(learned: Learned) -> Ranker:
    return read(learned.knobs, learned.tensors, json.loads(json.dumps(learned.extra)), ENCODER)


@pytest.mark.slow
def test_a_learned_transformer_is_a_linear_model_with_a_correction(tmp_path: Path) -> None:
    learned = learn()
    assert learned.extra["architecture"] == "small"
    assert (learned.extra["hidden_dim"], learned.extra["num_layers"], learned.extra["num_heads"]) == (128, 2, 4)
    assert learned.extra["embedding_dim"] == 768
    assert {value.dtype for name, value in learned.tensors.items() if name.startswith("net.")} == {np.dtype(np.float32)}
    policy = built(learned)
    assert set(policy.rivals()) == {"linear", "the mean of its type"}
    whole, _ = policy.predict((STATE,), candidates())
    alone = [policy.predict((STATE,), (candidate,))[0][0, 0] for candidate in candidates()]
    assert alone == whole[0].tolist()
    linear = policy.rivals()["linear"].opinions((STATE,), candidates(), (0,)).mean
    assert linear is not None
    assert np.abs(linear - whole).max() < 1.0
    del tmp_path


def test_interrupted_and_resumed_training_gives_equal_tensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    straight = learn(epochs=3)
    epoch, done = training._TrainingRun.next_epoch, list[int]()

    def stops(run: Any) -> None:
        if len(done) == 1:
            raise KeyboardInterrupt
        done.append(run.epoch)
        epoch(run)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(training._TrainingRun, "next_epoch", stops)
        learn(tmp_path, epochs=3)
    assert list(tmp_path.glob("*.safetensors")), "the first epoch was saved"
    resumed = learn(tmp_path, epochs=3)
    assert straight.tensors.keys() == resumed.tensors.keys()
    for name, value in straight.tensors.items():
        assert np.array_equal(value, resumed.tensors[name]), name
    assert straight.metrics == resumed.metrics
    next(tmp_path.glob("*.safetensors")).write_bytes(b"broken")
    assert learn(tmp_path, epochs=3).metrics == straight.metrics, "a damaged snapshot costs time, nothing else"


def test_auto_keeps_the_linear_model_unless_a_transformer_predicts_better() -> None:
    learned = learn(architecture="auto", rate=1e-8, epochs=1)
    assert learned.extra["architecture"] == "linear"
    assert any("Error on the tuning rows" in note for note in learned.extra["notes"])
