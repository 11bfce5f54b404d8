"""From method and path to an endpoint."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from headway.nouns.errors import InvalidInput
from headway.serve.endpoints import Call, Endpoint, endpoint, path_pattern
from headway.serve.errors import Refused
from headway.serve.routing import Routes


@endpoint("GET", "/v1/tasks")
@endpoint("GET", "/v1/tasks/{task}")
@endpoint("POST", "/v1/tasks/{task}/episodes/{episode}/end")
@endpoint("GET", "/v1/models/headway/{task}")
@endpoint("GET", "/v1/models/{model}")
@endpoint("POST", "/v1/tasks/special")
@endpoint("GET", "/assets/a.b+c")
def answer(call: Call) -> None: ...


ENDPOINTS: tuple[Endpoint, ...] = answer.endpoints  # type: ignore[attr-defined]
ROUTES = Routes(ENDPOINTS)


@pytest.mark.parametrize(
    ("method", "path", "declared", "parameters"),
    [
        ("GET", "/v1/tasks", "/v1/tasks", {}),
        ("GET", "/v1/tasks/route", "/v1/tasks/{task}", {"task": "route"}),
        ("GET", "/v1/tasks/½ a?#", "/v1/tasks/{task}", {"task": "½ a?#"}),
        ("GET", "/v1/tasks/..", "/v1/tasks/{task}", {"task": ".."}),
        ("GET", "/v1/tasks/(?P<x>.*)", "/v1/tasks/{task}", {"task": "(?P<x>.*)"}),
        (
            "POST",
            "/v1/tasks/a/episodes/b/end",
            "/v1/tasks/{task}/episodes/{episode}/end",
            {"task": "a", "episode": "b"},
        ),
        ("GET", "/v1/models/headway", "/v1/models/{model}", {"model": "headway"}),
        ("GET", "/v1/models/headway/route", "/v1/models/headway/{task}", {"task": "route"}),
        ("GET", "/assets/a.b+c", "/assets/a.b+c", {}),
    ],
)
def test_a_path_is_routed_to_its_endpoint(method: str, path: str, declared: str, parameters: dict[str, str]) -> None:
    result, given_parameters = ROUTES.find(method, path)
    assert (result.method, result.path, dict(given_parameters)) == (method, declared, parameters)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "//",
        "v1/tasks",
        "/v1/tasks/",
        "/v1/tasks//",
        "/v1//tasks",
        "/V1/tasks",
        "/v1/tasks\n",
        "/v1/tasks/a/b",
        "/v1/tasks/a/",
        "/v1/tasks//episodes/b/end",
        "/v1/tasks/a/episodes//end",
        "/v1/tasks/a/episodes/b/end\n",
        "/v1/tasks/a/episodes/b/end/",
        "/v1/tasks/../tasks/a",
        "/assets/aXb+c",
        "/assets/a.bbc",
        "http://elsewhere/v1/tasks",
    ],
)
def test_any_other_path_is_not_found(path: str) -> None:
    with pytest.raises(Refused) as caught:
        ROUTES.find("GET", path)
    assert (caught.value.status, caught.value.code) == (404, "not_found")


@pytest.mark.parametrize("name", ["a\n", "\n", "a\0", "\x7f", "a\u2028b", "\ud800", "\x1b[2J"])
def test_a_parameter_with_a_control_character_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        ROUTES.find("GET", f"/v1/tasks/{name}")
    assert caught.value.code == "bad_path"


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/v1/tasks", "GET"),
        ("GET", "/v1/tasks/special", "POST"),  # a declared path is never a parameter
        ("DELETE", "/v1/tasks/a", "GET"),
        ("get", "/v1/tasks/a", "GET"),
        ("GET", "/v1/tasks/a/episodes/b/end", "POST"),
    ],
)
def test_another_method_is_answered_with_the_allowed_ones(method: str, path: str, allowed: str) -> None:
    with pytest.raises(Refused) as caught:
        ROUTES.find(method, path)
    assert caught.value.status == 405
    assert caught.value.headers == {"allow": allowed}


@given(st.text(st.characters(exclude_characters="/"), min_size=1), st.text(min_size=1))
def test_a_parameter_is_exactly_one_segment(segment: str, text: str) -> None:
    pattern = path_pattern("/v1/{one}/x.y/{two}")
    match = pattern.fullmatch(f"/v1/{segment}/x.y/{segment}")
    assert match is not None
    assert match.groupdict() == {"one": segment, "two": segment}
    match = pattern.fullmatch(f"/v1/{text}/x.y/z")
    assert (match is None) == ("/" in text)


@pytest.mark.parametrize("path", ["/{a", "/a}", "/x{a}", "/{}", "/{a-b}", "/{a:int}", "/{a}{b}"])
def test_an_invalid_path_is_refused_at_its_declaration(path: str) -> None:
    with pytest.raises(ValueError, match=r"expected plain text or \{name\}"):
        path_pattern(path)
    with pytest.raises(ValueError, match="has the segment"):
        endpoint("GET", path)(answer)


def test_a_route_is_declared_once() -> None:
    with pytest.raises(AssertionError, match="declared twice"):
        Routes([*ENDPOINTS, ENDPOINTS[-1]])
