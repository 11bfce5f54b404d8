"""From the scores of each head to an action of several heads, its probabilities and its joint propensity.

    drawn = draw(space, opinions.scores, masks, seeds)
    drawn.actions                 # int [row, head]; the lead is drawn first, then the heads that it uses
    drawn.probabilities["slot"]   # [row, choice]: what the slot was drawn from, given the lead
    drawn.propensity              # [row]: the product over the heads that count

Masks are bool [row, choice] per head, [row, lead choice, choice] for a conditional head; a head that is not named
allows everything. A masked choice has probability exactly 0. A head that the lead does not use is at index 0 with
probability 1, so that its log-probability and entropy are 0. A row gets the same bits alone and in a batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headway.decide import explore
from headway.kits.grow.factored.space import Factored, Masks
from headway.nouns import Floats, errors

Ints = NDArray[np.int64]
_HEAD_STREAM = 0x8EBC6AF09C88C6E3


@dataclass(frozen=True, slots=True)
class Drawn:
    """Actions and what they were drawn from."""

    actions: Ints  # [row, head]
    probabilities: Mapping[str, Floats]  # head → [row, choice], given the lead
    propensity: Floats  # [row]: joint

    def chosen(self, space: Factored) -> Floats:
        """[row, head]: the probability of each head's choice; 1 where the head does not count."""
        rows = np.arange(len(self.actions))
        columns = [self.probabilities[name][rows, self.actions[:, place]] for place, name in enumerate(space.names)]
        return np.stack(columns, axis=1)


def probabilities(
    space: Factored, scores: Mapping[str, Floats], masks: Masks, lead: Ints | None = None, *, floor: float = 0.0
) -> dict[str, Floats]:
    """What each head is drawn from: head → [row, choice]. Without `lead` (int [row]) only the first head.

    `floor` is the share of a uniform choice over what is allowed, per head.
    """
    first = space.lead.name
    shares = {first: _shares(first, scores[first], masks.get(first), floor)}
    if lead is None:
        return shares
    table = np.array(space.relevant)
    for place, head in enumerate(space.heads[1:], start=1):
        counts = table[lead, place]
        shares[head.name] = irrelevant = np.zeros((len(lead), len(head.choices)))
        irrelevant[:, 0] = 1.0
        if counts.any():
            mask = _given(space, masks, head.name, lead)
            kept = None if mask is None else mask[counts]
            shares[head.name][counts] = _shares(head.name, scores[head.name][counts], kept, floor)
    return shares


def draw(
    space: Factored, scores: Mapping[str, Floats], masks: Masks, seeds: Sequence[int], *, floor: float = 0.0
) -> Drawn:
    """One action per row: the lead first, then the heads that it uses."""
    first = probabilities(space, scores, masks, floor=floor)[space.lead.name]
    actions = np.zeros((len(first), len(space.heads)), dtype=np.int64)
    actions[:, 0] = _drawn(first, seeds, 0)
    shares = probabilities(space, scores, masks, actions[:, 0], floor=floor)
    for place, name in enumerate(space.names[1:], start=1):
        actions[:, place] = _drawn(shares[name], seeds, place)
    return Drawn(actions, shares, joint(space, shares, actions))


def best(space: Factored, scores: Mapping[str, Floats], masks: Masks) -> Ints:
    """The likeliest lead, and the likeliest choice of each head that it uses: int [row, head], without a draw."""
    lead = probabilities(space, scores, masks)[space.lead.name].argmax(axis=1)
    shares = probabilities(space, scores, masks, lead)
    return np.stack([lead, *(shares[name].argmax(axis=1) for name in space.names[1:])], axis=1)


def joint(space: Factored, shares: Mapping[str, Floats], actions: Ints) -> Floats:
    """[row]: the probability of the whole action, the product over its heads in their order."""
    rows = np.arange(len(actions))
    together = np.ones(len(actions))
    for place, name in enumerate(space.names):
        together = together * shares[name][rows, actions[:, place]]
    return together


def conditional(space: Factored, masks: Masks) -> Factored:
    """The space with the heads that these masks are conditional for: those with a third dimension."""
    return replace(
        space, conditional=tuple(name for name in space.names[1:] if name in masks and masks[name].ndim == 3)
    )


def check_masks(space: Factored, masks: Masks, rows: int) -> None:
    """Known heads, the right shapes, and at least one choice for every head that an allowed lead uses.

    Which lead is drawn does not matter: a mask that could leave nothing to choose is refused every time.
    """
    leads = len(space.lead.choices)
    for name, mask in masks.items():
        size = len(space.heads[space.index(name)].choices)
        shape = (rows, leads, size) if name in space.conditional else (rows, size)
        if mask.shape != shape or mask.dtype != np.bool_:
            raise errors.InvalidInput(
                f"masks.{name} is {mask.dtype} {list(mask.shape)}, expected bool {list(shape)}.", code="bad_mask"
            )
    allowed = masks.get(space.lead.name, np.ones((rows, leads), dtype=bool))
    if not allowed.any(axis=1).all():
        raise _nothing(space.lead.name)
    table = np.array(space.relevant)
    for place, name in enumerate(space.names[1:], start=1):
        if name not in masks:
            continue
        some: NDArray[np.bool_] = np.any(masks[name], axis=-1)  # [row] or [row, lead]
        empty = allowed & table[:, place] & ~(some if name in space.conditional else some[:, None])
        if empty.any():
            raise _nothing(name, space.lead.choices[int(np.argwhere(empty)[0, 1])])


def _shares(name: str, scores: Floats, mask: NDArray[np.bool_] | None, floor: float) -> Floats:
    if mask is not None and not mask.any(axis=1).all():
        raise _nothing(name)
    return explore.softmax(scores, 1.0, mask, floor)


def _given(space: Factored, masks: Masks, name: str, lead: Ints) -> NDArray[np.bool_] | None:
    """A head's mask [row, choice] under the leads."""
    mask = masks.get(name)
    if mask is None or name not in space.conditional:
        return mask
    kept: NDArray[np.bool_] = mask[np.arange(len(lead)), lead]
    return kept


def _drawn(shares: Floats, seeds: Sequence[int], place: int) -> Ints:
    """The lead's number is that of any decision with this seed; every other head has its own."""
    streams = seeds if place == 0 else [explore.splitmix64(seed ^ (_HEAD_STREAM + place)) for seed in seeds]
    return np.array(
        [explore.drawn(row, seed) for row, seed in zip(shares.tolist(), streams, strict=True)],
        dtype=np.int64,
    )


def _nothing(name: str, lead: str = "") -> errors.InvalidInput:
    under = f" where {lead!r} is drawn" if lead else ""
    return errors.InvalidInput(
        f"masks.{name} allows nothing{under}.",
        code="nothing_allowed",
        hint="Allow at least one choice, or forbid the choice that needs it.",
    )
