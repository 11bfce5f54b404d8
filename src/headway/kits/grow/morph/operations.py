"""What an operation does to the slots, and what happens to them by themselves, for all hosts at once.

Every change of stage is read from `TRANSITIONS`; a change that is not in the table cannot happen.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from headway.kits.grow.morph.blueprints import ALPHA_TARGETS, OPS, SLOTS, SPACE, SPEEDS, TEMPOS
from headway.kits.grow.morph.lifecycle import EMBARGO, SeedStage, Slots, after_table, constants, curved


class Applied:
    """What a step's operations did: which were carried out, and which seeds are new."""

    __slots__ = ("fossilised", "germinated", "ops", "success")

    def __init__(self, ops: Tensor, success: Tensor, germinated: Tensor, fossilised: Tensor) -> None:
        self.ops, self.success = ops, success  # [host]
        self.germinated, self.fossilised = germinated, fossilised  # bool [host, slot]


def _move(slots: Slots, where: Tensor, cause: str) -> None:
    """Change the stage where `where` [host, slot] is true, as the table says."""
    after = torch.where(where, after_table(slots.stage.device, cause)[slots.stage], slots.stage)
    slots.age = torch.where(after != slots.stage, 0, slots.age)
    slots.stage = after


def apply(slots: Slots, actions: Tensor, masks: dict[str, Tensor], next_seed: Tensor) -> Applied:
    """Carry out actions [host, head]; one that its mask forbids does nothing and counts as no success."""
    choice = dict(zip(SPACE.names, actions.unbind(1), strict=True))
    rows = torch.arange(len(actions), device=actions.device)
    possible = masks["op"][rows, choice["op"]] & masks["slot"][rows, choice["op"], choice["slot"]]
    sown = choice["op"] == OPS.index("GERMINATE")
    success = possible & (~sown | masks["blueprint"][rows, choice["blueprint"]])
    here = torch.nn.functional.one_hot(choice["slot"], SLOTS).bool() & success[:, None]

    def where(op: str) -> Tensor:
        return here & (choice["op"] == OPS.index(op))[:, None]

    germinated, fossilised = where("GERMINATE"), where("FOSSILIZE")
    _germinate(slots, germinated, choice, next_seed)
    _set_target(slots, where("SET_ALPHA_TARGET"), choice)
    _prune(slots, where("PRUNE"), choice)
    _move(slots, fossilised, "FOSSILIZE")
    advanced = where("ADVANCE")
    _move(slots, advanced, "ADVANCE")
    slots.put(advanced, alpha_start=0.0, ramp=slots.tempo, ramped=0, curve=0)
    return Applied(torch.where(success, choice["op"], 0), success, germinated, fossilised)


def _picked(values: tuple[Any, ...], choice: Tensor) -> Tensor:
    """[host, 1]: the constant that each host chose."""
    return constants(choice.device, values)[choice][:, None]


def _germinate(slots: Slots, where: Tensor, choice: dict[str, Tensor], next_seed: Tensor) -> None:
    slots.clear(where)
    _move(slots, where, "GERMINATE")
    slots.put(
        where,
        blueprint=choice["blueprint"][:, None],
        style=choice["style"][:, None],
        tempo=_picked(TEMPOS, choice["tempo"]),
        alpha_target=_picked(ALPHA_TARGETS, choice["alpha_target"]),
        seed=next_seed[:, None],
    )


def _set_target(slots: Slots, where: Tensor, choice: dict[str, Tensor]) -> None:
    _move(slots, where, "SET_ALPHA_TARGET")
    slots.put(
        where,
        style=choice["style"][:, None],
        alpha_start=slots.alpha,
        alpha_target=_picked(ALPHA_TARGETS, choice["alpha_target"]),
        ramp=_picked(SPEEDS, choice["alpha_speed"]),
        ramped=0,
        curve=choice["alpha_curve"][:, None],
    )


def _prune(slots: Slots, where: Tensor, choice: dict[str, Tensor]) -> None:
    """At once if the seed is not blended in or the speed is 0; otherwise alpha goes to 0 first."""
    speed = _picked(SPEEDS, choice["alpha_speed"])
    fades = where & (slots.alpha > 0) & (speed > 0)
    gone = where & ~fades
    slots.put(
        fades,
        stage=int(SeedStage.BLENDING),
        fading=True,
        alpha_start=slots.alpha,
        alpha_target=0.0,
        ramp=speed,
        ramped=0,
        curve=choice["alpha_curve"][:, None],
    )
    _move(slots, gone, "PRUNE")
    slots.clear(gone)


def advance_alpha(slots: Slots) -> None:
    """One epoch of every ramp."""
    moving = slots.stage == SeedStage.BLENDING
    slots.ramped = torch.where(moving, slots.ramped + 1, slots.ramped)
    progress = torch.where(slots.ramp > 0, slots.ramped / slots.ramp.clamp(min=1), 1.0).clamp(max=1.0)
    alpha = slots.alpha_start + (slots.alpha_target - slots.alpha_start) * curved(progress, slots.curve)
    slots.alpha = torch.where(moving, alpha, slots.alpha)


def pass_epoch(slots: Slots) -> None:
    """What happens by itself at the end of an epoch. A stage is seen at least once before it passes."""
    slots.age = slots.age + 1
    arrived = (slots.stage == SeedStage.BLENDING) & (slots.ramped >= slots.ramp)
    faded = arrived & slots.fading
    by_age = slots.is_in(SeedStage.GERMINATED, SeedStage.PRUNED, SeedStage.RESETTING) & (slots.age >= 2)
    served = (slots.stage == SeedStage.EMBARGOED) & (slots.age >= EMBARGO)
    _move(slots, arrived & ~slots.fading, "arrived")
    _move(slots, faded, "faded")
    slots.clear(faded)
    _move(slots, by_age, "epoch")
    _move(slots, served, "served")
