"""Stages, gates, alpha, contributions and rewards, apart from any host."""

from __future__ import annotations

from itertools import pairwise, permutations

import pytest
import torch
from hypothesis import given, settings, strategies as st

from headway.kits.grow.factored.space import Factored
from headway.kits.grow.morph.blueprints import BLUEPRINTS, EMPTY, NAMES, OPS, SLOTS, SPACE
from headway.kits.grow.morph.host import TRUNK
from headway.kits.grow.morph.lifecycle import EMBARGO, GATES, TRANSITIONS, SeedStage, Slots, allowed, curved
from headway.kits.grow.morph.operations import advance_alpha, apply, pass_epoch
from headway.kits.grow.morph.reward import (
    CREDIT_CAP,
    credited,
    interactions,
    leave_one_out,
    potential,
    rent,
    shaping,
    shapley,
)

CPU = torch.device("cpu")
PLENTY = torch.full((1,), 10**6)


def act(slots: Slots, name: str, budget: torch.Tensor = PLENTY) -> bool:
    """One action and one epoch; whether it was carried out."""
    applied = apply(slots, torch.tensor([SPACE.parse(name)]), allowed(slots, budget), torch.tensor([7]))
    advance_alpha(slots)
    pass_epoch(slots)
    return bool(applied.success[0])


def stages(slots: Slots) -> list[str]:
    return [SeedStage(int(stage)).name for stage in slots.stage[0]]


GERMINATE = "op=GERMINATE,slot=r0c0,blueprint=NORM,style=LINEAR_ADD,tempo=FAST,alpha_target=SEVENTY"


def holding() -> Slots:
    slots = Slots.dormant(1, CPU)
    act(slots, GERMINATE)
    for _ in range(4):
        act(slots, "op=WAIT")
    act(slots, "op=ADVANCE,slot=r0c0")
    act(slots, "op=WAIT")
    act(slots, "op=WAIT")
    return slots


def test_the_life_of_a_seed_up_to_fossil() -> None:
    slots = Slots.dormant(1, CPU)
    seen = []
    assert act(slots, GERMINATE)
    seen.append(stages(slots)[0])
    for _ in range(3):
        assert not act(slots, "op=ADVANCE,slot=r0c0"), "the gate asks for three epochs of training"
        seen.append(stages(slots)[0])
    act(slots, "op=WAIT")
    alphas = []
    assert act(slots, "op=ADVANCE,slot=r0c0")
    for _ in range(3):
        seen.append(stages(slots)[0])
        alphas.append(round(float(slots.alpha[0, 0]), 4))
        act(slots, "op=WAIT")
    assert seen == ["GERMINATED", "TRAINING", "TRAINING", "TRAINING", "BLENDING", "BLENDING", "HOLDING"]
    assert alphas == [0.2333, 0.4667, 0.7]
    assert not act(slots, "op=FOSSILIZE,slot=r0c0"), "it has not contributed anything"
    slots.contribution[0, 0] = 0.01
    assert act(slots, "op=FOSSILIZE,slot=r0c0")
    assert stages(slots)[0] == "FOSSILIZED"
    assert not allowed(slots, PLENTY)["slot"][0, 1:, 0].any(), "nothing moves a fossil"


def test_a_pruned_slot_waits_for_its_embargo() -> None:
    slots = holding()
    assert act(slots, "op=PRUNE,slot=r0c0,alpha_speed=FAST,alpha_curve=LINEAR")
    seen = []
    for _ in range(3 + 1 + EMBARGO + 3):
        seen.append(stages(slots)[0])
        assert not allowed(slots, PLENTY)["slot"][0, OPS.index("PRUNE"), 0], "a seed that fades is not pruned again"
        act(slots, "op=WAIT")
    assert seen == ["BLENDING"] * 2 + ["PRUNED"] * 2 + ["EMBARGOED"] * EMBARGO + ["RESETTING"] * 2 + ["DORMANT"]
    assert int(slots.blueprint[0, 0]) == EMPTY
    assert float(slots.alpha[0, 0]) == 0


def test_instant_prune_and_a_new_target() -> None:
    slots = holding()
    name = "op=SET_ALPHA_TARGET,slot=r0c0,style=GATED_GATE,alpha_target=FULL,alpha_speed=INSTANT,alpha_curve=COSINE"
    assert act(slots, name)
    assert float(slots.alpha[0, 0]) == 1.0
    assert stages(slots)[0] == "HOLDING"
    assert int(slots.style[0, 0]) == 3
    assert act(slots, "op=PRUNE,slot=r0c0,alpha_speed=INSTANT,alpha_curve=LINEAR")
    assert stages(slots)[0] == "PRUNED"


def test_masks_allow_exactly_what_the_gates_name() -> None:
    for stage in SeedStage:
        slots = Slots.dormant(1, CPU)
        slots.stage[:] = int(stage)
        slots.age[:], slots.contribution[:] = 9, 0.5
        by_op = allowed(slots, PLENTY)["slot"][0, :, 0]
        for index, op in enumerate(OPS[1:], start=1):
            assert bool(by_op[index]) == (stage in GATES[op].stages), (stage, op)
            assert ((stage, op) in TRANSITIONS) == (stage in GATES[op].stages), (stage, op)


def test_the_budget_masks_blueprints() -> None:
    slots = Slots.dormant(1, CPU)
    masks = allowed(slots, torch.tensor([300]))
    fits = {name for name, ok in zip(NAMES, masks["blueprint"][0].tolist(), strict=True) if ok}
    assert fits == {name for name, blueprint in BLUEPRINTS.items() if blueprint.parameters <= 300}
    masks = allowed(slots, torch.tensor([10]))
    assert not masks["op"][0, OPS.index("GERMINATE")]
    assert masks["op"][0, 0]
    assert not masks["blueprint"][0, 0], "NOOP is never allowed"


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=40))
def test_what_a_mask_allows_is_carried_out_and_every_move_is_in_the_table(numbers: list[int]) -> None:
    slots = Slots.dormant(4, CPU)
    moves = {(stage, target) for (stage, _), target in TRANSITIONS.items()}
    # A fading seed blends back, and what is pruned instantly passes through no other stage.
    moves |= {(SeedStage.HOLDING, SeedStage.BLENDING), (SeedStage.BLENDING, SeedStage.BLENDING)}
    for number in numbers:
        generator = torch.Generator().manual_seed(number)
        masks = allowed(slots, torch.full((4,), 10**6))
        op = torch.where(masks["op"], torch.rand(4, len(OPS), generator=generator), -1.0).argmax(dim=1)
        by_op = masks["slot"][torch.arange(4), op]
        slot = torch.where(by_op, torch.rand(4, SLOTS, generator=generator), -1.0).argmax(dim=1)
        rest = [torch.randint(1, size, (4,), generator=generator) for size in SPACE.sizes[2:]]
        before = slots.stage.clone()
        applied = apply(slots, torch.stack([op, slot, *rest], dim=1), masks, torch.ones(4).long())
        assert applied.success.all()
        middle = slots.stage.clone()
        advance_alpha(slots)
        pass_epoch(slots)
        slots.contribution = torch.rand(4, SLOTS, generator=generator) - 0.3
        for old, new in ((before, middle), (middle, slots.stage)):
            for pair in zip(old.flatten().tolist(), new.flatten().tolist(), strict=True):
                assert pair[0] == pair[1] or pair in moves, pair
        assert ((slots.alpha >= 0) & (slots.alpha <= 1)).all()
        assert (slots.alpha[slots.is_in(SeedStage.DORMANT, SeedStage.TRAINING, SeedStage.PRUNED)] == 0).all()


def test_curves_go_from_0_to_1_and_rise() -> None:
    progress = torch.linspace(0, 1, 21)[None].expand(5, -1)
    moved = curved(progress, torch.arange(5)[:, None].expand(-1, 21))
    assert torch.allclose(moved[:, 0], torch.zeros(5), atol=1e-6)
    assert torch.allclose(moved[:, -1], torch.ones(5), atol=1e-6)
    assert (moved.diff(dim=1) > 0).all()
    assert float(moved[4, 5]) < float(moved[3, 5]) < float(moved[2, 5]) < float(moved[0, 5])


def test_the_space_is_the_causal_table() -> None:
    assert isinstance(SPACE, Factored)
    assert SPACE.sizes == (6, 3, 13, 4, 3, 3, 4, 5)
    assert SPACE.needs["PRUNE"] == ("slot", "alpha_speed", "alpha_curve")
    assert SPACE.conditional == ("slot",)


# contributions


def test_contributions_against_their_definitions() -> None:
    accuracies = torch.rand(5, 8, generator=torch.Generator().manual_seed(0))
    orders = list(permutations(range(3)))
    wanted = torch.zeros(5, 3)
    for order in orders:
        kept = 0
        for slot in order:
            wanted[:, slot] += (accuracies[:, kept | 1 << slot] - accuracies[:, kept]) / len(orders)
            kept |= 1 << slot
    assert torch.allclose(shapley(accuracies), wanted, atol=1e-6)
    assert torch.allclose(shapley(accuracies).sum(dim=1), accuracies[:, 7] - accuracies[:, 0], atol=1e-6)
    assert torch.allclose(leave_one_out(accuracies)[:, 1], accuracies[:, 7] - accuracies[:, 5])
    pair = accuracies[:, 7] - accuracies[:, 6] - accuracies[:, 3] + accuracies[:, 2]
    assert torch.allclose(interactions(accuracies)[:, 0, 2], pair)
    assert torch.equal(interactions(accuracies), interactions(accuracies).transpose(1, 2))


# rewards


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from(list(SeedStage)), min_size=SLOTS, max_size=SLOTS), min_size=1, max_size=60),
    st.floats(0.5, 1.0),
)
def test_shaping_telescopes(path: list[list[SeedStage]], discount: float) -> None:
    values = []
    for stages_now in [[SeedStage.DORMANT] * SLOTS, *path]:
        slots = Slots.dormant(1, CPU)
        slots.stage[0] = torch.tensor([int(stage) for stage in stages_now])
        values.append(potential(slots).double())
    total = 0.0
    for step, (before, after) in enumerate(pairwise(values)):
        ended = torch.tensor([step == len(values) - 2])
        total += discount**step * float(shaping(before, after, ended, discount)[0])
    assert total == pytest.approx(-float(values[0][0]), abs=1e-9)
    assert total == pytest.approx(0.0, abs=1e-9)


def test_rent_grows_with_parameters_and_alpha_and_fossils_pay_half() -> None:
    slots = Slots.dormant(1, CPU)
    assert float(rent(slots, 50)) == 0
    slots.blueprint[0, 0] = NAMES.index("NORM")
    slots.stage[0, 0] = int(SeedStage.HOLDING)
    idle = float(rent(slots, 50, price=0.1))
    slots.alpha[0, 0] = 1.0
    whole = float(rent(slots, 50, price=0.1))
    size = torch.log1p(torch.tensor(BLUEPRINTS["NORM"].parameters / TRUNK))
    assert whole == pytest.approx(0.1 / 50 * float(size))
    assert idle == pytest.approx(whole / 4)
    slots.stage[0, 0] = int(SeedStage.FOSSILIZED)
    assert float(rent(slots, 50, price=0.1)) == pytest.approx(whole / 2)
    slots.blueprint[0, 0] = NAMES.index("MLP")
    assert float(rent(slots, 50, price=0.1)) > whole / 2


def test_hindsight_credit_goes_to_the_seeds_that_helped() -> None:
    helped = torch.zeros(1, SLOTS, SLOTS)
    helped[0, 0, 1], helped[0, 2, 1], helped[0, 1, 0] = 0.05, 9.0, 0.3
    fossilised = torch.tensor([[False, True, False]])
    assert torch.allclose(credited(helped, fossilised), torch.tensor([[0.005, 0.0, CREDIT_CAP]]))
    assert not credited(helped, torch.zeros(1, SLOTS, dtype=torch.bool)).any()
