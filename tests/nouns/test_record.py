"""A record behaves like a frozen dataclass and is cheaper to create."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace

import pytest

from headway.nouns.records import Decision, Situation, record


@record
class Quick:
    name: str
    notes: Mapping[str, int] = field(default_factory=dict)
    size: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    name: str
    notes: Mapping[str, int] = field(default_factory=dict)
    size: int = 3


def test_a_record_behaves_like_a_frozen_dataclass() -> None:
    one, other = Quick(name="a"), Quick(name="a", notes={}, size=3)
    assert one == other
    assert repr(one) == repr(Plain(name="a")).replace("Plain", "Quick")
    assert one != Quick(name="b")
    assert [field.name for field in fields(one)] == ["name", "notes", "size"]
    assert type(one) is Quick
    assert hash(Quick(name="a", notes=())) == hash(Quick(name="a", notes=()))  # type: ignore[arg-type]  # hashable


def test_each_record_gets_its_own_default() -> None:
    assert Quick(name="a").notes is not Quick(name="a").notes
    assert Quick(name="a", size=0).size == 0


def test_fields_cannot_be_set_deleted_or_added() -> None:
    one = Quick(name="a")
    with pytest.raises(FrozenInstanceError):
        one.name = "b"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del one.size
    with pytest.raises((AttributeError, TypeError)):
        one.more = 1  # type: ignore[attr-defined]
    assert not hasattr(one, "__dict__")


def test_it_accepts_and_refuses_the_same_arguments() -> None:
    assert list(inspect.signature(Quick).parameters) == list(inspect.signature(Plain).parameters)
    for wrong in ({}, {"name": "a", "other": 1}):
        for kind in (Quick, Plain):
            with pytest.raises(TypeError):
                kind(**wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        Quick("a")  # type: ignore[call-arg]


def test_it_can_be_replaced_and_copied() -> None:
    made = Situation(task="route", text="x", state={"n": 1})
    assert replace(made, text="y") == Situation(task="route", text="y", state={"n": 1})
    assert copy.copy(made) == made
    assert copy.deepcopy(made) == made


def test_an_unsupported_class_is_refused_at_its_declaration() -> None:
    with pytest.raises(AssertionError, match="inherits"):

        @record
        class _Child(Quick):
            more: int = 0

    with pytest.raises(AssertionError, match="__post_init__"):

        @record
        class _After:
            name: str

            def __post_init__(self) -> None: ...


def test_a_decision_is_a_record() -> None:
    assert "seq" in Decision.__slots__  # type: ignore[attr-defined]
