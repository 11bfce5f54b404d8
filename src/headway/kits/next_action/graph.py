"""The ranker's transformer without torch: an ONNX graph built from a bundle's tensors, run by onnxruntime.

    scorer = Scorer(shape, tensors)
    scorer(state, actions)          # float32 [action, 2]: correction and spread

The tokens of the state are computed once for all candidates. A candidate's row must not depend on the others: when the
graph is loaded, a few rows are computed alone and together, and where a machine's kernels differ between the two,
candidates are scored one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headway.kits.next_action.layout import ActionInputs, Singles, StateInputs
from headway.kits.next_action.shapes import STEPS, RankerShape
from headway.nouns import errors

_KNOWN = STEPS + 2  # tokens of a state
_PROBES = (1, 2, 3, 7, 16)


class Scorer:
    """Scores candidates of one state. Thread-safe: onnxruntime's sessions are."""

    def __init__(self, shape: RankerShape, tensors: Mapping[str, Any]) -> None:
        try:
            import onnx  # noqa: F401
            import onnxruntime
        except ImportError as error:
            raise errors.MissingExtra("The transformer of a ranker", str(error.name), "text") from None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(
            build_graph(shape, tensors), options, providers=["CPUExecutionProvider"]
        )
        self._shape = shape
        self.together = self._rows_are_independent()

    def __call__(self, state: StateInputs, actions: ActionInputs) -> Singles:
        """[action, 2] in the one state of `state`."""
        if self.together:
            return self._run(state, actions.text, actions.traits)
        rows = [
            self._run(state, actions.text[place : place + 1], actions.traits[place : place + 1])
            for place in range(len(actions.text))
        ]
        return np.concatenate(rows)

    def _run(self, state: StateInputs, text: Singles, traits: Singles) -> Singles:
        feed = {
            "state_text": state.text, "state_numbers": state.numbers, "steps": state.steps,
            "action_text": text, "traits": traits,
        }  # fmt: skip
        scores: Singles = self._session.run(None, feed)[0]
        return scores

    def _rows_are_independent(self) -> bool:
        rng, shape, most = np.random.default_rng(0), self._shape, _PROBES[-1]

        def some(*size: int) -> Singles:
            return rng.normal(size=size).astype(np.float32)

        state = StateInputs(some(1, shape.text), some(1, shape.numbers), some(1, STEPS, 2))
        text, traits = some(most, shape.text), some(most, shape.traits)
        whole = self._run(state, text, traits)
        return all(np.array_equal(self._run(state, text[:few], traits[:few]), whole[:few]) for few in _PROBES)


class _RankerGraph:
    """Collects nodes and constants."""

    def __init__(self, tensors: Mapping[str, Any]) -> None:
        from onnx import helper, numpy_helper

        self._helper, self._numpy = helper, numpy_helper
        self.tensors, self.nodes = tensors, list[Any]()
        self.constants: dict[str, Any] = {}

    def weight(self, name: str) -> str:
        return self.constant(name, np.asarray(self.tensors[name], dtype=np.float32))

    def constant(self, name: str, value: Any) -> str:
        if name not in self.constants:
            self.constants[name] = self._numpy.from_array(np.ascontiguousarray(value), name)
        return name

    def shape(self, *sizes: int) -> str:
        return self.constant("shape_" + "_".join(map(str, sizes)), np.array(sizes, np.int64))

    def add(self, kind: str, inputs: Sequence[str], **settings: Any) -> str:
        name = f"n{len(self.nodes)}"
        self.nodes.append(self._helper.make_node(kind, list(inputs), [name], **settings))
        return name

    def linear(self, x: str, name: str) -> str:
        return self.add("Add", [self.add("MatMul", [x, self.weight(f"{name}.weight")]), self.weight(f"{name}.bias")])

    def normal(self, x: str, name: str) -> str:
        inputs = [x, self.weight(f"{name}.gain"), self.weight(f"{name}.shift")]
        return self.add("LayerNormalization", inputs, axis=-1, epsilon=1e-5)

    def gelu(self, x: str) -> str:
        return self.add("Gelu", [x])

    def forward(self, x: str, name: str) -> str:
        return self.linear(self.gelu(self.linear(self.normal(x, f"{name}.second"), f"{name}.up")), f"{name}.down")

    def heads(self, x: str, name: str, shape: RankerShape, tokens: int) -> list[str]:
        """Queries, keys and values [row, head, token, width]."""
        split = self.add("Split", [self.linear(self.normal(x, f"{name}.first"), f"{name}.qkv")], axis=-1, num_outputs=3)
        node = self.nodes[-1]
        names = [split, f"{split}b", f"{split}c"]
        del node.output[:]
        node.output.extend(names)
        sizes = self.shape(-1, tokens, shape.heads, shape.hidden // shape.heads)
        return [self.add("Transpose", [self.add("Reshape", [part, sizes])], perm=[0, 2, 1, 3]) for part in names]


def build_graph(shape: RankerShape, tensors: Mapping[str, Any]) -> bytes:
    """The whole graph, with its weights."""
    from onnx import TensorProto, helper

    graph = _RankerGraph(tensors)
    known, own = _tokens(graph, shape)
    for layer in range(shape.layers):
        known, own = _layer(graph, shape, known, own, layer)
    read = graph.add(
        "ReduceMean", [graph.normal(own, "last"), graph.constant("axis1", np.array([1], np.int64))], keepdims=0
    )
    graph.linear(graph.gelu(graph.linear(read, "read.0")), "read.1")
    graph.nodes[-1].output[0] = "scores"

    def value(name: str, *sizes: Any) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(sizes))

    inputs = [
        value("state_text", 1, shape.text), value("state_numbers", 1, shape.numbers), value("steps", 1, STEPS, 2),
        value("action_text", "n", shape.text), value("traits", "n", shape.traits),
    ]  # fmt: skip
    body = helper.make_graph(graph.nodes, "ranker", inputs, [value("scores", "n", 2)], list(graph.constants.values()))
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    return bytes(model.SerializeToString())


def _tokens(graph: _RankerGraph, shape: RankerShape) -> tuple[str, str]:
    one, two = graph.shape(1, 1, shape.hidden), graph.shape(-1, 1, shape.hidden)
    goal = graph.add("Reshape", [graph.linear(graph.linear("state_text", "text"), "state.text"), one])
    numbers = graph.add("Reshape", [graph.linear("state_numbers", "state.numbers"), one])
    steps = graph.add("Add", [graph.linear("steps", "state.steps"), graph.weight("state.places")])
    known = graph.add("Concat", [goal, numbers, steps], axis=1)
    text = graph.add("Reshape", [graph.linear(graph.linear("action_text", "text"), "action.text"), two])
    traits = graph.add("Reshape", [graph.linear("traits", "action.traits"), two])
    return known, graph.add("Concat", [text, traits], axis=1)


def _layer(graph: _RankerGraph, shape: RankerShape, known: str, own: str, layer: int) -> tuple[str, str]:
    name, width = f"layer{layer}", shape.hidden // shape.heads
    state_q, state_k, state_v = graph.heads(known, name, shape, _KNOWN)
    own_q, own_k, own_v = graph.heads(own, name, shape, 2)
    root = graph.constant("root", np.array(1.0 / np.sqrt(width), np.float32))

    def scores(queries: str, keys: str) -> str:
        turned = graph.add("Transpose", [keys], perm=[0, 1, 3, 2])
        return graph.add("Mul", [graph.add("MatMul", [queries, turned]), root])

    def joined(mixed: str, tokens: int) -> str:
        flat = graph.add(
            "Reshape", [graph.add("Transpose", [mixed], perm=[0, 2, 1, 3]), graph.shape(-1, tokens, shape.hidden)]
        )
        return graph.linear(flat, f"{name}.out")

    both = graph.add("Concat", [scores(own_q, state_k), scores(own_q, own_k)], axis=-1)
    shares = graph.add("Softmax", [both], axis=-1)
    of_state, of_own = _cut_last(graph, shares)
    mixed = graph.add("Add", [graph.add("MatMul", [of_state, state_v]), graph.add("MatMul", [of_own, own_v])])
    own = graph.add("Add", [own, joined(mixed, 2)])
    own = graph.add("Add", [own, graph.forward(own, name)])
    if layer + 1 < shape.layers:
        mixed = graph.add("MatMul", [graph.add("Softmax", [scores(state_q, state_k)], axis=-1), state_v])
        known = graph.add("Add", [known, joined(mixed, _KNOWN)])
        known = graph.add("Add", [known, graph.forward(known, name)])
    return known, own


def _cut_last(graph: _RankerGraph, shares: str) -> tuple[str, str]:
    """The shares of the state's tokens, and of the action's own two."""

    def ends(first: int, last: int) -> list[str]:
        names = {"from": first, "to": last}
        cut = [graph.constant(f"{word}_{place}", np.array([place], np.int64)) for word, place in names.items()]
        return [*cut, graph.constant("last_axis", np.array([3], np.int64))]

    return (
        graph.add("Slice", [shares, *ends(0, _KNOWN)]),
        graph.add("Slice", [shares, *ends(_KNOWN, _KNOWN + 2)]),
    )
