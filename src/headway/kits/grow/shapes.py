"""The sizes of a recurrent network, and the names and sizes of its tensors.

    shape = RecurrentShape.of(space, features=112, indices=(14, 14, 14))     # V2: 927,458 parameters
    shape.tensors()                  # name → size, in a fixed order
    shape.components()               # component → parameters
    shape.check(other)               # an error that names both, if they differ

Observations and embedded indices → Linear, LayerNorm, ReLU → LSTM → LayerNorm → one small network per head, and the
value's. Columns of indices with the same vocabulary share one embedding. A head with more than `deep` choices gets one
more layer. In the critic modes "marginal" and "sampled_op" the value network also sees the lead's choice, one-hot.

`preset`: "v2", or "v1" (128 wide, no deeper head, a critic of the state alone, no feedback).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from math import prod
from types import MappingProxyType
from typing import Any, Literal, get_args

from headway.kits.grow.factored.space import Factored
from headway.nouns import errors

Critic = Literal["marginal", "state", "sampled_op"]
CRITICS: tuple[Critic, ...] = get_args(Critic)
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "v2": {"width": 256, "deep": 8, "critic": "marginal", "feedback": True},
    "v1": {"width": 128, "deep": 0, "critic": "state", "feedback": False},
}
_SMALL, _WIDE = 1, 1 << 14


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurrentShape:
    """One network: its space, its inputs and its widths."""

    space: Factored
    features: int
    indices: tuple[int, ...] = ()
    dropped: tuple[int, ...] = ()  # columns of the features that it does not see
    width: int = 256
    embedding: int = 4
    layers: int = 1
    residual: bool = True  # with several layers: each adds to the one before
    attention: int = 0  # over the outputs of this many past steps; 0: none
    deep: int = 8  # heads with more choices get one more layer; 0: none does
    critic: Critic = "marginal"
    remember: bool = True  # False: every step starts with an empty memory

    @classmethod
    def of(
        cls,
        space: Factored,
        *,
        features: int,
        indices: tuple[int, ...] = (),
        feedback_columns: tuple[int, ...] = (),
        preset: str = "v2",
        **knobs: Any,
    ) -> RecurrentShape:
        """The shape for a world's inputs; `knobs` change the preset."""
        if preset not in PRESETS:
            raise errors.InvalidSettings(f"There is no preset {preset!r}.", code="bad_knob", hint="v1 or v2.")
        wanted = {**PRESETS[preset], **knobs}
        feedback = wanted.pop("feedback")
        shape = cls(
            space=space, features=features, indices=tuple(indices),
            dropped=() if feedback else tuple(feedback_columns), **wanted,
        )  # fmt: skip
        problem = shape.problem()
        if problem:
            raise errors.InvalidSettings(f"A recurrent network cannot have {problem}.", code="bad_knob")
        return shape

    @property
    def inputs(self) -> int:
        """The width of the first layer's input."""
        return self.features - len(self.dropped) + self.embedding * len(self.indices)

    @property
    def memory_width(self) -> int:
        """Hidden and cell state of each layer; with attention also the past outputs, and which of them there are."""
        return 2 * self.layers * self.width + self.attention * (self.width + 1)

    @property
    def value_inputs(self) -> int:
        return self.width + (0 if self.critic == "state" else self.space.sizes[0])

    @property
    def half(self) -> int:
        return max(self.width // 2, 1)

    def head_widths(self, choices: int) -> tuple[int, ...]:
        """The widths of a head's layers, its output last."""
        return (self.width, self.half, choices) if 0 < self.deep < choices else (self.half, choices)

    def tensors(self) -> Mapping[str, tuple[int, ...]]:
        """Every tensor and its size; weights are [out, in]."""
        return _tensors(self)

    def _sizes(self) -> dict[str, tuple[int, ...]]:
        width = self.width
        sizes: dict[str, tuple[int, ...]] = {
            f"embedding.{vocabulary}": (vocabulary, self.embedding) for vocabulary in dict.fromkeys(self.indices)
        }
        sizes |= _linear("encoder", self.inputs, width) | _norm("encoder.norm", width)
        for layer in range(self.layers):
            sizes |= {
                f"lstm.{layer}.input": (4 * width, width), f"lstm.{layer}.hidden": (4 * width, width),
                f"lstm.{layer}.input_bias": (4 * width,), f"lstm.{layer}.hidden_bias": (4 * width,),
            }  # fmt: skip
        sizes |= _norm("lstm.norm", width)
        if self.attention:
            for name in ("query", "key", "content", "result"):
                sizes |= _linear(f"attention.{name}", width, width)
            sizes["attention.distance"] = (self.attention,)
        for head in self.space.heads:
            sizes |= _stack(f"head.{head.name}", (width, *self.head_widths(len(head.choices))))
        return sizes | _stack("value", (self.value_inputs, self.half, 1))

    @property
    def parameters(self) -> int:
        return sum(prod(size) for size in self.tensors().values())

    def components(self) -> dict[str, int]:
        """Parameters per component; their sum is `parameters`."""
        counts: dict[str, int] = {}
        for name, size in self.tensors().items():
            parts = name.split(".")
            component = f"head.{parts[1]}" if parts[0] == "head" else parts[0]
            counts[component] = counts.get(component, 0) + prod(size)
        return counts

    def problem(self) -> str:
        """What cannot be, in words; "" if nothing."""
        for name, low, high in (
            ("width", _SMALL, _WIDE), ("embedding", 1, 1024), ("layers", 1, 8), ("attention", 0, 4096),
            ("deep", 0, _WIDE), ("features", 1, 1 << 20),
        ):  # fmt: skip
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
                return f"{name} {value!r}: a whole number of {low} to {high}"
        if self.critic not in CRITICS:
            return f"critic {self.critic!r}: one of {', '.join(CRITICS)}"
        if any(not 0 <= column < self.features for column in self.dropped) or self.inputs < 1:
            return f"the columns {self.dropped} dropped of {self.features} features"
        if any(not isinstance(size, int) or size < 1 for size in self.indices):
            return f"vocabularies {self.indices}"
        return ""

    def check(self, other: RecurrentShape, *, mine: str = "the policy", theirs: str = "the world") -> None:
        """Refuse a network of another shape, and name what differs on both sides."""
        ours, others = _told(self), _told(other)
        differences = [f"{name} {ours[name]} and {others[name]}" for name in ours if ours[name] != others[name]]
        if differences:
            raise errors.Conflict(
                f"{mine[:1].upper()}{mine[1:]} ({self.label}) does not fit {theirs} ({other.label}): "
                f"{'; '.join(differences)}.",
                code="other_shape",
                hint="Use a policy that was learned with these inputs, slots and widths, or learn a new one.",
            )

    @property
    def label(self) -> str:
        """The preset that it comes closest to, its width and its inputs."""
        version = "V1" if self.critic == "state" and self.dropped else "V2"
        return f"{version}, {self.inputs} inputs, width {self.width}, {self.parameters:,} parameters"

    def to_json(self) -> dict[str, Any]:
        body = {name: value for name, value in asdict(self).items() if name != "space"}
        return {**body, "space": space_to_json(self.space)}

    @classmethod
    def from_json(cls, body: Any) -> RecurrentShape:
        """The shape in a bundle's header; the input is untrusted."""
        try:
            given = dict(body)
            space = space_from_json(given.pop("space"))
            for name in ("indices", "dropped"):
                given[name] = tuple(given[name])
            shape = cls(space=space, **given)
            problem = shape.problem()
        except (KeyError, TypeError, ValueError, errors.InvalidSettings) as error:
            raise errors.Damaged(f"The bundle's shape cannot be read: {error}.", code="bad_header") from error
        if problem:
            raise errors.Damaged(f"The bundle's shape has {problem}.", code="bad_header")
        return shape


@lru_cache(maxsize=64)
def _tensors(shape: RecurrentShape) -> Mapping[str, tuple[int, ...]]:
    return MappingProxyType(shape._sizes())


def space_to_json(space: Factored) -> dict[str, Any]:
    """A space in a bundle's header."""
    return {
        "heads": [[head.name, list(head.choices)] for head in space.heads],  # in order: a header sorts its keys
        "needs": {choice: list(used) for choice, used in space.needs.items()},
        "conditional": list(space.conditional),
    }


def space_from_json(body: Any) -> Factored:
    """The space that a header declares."""
    from headway.kits.grow.factored.space import Head

    heads = tuple(Head(str(name), tuple(map(str, choices))) for name, choices in dict(body["heads"]).items())
    needs = {str(choice): tuple(map(str, used)) for choice, used in dict(body["needs"]).items()}
    return Factored(heads, needs, tuple(map(str, body["conditional"])))


def _told(shape: RecurrentShape) -> dict[str, Any]:
    """What must agree between two networks."""
    heads = {head.name: len(head.choices) for head in shape.space.heads}
    return {
        "features": shape.features, "feedback": not shape.dropped, "indices": shape.indices, "heads": heads,
        "width": shape.width, "layers": shape.layers, "attention": shape.attention, "deep": shape.deep,
        "memory": shape.remember,
        "critic": shape.critic,
    }  # fmt: skip


def _linear(name: str, inputs: int, outputs: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def _norm(name: str, width: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def _stack(name: str, widths: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    sizes: dict[str, tuple[int, ...]] = {}
    for depth in range(len(widths) - 1):
        sizes |= _linear(f"{name}.{depth}", widths[depth], widths[depth + 1])
    return sizes
