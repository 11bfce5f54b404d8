"""Routes of an installed kit: under its own name, and harmless if they are invalid."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

import pytest

from headway.nouns.kit import Catalogue, Kit, catalogue
from headway.serve.app import document, endpoints
from headway.serve.routing import Routes

GOOD = """
import msgspec
from headway.serve.endpoints import Call, endpoint, strict

class DecisionRequest(strict):            # a name that the core uses too
    colour: str

class DecisionsQuery(strict):             # and so is the name of its query
    shade: int = 0

class Colours(msgspec.Struct):
    known: list[str]

@endpoint("POST", "/v1/kits/paint/{wall}", takes=DecisionRequest, query=DecisionsQuery, gives=Colours, scope="decide")
def decide(call: Call, body: DecisionRequest) -> Colours:
    "Paints a wall."
    return Colours([body.colour])
"""
ROUTE = """
from headway.serve.endpoints import Call, endpoint

@endpoint({arguments})
def paint(call: Call) -> None:
    "Paints."
"""


@pytest.fixture
def guest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalogue:
    """The built-in kits and an installed one, whose routes are in the module `paint_routes`."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "paint_routes", raising=False)
    kit = Kit(name="paint", summary="Paints.", routes=("paint_routes",))
    known = catalogue()
    return Catalogue(kits=(*known.kits, kit), broken=known.broken)


def test_a_kit_only_adds_to_the_document(guest: Catalogue, tmp_path: Path) -> None:
    (tmp_path / "paint_routes.py").write_text(GOOD, "utf-8")
    before, after = json.loads(document()), json.loads(document(guest))
    operation = after["paths"].pop("/v1/kits/paint/{wall}")["post"]
    added = {
        name: after["components"]["schemas"].pop(name)
        for name in set(after["components"]["schemas"]) - set(before["components"]["schemas"])
    }
    assert after == before
    assert set(added) >= {"paint_DecisionRequest", "paint_Colours"}
    assert all(name.startswith("paint_") for name in added)
    assert operation["operationId"] == "paint_decide"
    assert [parameter["name"] for parameter in operation["parameters"]] == ["wall", "shade"]
    body = operation["requestBody"]["content"]["application/json"]["schema"]
    assert body == {"$ref": "#/components/schemas/paint_DecisionRequest"}
    result, parameters = Routes(endpoints(guest)).find("POST", "/v1/kits/paint/north")
    assert (result.kit, dict(parameters)) == ("paint", {"wall": "north"})


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("import no_such_package", "no_such_package"),
        (ROUTE.format(arguments='"GET", "/v1/decisions", scope="decide"'), "does not begin with /v1/kits/paint/"),
        (ROUTE.format(arguments='"GET", "/v1/kits/other/x", scope="decide"'), "does not begin with /v1/kits/paint/"),
        (ROUTE.format(arguments='"GET", "/v1/kits/paint/x"'), "it states no scope"),
        (ROUTE.format(arguments='"GET", "/v1/kits/paint/{x:int}", scope="decide"'), "expected plain text or {name}"),
        (ROUTE.format(arguments='"GET", "/v1/kits/paint/x", scope="decide", gives=complex'), "cannot be described"),
        (ROUTE.format(arguments='"POST", "/v1/kits/paint/x", scope="decide", takes=complex'), "left out"),
    ],
)
def test_an_invalid_route_is_omitted_and_affects_no_other(
    guest: Catalogue, tmp_path: Path, caplog: pytest.LogCaptureFixture, source: str, says: str
) -> None:
    (tmp_path / "paint_routes.py").write_text(source, "utf-8")
    with caplog.at_level(logging.WARNING, "headway.serve"):
        assert document(guest) == document()
    assert "kit=paint" in caplog.text
    assert says in caplog.text


def test_a_route_that_a_kit_declares_twice_counts_once(guest: Catalogue, tmp_path: Path) -> None:
    route = ROUTE.format(arguments='"GET", "/v1/kits/paint/x", scope="decide"')
    (tmp_path / "paint_routes.py").write_text(route + route.replace("def paint", "def again"), "utf-8")
    routes = Routes(endpoints(guest))
    assert routes.find("GET", "/v1/kits/paint/x")[0].name == "paint_paint"
