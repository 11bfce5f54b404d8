"""What a decision of a factored task allows: masks of its settings, of a request and of a world, together.

{"model": ["small"]}                          # names that are allowed; [true, false] says the same
{"slot": {"GROW": ["r0c0"], "PRUNE": []}}     # by the choice of the first head; one that is not named allows all
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.kits.grow.factored.draw import check_masks, conditional
from headway.kits.grow.factored.space import Factored, Head, Masks
from headway.nouns import errors


def masks_together(space: Factored, *given: Mapping[str, Any] | None) -> tuple[Factored, Masks]:
    """Masks of one row that allow what all of `given` allow, and the space with the heads they are conditional for.

    An unknown head or choice, a wrong shape, and masks that may leave nothing to choose are InvalidInput.
    """
    masks: dict[str, NDArray[np.bool_]] = {}
    for part in given:
        if part is None:
            continue
        if not isinstance(part, Mapping):
            raise errors.InvalidInput(
                f"masks is a {type(part).__name__}, expected a table of heads and what they allow.",
                code="bad_mask",
                hint='Such as {"model": ["small", "large"]}.',
            )
        for name, value in part.items():
            masks = dict(both(masks, {name: _mask(space, name, value)[None]}))
    return _conditional(space, masks)


def masks_from(space: Factored, stored: Mapping[str, Any]) -> tuple[Factored, Masks]:
    """The masks that `plain_masks` gave."""
    return _conditional(space, {name: np.array([mask], dtype=bool) for name, mask in stored.items()})


def both(some: Masks, others: Masks) -> Masks:
    """Masks that allow what both allow; conditional on the lead where one of them is. Rows are alike, or one is one."""
    together = {**some, **others}
    for name in some.keys() & others.keys():
        one, other = some[name], others[name]
        if one.ndim != other.ndim:
            one, other = (mask if mask.ndim == 3 else mask[:, None, :] for mask in (one, other))
        together[name] = one & other
    return together


def plain_masks(masks: Masks) -> dict[str, Any]:
    """Masks of one row as lists of 0 and 1, for storing."""
    return {name: mask[0].astype(int).tolist() for name, mask in masks.items()}


def _conditional(space: Factored, masks: Masks) -> tuple[Factored, Masks]:
    space = conditional(space, masks)
    check_masks(space, masks, 1)
    return space, masks


def _mask(space: Factored, name: str, value: Any) -> NDArray[np.bool_]:
    """bool [choice], or [lead choice, choice] if the value depends on the first head."""
    if name not in space.names:
        raise errors.UnknownName(
            f"masks.{name}: there is no head {name!r}.",
            code="unknown_head",
            hint=errors.did_you_mean(str(name), space.names),
        )
    head = space.heads[space.index(name)]
    if not isinstance(value, Mapping):
        return _row(head, value, f"masks.{name}")
    if head is space.lead:
        raise errors.InvalidInput(
            f"masks.{name} is a table, expected a list: the first head depends on nothing.", code="bad_mask"
        )
    mask = np.ones((len(space.lead.choices), len(head.choices)), dtype=bool)
    for choice, allowed in value.items():
        place = f"masks.{name}.{choice}"
        mask[_index(space.lead, choice, place)] = _row(head, allowed, place)
    return mask


def _row(head: Head, value: Any, place: str) -> NDArray[np.bool_]:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str):
        if all(isinstance(allowed, bool) for allowed in value) and value:
            if len(value) != len(head.choices):
                raise errors.InvalidInput(
                    f"{place} has {len(value)} values, expected {len(head.choices)}: one per choice.", code="bad_mask"
                )
            return np.array(value, dtype=bool)
        if all(isinstance(allowed, str) for allowed in value):
            mask = np.zeros(len(head.choices), dtype=bool)
            for choice in value:
                mask[_index(head, choice, place)] = True
            return mask
    raise errors.InvalidInput(
        f"{place} is {value!r:.60}, expected a list of choices, or of true and false.",
        code="bad_mask",
        hint=f"Its choices are {', '.join(head.choices[:8])}{', …' if len(head.choices) > 8 else ''}.",
    )


def _index(head: Head, choice: str, place: str) -> int:
    if choice not in head.choices:
        raise errors.UnknownName(
            f"{place}: {head.name!r} has no choice {choice!r}.",
            code="unknown_choice",
            hint=errors.did_you_mean(str(choice), head.choices),
        )
    return head.choices.index(choice)
