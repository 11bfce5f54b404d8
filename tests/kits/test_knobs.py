"""Knobs are declared once: help, checks and the reference page use the same dataclass."""

from __future__ import annotations

import math

import pytest

from headway.kits.grow.knobs import knobs_from
from headway.nouns.errors import InvalidSettings
from headway.nouns.kit import catalogue, load
from headway.nouns.knobs import knobs_of
from tests.cli.terminal import headway
from tests.docs.knobs_page import PAGE, page
from tests.learn.logs import MemoryLog, identity

FAMILIES = catalogue().families()


def test_the_reference_page_is_generated_from_the_families() -> None:
    assert PAGE.read_text("utf-8") == page(), "run python -m tests.docs.knobs_page"


@pytest.mark.parametrize("family", FAMILIES)
def test_every_knob_has_a_description(family: str) -> None:
    for knob in knobs_of(load(catalogue().family(family).knobs)):
        assert knob.about.endswith("."), f"{family}: {knob.name}"


@pytest.mark.parametrize("family", FAMILIES)
def test_a_number_out_of_bounds_and_an_unknown_knob_are_refused(family: str) -> None:
    learner, rows = catalogue().learner(family), MemoryLog(identity("numbers", 30))
    bounded = [knob for knob in knobs_of(load(catalogue().family(family).knobs)) if knob.high is not None]
    assert bounded
    for knob in bounded:
        with pytest.raises(InvalidSettings) as error:
            learner.learn(rows, {knob.name: (knob.high or 0.0) * 2}, seed=0)
        assert error.value.code == "bad_knob"
    with pytest.raises(InvalidSettings) as error:
        learner.learn(rows, {bounded[0].name + "s": 1}, seed=0)
    assert error.value.code == "unknown_key"


def test_help_names_every_family() -> None:
    listed = " ".join(headway("learn", "--help").out.split()).partition("NAME: ")[2].partition(".")[0]
    assert listed.split(", ") == list(FAMILIES)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_help_of_a_family_names_its_knobs(family: str) -> None:
    text = " ".join(headway("learn", "--family", family, "--help").out.split())
    for knob in knobs_of(load(catalogue().family(family).knobs)):
        assert f" {knob.name}=" in text


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rate": True}, "The knob rate is True, not a number."),
        ({"rate": 1e9}, "The knob rate is 1000000000.0, not a number from 0 to 1e+06."),
        ({"envs": 2.0}, "The knob envs is 2.0, not a whole number."),
        ({"target": math.nan}, "The knob target is nan, not a finite number."),
        ({"bf16": 1}, "The knob bf16 is 1, not true or false."),
        ({"schedule": "lin"}, "The knob schedule is 'lin', not one of constant, linear."),
        ({"entropy_heads": "op:-1"}, "The knob entropy_heads is 'op:-1', not a weight of at least 0 per head."),
        ({"entropy_heads": 3}, "The knob entropy_heads is 3, not a weight of at least 0 per head."),
    ],
)
def test_a_value_of_another_type_is_refused_in_words(given: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidSettings) as error:
        knobs_from(given)
    assert error.value.message == message
