"""`heads`, `needs` and `masks` of a factored task, and what is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headway import settings
from headway.kits.grow import KIT as GROW
from headway.nouns.core_kit import CORE
from headway.nouns.errors import InvalidSettings
from headway.nouns.kit import Catalogue
from tests.kits.grow.factored.tally_kit import COUNTDOWN, KIT

CATALOGUE = Catalogue((CORE, GROW, KIT))
HEADS = 'heads = { op = ["GO", "STOP"], model = ["small", "large"], effort = ["low", "high"] }\n'


def task(text: str, kind: str = "factored") -> settings.TaskSettings:
    toml = f'[tasks.plan]\nkind = "{kind}"\n{text}'
    return settings.parse(toml, directory=Path(), environ={}, catalogue=CATALOGUE).task("plan")


def test_heads_keep_their_order_in_the_stored_configuration() -> None:
    plan = task(HEADS + 'needs = { STOP = [] }\nmasks = { model = ["small"], effort = { STOP = [], GO = ["low"] } }\n')
    assert plan.own.space.names == ("op", "model", "effort")
    assert plan.own.space.relevant == ((True, True, True), (True, False, False))
    assert plan.floor == 0.0
    body = json.loads(settings.config(plan))
    assert [name for name, _ in body["heads"]] == ["op", "model", "effort"]
    assert body["masks"] == {"model": ["small"], "effort": {"STOP": [], "GO": ["low"]}}


def test_a_choice_has_the_same_configuration_as_before_there_were_heads() -> None:
    body = json.loads(settings.config(task("", kind="choice")))
    assert body.keys().isdisjoint({"heads", "needs", "masks"})
    assert body["floor"] == 0.02


def test_a_kit_brings_heads_by_name_and_by_world() -> None:
    for text in ('heads = "countdown"\n', 'world = "countdown"\n'):
        space = task(text).own.space
        assert (space.heads, space.needs) == (COUNTDOWN.heads, COUNTDOWN.needs)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "tasks.plan.heads is missing"),
        ("heads = {}\n", "tasks.plan.heads is missing"),
        ("heads = 3\n", "tasks.plan.heads is 3, expected a table"),
        ('heads = "countdwn"\n', "Did you mean 'countdown'?"),
        ('heads = "countdown"\nneeds = { hold = [] }\n', "tasks.plan.needs cannot be used, expected no value"),
        ("heads = { op = 3 }\n", "tasks.plan.heads.op is 3"),
        ("heads = { op = [] }\n", "tasks.plan.heads.op cannot be used, expected 1 to 1,000 choices"),
        ('heads = { op = ["a", "a"] }\n', "heads.op has 'a' twice"),
        ('heads = { op = ["a=b"] }\n', "heads.op has the name 'a=b'"),
        (HEADS + "needs = { STOPP = [] }\n", "Did you mean 'STOP'?"),
        (HEADS + 'needs = { STOP = ["modell"] }\n', "Did you mean 'model'?"),
        (HEADS + 'needs = { STOP = ["op"] }\n', "needs.STOP names 'op', which is not a head after the first"),
        (HEADS + 'masks = { modell = ["small"] }\n', "tasks.plan.masks.modell"),
        (HEADS + 'masks = { model = ["smal"] }\n', "Did you mean 'small'?"),
        (HEADS + "masks = { model = [] }\n", "tasks.plan.masks.model is [], expected at least one choice"),
        (HEADS + "masks = { model = { GO = [] } }\n", "tasks.plan.masks.model.GO is [], expected at least one"),
        (HEADS + 'masks = { model = { GOO = ["small"] } }\n', "Did you mean 'GO'?"),
        (HEADS + 'masks = { op = { GO = ["GO"] } }\n', "expected a list: the first head depends on nothing"),
        (HEADS + 'actions = ["a"]\n', 'tasks.plan.actions is for tasks with kind = "choice";'),
        (HEADS + "floor = 2\n", "tasks.plan.floor is 2, expected a number from 0 to 1"),
    ],
)
def test_a_mistake_is_refused_with_its_place(text: str, says: str) -> None:
    with pytest.raises(InvalidSettings) as caught:
        task(text)
    assert says in str(caught.value)
