"""Factored actions: one choice per head, and which heads count is decided by the first one.

    space = Factored(
        heads=(Head("op", ("WAIT", "GROW")), Head("slot", ("r0c0", "r0c1")), Head("blueprint", ("NORM", "CONV"))),
        needs={"WAIT": (), "GROW": ("slot", "blueprint")},
        conditional=("slot",),
    )
    space.name((1, 0, 1))                        # "op=GROW,slot=r0c0,blueprint=CONV"
    space.parse("op=WAIT")                       # (0, 0, 0): heads that do not count stay at 0

The first head leads: it is drawn first, and each of its choices names the heads that it uses. A head that the chosen
lead does not use is *irrelevant*: its index is 0, its probability 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, Protocol

from headway.nouns import Internal, errors

if TYPE_CHECKING:  # numpy is used in types only and never imported here
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Masks = Mapping[str, NDArray[np.bool_]]
else:
    Masks = Floats = Any

__all__ = ["Factored", "FactoredOpinions", "FactoredPolicy", "Head", "Masks", "Observations"]

_RESERVED = "=,\0\n"
_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Head:
    """One part of an action, and what it chooses from."""

    name: Internal[str]
    choices: tuple[str, ...]

    def index(self, choice: str) -> int:
        """The place of a choice, or UnknownName with the nearest one."""
        if choice in self.choices:
            return self.choices.index(choice)
        raise errors.UnknownName(
            f"The head {self.name!r} has no choice {choice!r}.",
            code="unknown_choice",
            hint=errors.did_you_mean(choice, self.choices),
        )


@dataclass(frozen=True, slots=True)
class Factored:
    """An action of several heads. The first one leads; `needs` says which others each of its choices uses.

    A lead choice that `needs` does not name uses every other head. The mask of a head in `conditional` depends on the
    lead choice: bool [row, lead choice, choice] instead of [row, choice].
    """

    heads: tuple[Head, ...]
    needs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    conditional: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check(self)

    def __hash__(self) -> int:
        return hash((self.heads, tuple(sorted(self.needs.items())), self.conditional))

    @property
    def lead(self) -> Head:
        return self.heads[0]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(head.name for head in self.heads)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of choices per head."""
        return tuple(len(head.choices) for head in self.heads)

    @property
    def combinations(self) -> int:
        """How many distinct actions there are: irrelevant heads add none."""
        return sum(
            prod(size for size, counts in zip(self.sizes[1:], row[1:], strict=True) if counts) for row in self.relevant
        )

    @property
    def relevant(self) -> tuple[tuple[bool, ...], ...]:
        """[lead choice][head]: whether the head counts. The lead always does."""
        return _relevant(self)

    def index(self, head: str) -> int:
        """The place of a head, or UnknownName with the nearest one."""
        if head in self.names:
            return self.names.index(head)
        raise errors.UnknownName(
            f"There is no head {head!r}.", code="unknown_head", hint=errors.did_you_mean(head, self.names)
        )

    def name(self, action: Sequence[int]) -> str:
        """The action in words: the choice of each head that counts."""
        self._check_action(action)
        counts = self.relevant[action[0]]
        return ",".join(
            f"{head.name}={head.choices[choice]}"
            for head, choice, relevant in zip(self.heads, action, counts, strict=True)
            if relevant
        )

    def parse(self, name: str) -> tuple[int, ...]:
        """The action of a name: a choice for each head that counts, and for no other."""
        given: dict[str, str] = {}
        for part in name.split(","):
            named, equals, choice = part.partition("=")
            if not equals or named in given:
                raise errors.InvalidInput(
                    f"{name!r} is not an action: {part!r} is not one head=choice.",
                    code="bad_action",
                    hint=f"Write it like {self.name((0,) * len(self.heads))!r}.",
                )
            self.index(named)
            given[named] = choice
        if self.lead.name not in given:
            raise errors.InvalidInput(f"{name!r} has no choice for the head {self.lead.name!r}.", code="bad_action")
        lead = self.lead.index(given[self.lead.name])
        action: list[int] = []
        for head, relevant in zip(self.heads, self.relevant[lead], strict=True):
            if relevant != (head.name in given):
                says = "needs" if relevant else "does not use"
                raise errors.InvalidInput(
                    f"{name!r}: {self.lead.choices[lead]} {says} the head {head.name!r}.", code="bad_action"
                )
            action.append(head.index(given[head.name]) if relevant else 0)
        return tuple(action)

    def _check_action(self, action: Sequence[int]) -> None:
        sizes = self.sizes
        fits = len(action) == len(sizes) and all(0 <= choice < size for choice, size in zip(action, sizes, strict=True))
        if not fits:
            raise errors.InvalidInput(
                f"The action {list(action)} does not fit heads of {list(sizes)} choices.", code="bad_action"
            )


@lru_cache(maxsize=256)
def _relevant(space: Factored) -> tuple[tuple[bool, ...], ...]:
    others = space.names[1:]
    rows = []
    for choice in space.lead.choices:
        used = space.needs.get(choice, others)
        rows.append((True, *(name in used for name in others)))
    return tuple(rows)


def _check(space: Factored) -> None:
    """The declaration makes sense, or InvalidSettings with the place."""
    if not space.heads:
        raise _bad("heads is empty", "Name at least one head with its choices.")
    _check_names("heads", space.names)
    for head in space.heads:
        if not head.choices:
            raise _bad(f"heads.{head.name} is empty", "Name at least one choice.")
        _check_names(f"heads.{head.name}", head.choices)
    others = space.names[1:]
    for choice, used in space.needs.items():
        if choice not in space.lead.choices:
            raise _bad(
                f"needs names {choice!r}, which is not a choice of {space.lead.name!r}",
                errors.did_you_mean(choice, space.lead.choices),
            )
        _check_heads(f"needs.{choice}", used, others)
    _check_heads("conditional", space.conditional, others)


def _check_heads(place: str, named: Sequence[str], others: Sequence[str]) -> None:
    for name in named:
        if name not in others:
            raise _bad(
                f"{place} names {name!r}, which is not a head after the first", errors.did_you_mean(name, others)
            )
    if len(set(named)) < len(named):
        raise _bad(f"{place} names a head twice", "Name each head once.")


def _check_names(place: str, names: Sequence[str]) -> None:
    for name in names:
        if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME or any(sign in name for sign in _RESERVED):
            raise _bad(
                f"{place} has the name {str(name)[:60]!r}", f"Use 1 to {_LONGEST_NAME} characters without '=' and ','."
            )
    if len(set(names)) < len(names):
        twice = next(name for name in names if list(names).count(name) > 1)
        raise _bad(f"{place} has {twice!r} twice", "Every name is given once.")


def _bad(what: str, hint: str) -> errors.InvalidSettings:
    return errors.InvalidSettings(f"A factored action: {what}.", code="bad_factored", hint=hint)


@dataclass(frozen=True, slots=True)
class Observations:
    """What a factored policy sees: numbers, and columns of indices that it looks up in an embedding."""

    features: Floats  # [row, feature]
    indices: NDArray[np.int64]  # [row, column]; no columns if there are none

    def __len__(self) -> int:
        return len(self.features)


@dataclass(frozen=True, slots=True)
class FactoredOpinions:
    """A factored policy's view of many observations. Each row depends on its own observation and memory only."""

    scores: Mapping[str, Floats]  # head → [row, choice]: log-scores, not masked
    memory: Floats  # [row, memory_width]: after this observation
    value: Floats  # [row]: predicted return; zeros if the family predicts none


class FactoredPolicy(Protocol):
    """Decides actions of several heads, step by step. Immutable once built; safe to call from several threads.

    What it remembers of an episode is not in it: the caller passes the memory in (zeros at the start) and gets the next
    one back, so that memory is a fold over the observations. `FactoredPipeline` applies masks and draws. A row gets the
    same bits alone and in a batch.
    """

    @property
    def family(self) -> str: ...

    @property
    def space(self) -> Factored: ...

    @property
    def memory_width(self) -> int: ...  # 0: it remembers nothing

    @property
    def features(self) -> int: ...  # numbers per observation

    @property
    def indices(self) -> tuple[int, ...]: ...  # index columns: how many values each can have

    def scores(self, observations: Observations, memory: Floats) -> FactoredOpinions: ...
