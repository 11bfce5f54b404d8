"""Keys, scopes, the project token and the page's cookie."""

from __future__ import annotations

import re
import stat
import time
from collections.abc import Callable, Iterator

import httpx
import pytest

from headway.observe.keys import Keys, digest_of
from headway.project import Project
from tests.serve.conftest import ASK, Running

OPEN = ["/health", "/v1/tasks", "/v1/policies", "/v1/decisions", "/v1/events", "/metrics", "/openapi.json", "/nope"]


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


def make(project: Project, name: str, *scopes: str, lasts_s: float | None = None) -> str:
    now = project.clock()
    return Keys(project.database).add(name, scopes, now=now, expires=None if lasts_s is None else now + lasts_s)


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server on all addresses, which requires a key."""
    folder = tmp_path_factory.mktemp("elsewhere")
    running = Running(folder, "--host", "0.0.0.0")
    yield running
    running.stop()


@pytest.fixture(scope="module")
def secrets(elsewhere: Running) -> dict[str, str]:
    with elsewhere.open() as project:
        keys = {scope: make(project, scope, scope) for scope in ("decide", "signal", "train", "admin")}
        keys["late"] = make(project, "late", "decide", lasts_s=-1.0)
    heeded(elsewhere, keys["admin"])
    return keys


def heeded(running: Running, secret: str) -> None:
    """Waits for the running server to accept a new key: it reads the keys five times a second."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if url(running).get("/health", headers=bearer(secret)).status_code == 200:
            return
    raise AssertionError("the new key is not heeded")


def url(running: Running) -> httpx.Client:
    running.client.base_url = httpx.URL(f"http://127.0.0.1:{running.port}")
    return running.client


@pytest.mark.parametrize("path", OPEN)
def test_without_a_key_a_reachable_server_reveals_nothing(elsewhere: Running, path: str) -> None:
    for headers in ({}, bearer("hw_" + "0" * 64), {"authorization": "Basic eDp5"}, {"x-api-key": "sk-1"}):
        answer = url(elsewhere).get(path, headers=headers)
        assert answer.status_code == 401
        assert answer.json()["error"]["code"] == "key_needed"


@pytest.mark.parametrize(
    ("method", "path", "scope"),
    [
        ("POST", "/v1/decisions", "decide"),
        ("POST", "/v1/decisions/batch", "decide"),
        ("POST", "/v1/decisions/dec_00000000000000000000000000000000/signals", "signal"),
        ("POST", "/v1/signals", "signal"),
        ("GET", "/v1/reports", "train"),
        ("GET", "/v1/evidence", "train"),
        ("GET", "/metrics", "train"),
        ("POST", "/v1/tasks/route/learn", "train"),
        ("POST", "/v1/policies/uniform@0/promote", "admin"),
        ("POST", "/v1/tasks/route/rollback", "admin"),
        ("POST", "/load", "admin"),
        ("POST", "/v1/links", "admin"),
    ],
)
@pytest.mark.kits("prompts")
def test_a_key_may_do_only_what_its_scope_allows(
    elsewhere: Running, secrets: dict[str, str], method: str, path: str, scope: str
) -> None:
    for name in ("decide", "signal", "train", "admin"):
        body = {"json": {}} if method == "POST" else {}
        answer = url(elsewhere).request(method, path, headers=bearer(secrets[name]), **body)
        assert (answer.status_code == 403) == (name != scope), (name, answer.text)
        if name != scope:
            assert answer.json()["error"]["code"] == "wrong_scope"
    assert url(elsewhere).request(method, path, headers=bearer(secrets["late"])).status_code == 401


def test_a_key_is_accepted_in_either_header(elsewhere: Running, secrets: dict[str, str]) -> None:
    client = url(elsewhere)
    assert client.post("/v1/decisions", json=ASK, headers=bearer(secrets["decide"])).status_code == 201
    assert client.post("/v1/decisions", json=ASK, headers={"x-api-key": secrets["decide"]}).status_code == 201
    assert client.get("/health", params={"key": secrets["decide"]}).status_code == 401


def test_a_decision_can_be_read_only_by_its_own_key(elsewhere: Running, secrets: dict[str, str]) -> None:
    client = url(elsewhere)
    mine = client.post("/v1/decisions", json=ASK, headers=bearer(secrets["decide"])).json()["id"]
    with elsewhere.open() as project:
        other = make(project, "other", "decide", "signal")
        assert project.query.decision(mine).key == "decide"
    heeded(elsewhere, other)
    assert client.get(f"/v1/decisions/{mine}", headers=bearer(secrets["decide"])).status_code == 200
    assert client.get(f"/v1/decisions/{mine}", headers=bearer(other)).status_code == 404


def test_an_id_of_another_key_is_a_conflict(elsewhere: Running, secrets: dict[str, str]) -> None:
    client = url(elsewhere)
    ask = {**ASK, "id": "0197c1f2-a3b4-7000-a1b2-c3d4e5f60718"}
    assert client.post("/v1/decisions", json=ask, headers=bearer(secrets["decide"])).status_code == 201
    with elsewhere.open() as project:
        third = make(project, "third", "decide")
    heeded(elsewhere, third)
    answer = client.post("/v1/decisions", json=ask, headers=bearer(third))
    assert answer.status_code == 409


def test_an_episode_belongs_to_the_key_that_opened_it(elsewhere: Running, secrets: dict[str, str]) -> None:
    client = url(elsewhere)
    ask = {**ASK, "episode": "mine"}
    assert client.post("/v1/decisions", json=ask, headers=bearer(secrets["decide"])).status_code == 201
    with elsewhere.open() as project:
        fourth = make(project, "fourth", "decide")
    heeded(elsewhere, fourth)
    answer = client.post("/v1/decisions", json=ask, headers=bearer(fourth))
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "episode_conflict")
    assert client.post("/v1/tasks/route/episodes/mine/end", json={}, headers=bearer(fourth)).status_code == 404


def test_each_signal_stores_its_key_as_rater(elsewhere: Running, secrets: dict[str, str]) -> None:
    client = url(elsewhere)
    mine = client.post("/v1/decisions", json=ASK, headers=bearer(secrets["decide"])).json()["id"]
    path = f"/v1/decisions/{mine}/signals"
    assert client.post(path, json={"reward": 1.0}, headers=bearer(secrets["signal"])).status_code == 204
    assert client.post(path, json={"reward": 0.5}, headers=bearer(secrets["signal"])).status_code == 204
    with elsewhere.open() as project:
        assert [(signal.rater, signal.value) for signal in project.query.signals(mine, live=True)] == [("signal", 0.5)]


def test_a_revoked_and_a_rotated_key_stop_while_the_server_runs(elsewhere: Running, secrets: dict[str, str]) -> None:
    client = url(elsewhere)
    with elsewhere.open() as project:
        first, second = make(project, "first", "decide"), make(project, "second", "decide")
        heeded(elsewhere, second)
        Keys(project.database).revoke("first", now=project.clock())
        replaced = Keys(project.database).rotate("second", now=project.clock())
    heeded(elsewhere, replaced)
    assert client.post("/v1/decisions", json=ASK, headers=bearer(first)).status_code == 401
    assert client.post("/v1/decisions", json=ASK, headers=bearer(second)).status_code == 401
    assert client.post("/v1/decisions", json=ASK, headers=bearer(replaced)).status_code == 201


def test_no_secret_is_stored_logged_or_counted(elsewhere: Running, secrets: dict[str, str]) -> None:
    client = url(elsewhere)
    metrics = client.get("/metrics", headers=bearer(secrets["train"])).text
    client.get("/v1/evidence", headers=bearer(secrets["train"]))
    state = elsewhere.folder / ".headway"
    texts: list[bytes] = []
    until = time.monotonic() + 20
    while not any(b'"route":"/v1/evidence"' in text for text in texts):  # the log is written a few times a second
        assert time.monotonic() < until
        client.get("/health", headers=bearer(secrets["train"]))
        texts = [path.read_bytes() for path in state.rglob("*") if path.is_file() and path.name != "token"]
    for secret in secrets.values():
        assert secret not in metrics
        for text in texts:
            assert secret.encode() not in text
    assert any(digest_of(secrets["train"]) in text for text in texts)


def test_a_key_has_256_random_bits(elsewhere: Running, secrets: dict[str, str]) -> None:
    assert all(re.fullmatch(r"hw_[0-9a-f]{64}", secret) for secret in secrets.values())
    assert len(set(secrets.values())) == len(secrets)


# -- on this machine


ADMIN = ["/v1/policies/uniform@0/promote", "/v1/policies/uniform@0/canary", "/v1/tasks/route/rollback", "/load"]


@pytest.mark.parametrize("path", [*ADMIN, "/v1/links"])
@pytest.mark.kits("prompts")
def test_on_this_machine_admin_verbs_need_the_project_token(server: Running, path: str) -> None:
    assert server.client.post(path, json={}).status_code == 401
    assert server.client.post(path, json={}, headers=bearer("hw_wrong")).status_code == 401
    assert server.client.post(path, json={}, headers=server.token).status_code not in (401, 403)


def test_only_its_owner_can_read_the_token(server: Running) -> None:
    token = server.folder / ".headway" / "token"
    assert stat.S_IMODE(token.stat().st_mode) == 0o600


def test_on_this_machine_the_key_of_another_service_is_ignored(server: Running) -> None:
    assert server.client.post("/v1/decisions", json=ASK, headers=bearer("sk-live-123")).status_code == 201
    assert server.client.post("/v1/decisions", json=ASK, headers={"x-api-key": "unused"}).status_code == 201


def test_on_this_machine_a_wrong_key_is_refused_and_none_is_not(server: Running) -> None:
    for headers in (bearer("hw_wrong"), {"x-api-key": "hw_" + "0" * 64}):
        assert server.client.post("/v1/decisions", json=ASK, headers=headers).status_code == 401
    assert server.client.post("/v1/decisions", json=ASK).status_code == 201


def test_a_request_to_a_listed_host_name_needs_a_key(served: Callable[..., Running]) -> None:
    running = served('[server]\nhosts = ["decide.example"]\n')
    host = {"host": "decide.example"}
    assert running.client.post("/v1/decisions", json=ASK, headers=host).status_code == 401
    assert running.client.post("/v1/decisions", json=ASK, headers=host | running.token).status_code == 201


def test_a_link_sets_the_cookie_once(server: Running) -> None:
    path = server.client.post("/v1/links", json={}, headers=server.token).json()["path"]
    opened = server.client.get(path)
    place, _, proof = opened.headers["location"].partition("=")
    assert (opened.status_code, place) == (303, "/#unlock")
    cookie = opened.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    server.client.cookies.clear()
    again = server.client.get(path)
    assert (again.status_code, again.json()["error"]["code"]) == (401, "link_used")
    assert "headway open" in again.json()["error"]["hint"]
    seen = server.client.get(path, headers={"accept": "text/html,*/*"})  # a browser shows a page, not JSON
    assert (seen.status_code, seen.headers["content-type"].partition(";")[0]) == (401, "text/html")
    assert "<code>headway open</code>" in seen.text
    page = {"cookie": cookie.partition(";")[0]}
    assert server.client.get(path, headers=page).headers["location"] == "/"  # the browser that used it is signed in
    assert server.client.post("/v1/links", json={}, headers=page).status_code == 401, "every port gets the cookie"
    assert server.client.post("/v1/links", json={}, headers={"x-headway-page": proof}).status_code == 401
    guess = {"cookie": f"headway_page_{server.port}=guess", "x-headway-page": proof}
    assert server.client.post("/v1/links", json={}, headers=guess).status_code == 401
    page["x-headway-page"] = proof
    assert server.client.post("/v1/links", json={}, headers=page).status_code == 201
    elsewhere = {**page, "cookie": page["cookie"].replace(str(server.port), "8787")}
    assert server.client.post("/v1/links", json={}, headers=elsewhere).status_code == 401, "its name has the port"
    foreign = server.client.post("/v1/links", json={}, headers=page | {"origin": "http://evil.example"})
    assert foreign.status_code == 403
