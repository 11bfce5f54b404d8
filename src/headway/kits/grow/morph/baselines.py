"""Policies to beat, without learning. A chooser gives actions [host, head] for the present state of a world.

    BASELINES["plateau"](seed=0)(world)

- wait-only         never grows anything
- random-valid      any operation that the masks allow, each with the same chance
- static-all        grows the largest convolution in every slot at once and keeps all of them
- fixed schedule    one seed at the fifth epoch, fossilised as soon as the gate allows
- best schedule     one seed too: the best of about 8,000 schedules of one or two seeds that a search tried
- dense schedules   the best schedule with any dense blueprint at any epoch up to 6, drawn in every episode
- plateau           grows the next seed when validation accuracy has stalled; prunes what does not help, keeps the rest
- greedy            tries every operation for one step and takes the one with the highest reward

The blueprint and the constants of fixed schedule and plateau are the best of those tried on the hosts of seed 1000,
before any policy was trained. The best schedule was searched for on the hosts of seeds 1000 to 1060, by validation
accuracy, after the first trainings: it shows what can be had without looking at a host. That the other dense blueprints
do as well in it was seen on the hosts of seed 1020.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from headway.kits.grow.morph.blueprints import BLUEPRINTS, NAMES, OPS, SLOTS, SPACE, STYLES
from headway.kits.grow.morph.lifecycle import SeedStage
from headway.kits.grow.morph.world import MorphWorld
from headway.nouns import errors

Chooser = Callable[[MorphWorld], Tensor]
_HALF, _FULL = 0, 2  # alpha targets
# Tuned on the hosts of seed 1000.
SCHEDULE_BLUEPRINT = "LORA_LARGE"
PLATEAU_BLUEPRINT = "NORM"
PATIENCE = 2


class _Proposals:
    """Actions under construction: the first operation proposed for a host is the one that it takes."""

    def __init__(self, world: MorphWorld) -> None:
        self.masks = world.masks
        self.actions = torch.zeros(world.count, len(SPACE.heads), dtype=torch.long, device=world.device)
        self.free = torch.ones(world.count, dtype=torch.bool, device=world.device)

    def propose(self, op: str, where: Tensor, **choices: int | Tensor) -> None:
        """Take `op` on the first slot where it is allowed and `where` [host, slot] is true."""
        index = OPS.index(op)
        possible = self.masks["slot"][:, index] & where
        takes = self.free & possible.any(dim=1)
        given = {"op": torch.full_like(self.actions[:, 0], index), "slot": possible.long().argmax(dim=1)}
        for name, choice in choices.items():
            given[name] = torch.zeros_like(self.actions[:, 0]) + choice  # of every host, or [host]
        for name, values in given.items():
            place = SPACE.index(name)
            self.actions[:, place] = torch.where(takes, values, self.actions[:, place])
        self.free = self.free & ~takes


def _always(world: MorphWorld) -> Tensor:
    return torch.ones(world.count, SLOTS, dtype=torch.bool, device=world.device)


def wait_only(seed: int = 0) -> Chooser:
    """Never grows anything."""
    return lambda world: _Proposals(world).actions


def random_valid(seed: int = 0) -> Chooser:
    """Any choice that the masks allow, each with the same chance."""
    streams: dict[torch.device, torch.Generator] = {}

    def pick(mask: Tensor) -> Tensor:
        stream = streams.setdefault(mask.device, torch.Generator(device=mask.device).manual_seed(seed))
        drawn = torch.rand(mask.shape, generator=stream, device=mask.device)
        return torch.where(mask, drawn, -1.0).argmax(dim=1)

    def choose(world: MorphWorld) -> Tensor:
        masks, rows = world.masks, torch.arange(world.count, device=world.device)
        actions = torch.zeros(world.count, len(SPACE.heads), dtype=torch.long, device=world.device)
        actions[:, 0] = pick(masks["op"])
        actions[:, 1] = pick(masks["slot"][rows, actions[:, 0]])
        actions[:, 2] = pick(masks["blueprint"])
        for place, size in enumerate(SPACE.sizes[3:], start=3):
            actions[:, place] = pick(torch.ones(world.count, size, dtype=torch.bool, device=world.device))
        return actions

    return choose


def static_all(seed: int = 0, blueprint: str = "CONV_HEAVY") -> Chooser:
    """The largest convolution in every slot at once."""

    def choose(world: MorphWorld) -> Tensor:
        plan, anywhere = _Proposals(world), _always(world)
        plan.propose("GERMINATE", anywhere, blueprint=NAMES.index(blueprint), alpha_target=_FULL)
        plan.propose("ADVANCE", anywhere)
        return plan.actions

    return choose


def fixed_schedule(
    seed: int = 0,
    blueprint: str = SCHEDULE_BLUEPRINT,
    start: int = 5,
    tempo: int = 0,
    target: int = _FULL,
    slot: int = 0,
    style: str = "LINEAR_ADD",
) -> Chooser:
    """One seed in one slot at a fixed epoch, fossilised as soon as the gate allows."""
    choices = {"blueprint": NAMES.index(blueprint), "style": STYLES.index(style), "tempo": tempo}
    return lambda world: _one_seed(world, slot, start, alpha_target=target, **choices)


def _one_seed(world: MorphWorld, slot: int, start: int | Tensor, **choices: int | Tensor) -> Tensor:
    plan, anywhere = _Proposals(world), _always(world)
    plan.propose("FOSSILIZE", anywhere)
    plan.propose("ADVANCE", anywhere)
    now = torch.zeros_like(anywhere)
    now[:, slot] = world.history.epoch >= start
    plan.propose("GERMINATE", now, **choices)
    return plan.actions


def best_schedule(seed: int = 0) -> Chooser:
    """The best schedule that a search found: a small seed early, which multiplies, in the last slot, at half alpha."""
    return fixed_schedule(seed, blueprint="LORA", start=4, target=_HALF, slot=2, style="LINEAR_MULTIPLY")


def dense_schedules(seed: int = 0, latest: int = 6) -> Chooser:
    """The best schedule, but blueprint and epoch are drawn for every episode; one teaches what they have in common."""
    dense = torch.tensor([NAMES.index(name) for name, one in BLUEPRINTS.items() if one.kernel == "dense"])
    rng, plans = torch.Generator().manual_seed(seed), dict[str, Tensor]()

    def choose(world: MorphWorld) -> Tensor:
        drawn = {
            "start": torch.randint(latest + 1, (world.count,), generator=rng),
            "blueprint": dense[torch.randint(len(dense), (world.count,), generator=rng)],
        }
        for name, values in drawn.items():
            new = values.to(world.device)
            plans[name] = torch.where(world.history.epoch == 0, new, plans.get(name, new))
        style = STYLES.index("LINEAR_MULTIPLY")
        return _one_seed(world, 2, plans["start"], blueprint=plans["blueprint"], style=style, alpha_target=_HALF)

    return choose


def plateau(
    seed: int = 0, blueprint: str = PLATEAU_BLUEPRINT, patience: int = PATIENCE, least: float = 0.01
) -> Chooser:
    """The next seed when accuracy has not improved for `patience` epochs and no seed is on its way."""

    def choose(world: MorphWorld) -> Tensor:
        plan, slots = _Proposals(world), world.slots
        helps = slots.contribution >= least
        plan.propose("FOSSILIZE", helps)
        plan.propose("ADVANCE", _always(world))
        plan.propose("PRUNE", (slots.stage == SeedStage.HOLDING) & ~helps)
        busy = slots.is_in(SeedStage.GERMINATED, SeedStage.TRAINING, SeedStage.BLENDING, SeedStage.HOLDING).any(dim=1)
        early = world.history.epoch < 0.7 * world.horizon  # a later seed would not be blended in
        stalled = (world.history.plateau >= patience) & ~busy & early
        plan.propose(
            "GERMINATE", stalled[:, None] & _always(world), blueprint=NAMES.index(blueprint), alpha_target=_FULL
        )
        return plan.actions

    return choose


def greedy(seed: int = 0, blueprint: str = PLATEAU_BLUEPRINT) -> Chooser:
    """Every operation in every slot tried for one step from the present state; the one with the highest reward."""

    def choose(world: MorphWorld) -> Tensor:
        state = world.state()
        tried, rewards = [], []
        for op in OPS:
            for slot in range(SLOTS if op != "WAIT" else 1):
                plan, here = _Proposals(world), torch.zeros_like(_always(world))
                here[:, slot] = True
                if op != "WAIT":
                    plan.propose(op, here, **({"blueprint": NAMES.index(blueprint)} if op == "GERMINATE" else {}))
                if op == "WAIT" or not bool(plan.free.all()):
                    tried.append(plan.actions)
                    rewards.append(torch.as_tensor(world.step(plan.actions).rewards))
                    world.restore(state)
        best = torch.stack(rewards).argmax(dim=0)
        return torch.stack(tried)[best, torch.arange(world.count, device=world.device)]

    return choose


BASELINES: Mapping[str, Callable[[int], Chooser]] = {
    "wait-only": wait_only,
    "random-valid": random_valid,
    "static-all": static_all,
    "fixed schedule": fixed_schedule,
    "best schedule": best_schedule,
    "dense schedules": dense_schedules,
    "plateau": plateau,
    "greedy": greedy,
}


def baseline(name: str, seed: int = 0) -> Chooser:
    """The baseline of this name."""
    if name not in BASELINES:
        raise errors.InvalidInput(
            f"There is no baseline {name!r} in the world morph.",
            code="unknown_choice",
            hint=f"Use one of {', '.join(BASELINES)}.",
        )
    return BASELINES[name](seed)


class TaughtMorph(MorphWorld):
    """The world, with teachers to imitate."""

    def teacher(self, name: str) -> Callable[[], Tensor]:
        """What the baseline of this name does now, to be imitated."""
        return partial(baseline(name, self._streams["seeds"].initial_seed()), self)


def morph(*, count: int, **settings: Any) -> TaughtMorph:
    """The world `morph`."""
    return TaughtMorph(count, **settings)


morph.family = "recurrent"  # type: ignore[attr-defined]  # what practises in it, if nobody says otherwise
