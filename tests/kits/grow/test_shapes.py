"""The sizes of the recurrent network, and what is refused."""

from dataclasses import replace

import pytest

from headway.kits.grow.factored.space import Factored, Head
from headway.kits.grow.shapes import RecurrentShape
from headway.nouns.errors import Conflict, Damaged, InvalidSettings
from tests.kits.grow.spaces import MORPH, TOY


def test_the_network_for_growing_has_the_stated_parameters_in_every_component() -> None:
    shape = RecurrentShape.of(MORPH, features=112, indices=(14, 14, 14))
    assert shape.inputs == 124
    assert shape.parameters == 927_458
    assert shape.components() == {
        "embedding": 56, "encoder": 32_512, "lstm": 526_848, "head.op": 33_670, "head.slot": 33_283,
        "head.blueprint": 100_365, "head.style": 33_412, "head.tempo": 33_283, "head.alpha_target": 33_283,
        "head.alpha_speed": 33_412, "head.alpha_curve": 33_541, "value": 33_793,
    }  # fmt: skip
    small = [count for name, count in shape.components().items() if name.startswith("head") and "blue" not in name]
    assert sum(small) == 233_884
    assert 14.8e6 < shape.parameters * 4 * 4 < 14.9e6  # float32: weights, gradients and two moments


def test_five_slots_make_a_wider_network_by_its_declaration_alone() -> None:
    slots = Head("slot", tuple(f"r0c{place}" for place in range(5)))
    space = Factored((MORPH.heads[0], slots, *MORPH.heads[2:]), MORPH.needs, MORPH.conditional)
    shape = RecurrentShape.of(space, features=25 + 29 * 5, indices=(14,) * 5, width=384)
    assert shape.inputs == 190
    assert shape.tensors()["encoder.weight"] == (384, 190)
    assert shape.tensors()["head.slot.1.weight"] == (5, 192)


def test_the_first_version_is_a_preset() -> None:
    shape = RecurrentShape.of(
        MORPH, features=112, indices=(14,) * 3, preset="v1", feedback_columns=tuple(range(18, 25))
    )
    assert (shape.width, shape.critic, shape.inputs) == (128, "state", 117)
    assert shape.head_widths(13) == (64, 13)
    assert shape.value_inputs == 128


def test_columns_of_one_vocabulary_share_an_embedding() -> None:
    shape = RecurrentShape.of(TOY, features=3, indices=(14, 5, 14))
    assert [name for name in shape.tensors() if name.startswith("embedding")] == ["embedding.14", "embedding.5"]


def test_a_shape_survives_json_and_a_damaged_one_is_refused() -> None:
    shape = RecurrentShape.of(TOY, features=3, indices=(4,), layers=2, attention=3)
    assert RecurrentShape.from_json(shape.to_json()) == shape
    for change in ({"width": 0}, {"critic": "none"}, {"space": {}}, {"unknown": 1}, {"width": "256"}):
        with pytest.raises(Damaged):
            RecurrentShape.from_json({**shape.to_json(), **change})


def test_a_network_of_another_shape_is_refused_and_both_are_named() -> None:
    second = RecurrentShape.of(MORPH, features=112, indices=(14,) * 3)
    first = RecurrentShape.of(MORPH, features=112, indices=(14,) * 3, preset="v1", feedback_columns=tuple(range(7)))
    with pytest.raises(
        Conflict, match=r"The policy \(V1, 117 inputs, width 128.*the network \(V2, 124 inputs"
    ) as caught:
        first.check(second, theirs="the network")
    assert "width 128 and 256" in str(caught.value)
    assert "critic state and marginal" in str(caught.value)
    with pytest.raises(Conflict, match="features 112 and 170"):
        second.check(replace(second, features=170))
    second.check(replace(second))


@pytest.mark.parametrize("knobs", [{"width": 0}, {"critic": "q"}, {"layers": 0}, {"preset": "v3"}, {"attention": -1}])
def test_impossible_knobs_are_refused(knobs: dict[str, object]) -> None:
    with pytest.raises(InvalidSettings):
        RecurrentShape.of(TOY, features=3, **knobs)  # type: ignore[arg-type]
