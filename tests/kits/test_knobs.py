"""Knobs are declared once: help, checks and the reference page use the same dataclass."""

from __future__ import annotations

import pytest

from headway.nouns.errors import InvalidSettings
from headway.nouns.kit import catalogue, load
from headway.nouns.knob import knobs_of
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


def test_help_names_the_knobs_of_every_family() -> None:
    text = " ".join(headway("learn", "--help").out.split())
    for family in FAMILIES:
        first = knobs_of(load(catalogue().family(family).knobs))[0].name
        assert f"{family}: {first}" in text
