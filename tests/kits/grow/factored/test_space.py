"""Factored actions: names, which heads count, and declarations that make no sense."""

from __future__ import annotations

import itertools

import pytest

from headway.kits.grow.factored.space import Factored, Head
from headway.nouns.errors import HeadwayError, InvalidInput, InvalidSettings, UnknownName

SPACE = Factored(
    heads=(
        Head("op", ("WAIT", "GROW", "PRUNE")),
        Head("slot", ("r0c0", "r0c1")),
        Head("blueprint", ("NORM", "CONV", "LORA")),
        Head("speed", ("slow", "fast")),
    ),
    needs={"WAIT": (), "GROW": ("slot", "blueprint")},
    conditional=("slot",),
)


def test_which_heads_count() -> None:
    assert SPACE.relevant == (
        (True, False, False, False),
        (True, True, True, False),
        (True, True, True, True),  # not named in needs: every other head
    )
    assert SPACE.sizes == (3, 2, 3, 2)
    assert SPACE.index("blueprint") == 2
    assert SPACE.combinations == 1 + 2 * 3 + 2 * 3 * 2


def test_names_are_read_back_and_are_distinct() -> None:
    actions = {
        tuple(choice if counts else 0 for choice, counts in zip(action, SPACE.relevant[action[0]], strict=True))
        for action in itertools.product(*(range(size) for size in SPACE.sizes))
    }
    names = {SPACE.name(action): action for action in actions}
    assert len(names) == len(actions) == SPACE.combinations
    assert all(SPACE.parse(name) == action for name, action in names.items())
    assert SPACE.name((0, 1, 2, 1)) == "op=WAIT"  # irrelevant heads are left out
    assert SPACE.name((1, 1, 2, 0)) == "op=GROW,slot=r0c1,blueprint=LORA"


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("", InvalidInput, "not one head=choice"),
        ("op", InvalidInput, "'op' is not one head=choice"),
        ("op=WAIT,op=WAIT", InvalidInput, "not one head=choice"),
        ("slot=r0c0", InvalidInput, "no choice for the head 'op'"),
        ("op=GROW,slot=r0c0", InvalidInput, "GROW needs the head 'blueprint'"),
        ("op=WAIT,slot=r0c0", InvalidInput, "WAIT does not use the head 'slot'"),
        ("op=GRO", UnknownName, "Did you mean 'GROW'"),
        ("op=WAIT,slott=r0c0", UnknownName, "Did you mean 'slot'"),
    ],
)
def test_a_name_that_is_no_action_says_where(name: str, kind: type[HeadwayError], says: str) -> None:
    with pytest.raises(kind) as caught:
        SPACE.parse(name)
    assert says in str(caught.value)


@pytest.mark.parametrize("action", [(0, 0, 0), (3, 0, 0, 0), (0, 0, -1, 0)])
def test_an_index_that_does_not_fit_is_refused(action: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInput, match="does not fit heads"):
        SPACE.name(action)


A, B = Head("a", ("x", "y")), Head("b", ("u", "v"))


@pytest.mark.parametrize(
    ("heads", "needs", "conditional", "says"),
    [
        ((), {}, (), "heads is empty"),
        ((Head("a", ()),), {}, (), "heads.a is empty"),
        ((A, A), {}, (), "heads has 'a' twice"),
        ((Head("a", ("x", "x")),), {}, (), "heads.a has 'x' twice"),
        ((Head("a=", ("x",)),), {}, (), "heads has the name 'a='"),
        ((Head("a", ("x,y",)),), {}, (), "heads.a has the name 'x,y'"),
        ((A, B), {"z": ()}, (), "needs names 'z'"),
        ((A, B), {"x": ("c",)}, (), "needs.x names 'c'"),
        ((A, B), {"x": ("a",)}, (), "needs.x names 'a'"),
        ((A, B), {"x": ("b", "b")}, (), "needs.x names a head twice"),
        ((A, B), {}, ("a",), "conditional names 'a'"),
    ],
)
def test_a_declaration_that_makes_no_sense_says_where(
    heads: tuple[Head, ...], needs: dict[str, tuple[str, ...]], conditional: tuple[str, ...], says: str
) -> None:
    with pytest.raises(InvalidSettings) as caught:
        Factored(heads, needs, conditional)
    assert says in str(caught.value)


def test_equal_spaces_are_equal_and_hash_alike() -> None:
    again = Factored(SPACE.heads, dict(reversed([*SPACE.needs.items()])), SPACE.conditional)
    assert again == SPACE
    assert hash(again) == hash(SPACE)
