"""Actions on the page: rate, promote, roll back, start a canary; with and without a key."""

from __future__ import annotations

import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import httpx

import headway
from headway.observe.jobs import Jobs
from headway.project import Project
from tests.page.browser import Served, serving
from tests.page.conftest import Open


def ledger(server: Served) -> list[dict[str, Any]]:
    return list(httpx.get(f"{server.url}/v1/ledger?task=route").json()["ledger"])


def current(server: Served) -> dict[str, Any]:
    return dict(httpx.get(f"{server.url}/v1/tasks/route").json())


def roll_back(server: Served) -> str:
    """Make the baseline current again and prove the policy that was, so that it can be promoted; returns the policy."""
    answer = httpx.post(
        f"{server.url}/v1/tasks/route/rollback",
        json={},
        headers={"authorization": f"Bearer {server.token}"},
    )
    assert answer.json()["policy"] == "uniform@0"
    policy = str(next(row["policy"] for row in ledger(server) if row["kind"] == "promote"))
    with Project(server.folder, environ={}) as project:
        assert project.prove(policy).passed
    return policy


def signals(server: Served, decision: str) -> dict[str, float | None]:
    signals_of = httpx.get(f"{server.url}/v1/decisions/{decision}").json()["signals"]
    return {signal["name"]: signal["value"] for signal in signals_of}


def test_a_signal_is_added_by_number_stars_or_thumb_and_withdrawn(own: Served, tab: Open) -> None:
    decision = own.decide("reply", "Can you say that again?")
    page = tab(own, f"#/decisions/{decision}?task=reply")
    page.get_by_text("No signals yet.").wait_for()
    page.get_by_role("button", name="4 stars").click()
    page.get_by_text("rating 4 stored").wait_for()
    page.get_by_text("rewarded").first.wait_for()
    page.locator("body").press("2")
    page.get_by_text("rating 2 stored").wait_for()
    page.locator("body").press("u")
    page.get_by_text("liked 1 stored").wait_for()
    page.get_by_label("Signal", exact=True).fill("words")
    page.get_by_label("Value", exact=True).fill("120")
    page.get_by_role("button", name="Add signal").press("Enter")
    page.get_by_text("words 120 stored").wait_for()
    assert signals(own, decision) == {"rating": 2.0, "liked": 1.0, "words": 120.0}
    page.get_by_role("button", name="Withdraw liked").click()
    page.get_by_text("liked withdrawn").wait_for()
    assert signals(own, decision)["liked"] is None


def test_an_invalid_signal_is_refused_with_a_message(own: Served, tab: Open) -> None:
    decision = own.decide("reply", "And this?")
    page = tab(own, f"#/decisions/{decision}")
    page.get_by_label("Signal", exact=True).fill("rating")
    page.get_by_label("Value", exact=True).fill("9")
    page.get_by_role("button", name="Add signal").click()
    page.get_by_role("alert").get_by_text("expected stars from 1 to 5").wait_for()
    assert signals(own, decision) == {}


def test_promoting_and_rolling_back_need_a_confirmation_and_write_the_ledger(own: Served, tab: Open) -> None:
    policy = roll_back(own)
    page = tab(own, "#/evidence", cookie=True)
    page.get_by_role("link", name=policy).first.click()
    page.get_by_role("button", name=f"Promote {policy}").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").wait_for(state="detached")
    assert current(own)["current"] == "uniform@0"
    page.get_by_role("button", name=f"Promote {policy}").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("is better than uniform@0").wait_for()
    dialog.get_by_text("Gate's bounds +").wait_for()
    dialog.get_by_label("Why now").fill("approved on Friday")
    dialog.get_by_role("button", name="Promote", exact=True).click()
    page.get_by_text("written to the ledger").wait_for()
    page.get_by_text("is current", exact=True).wait_for()
    now = current(own)
    assert (now["current"], ledger(own)[-1]["kind"], ledger(own)[-1]["who"]) == (policy, "promote", "page")
    assert ledger(own)[-1]["detail"]["note"] == "approved on Friday"
    page.goto(f"{own.url}/#/tasks/route")
    page.get_by_text("decides now, in place of uniform@0: approved on Friday.").wait_for()

    page.goto(f"{own.url}/#/ledger?task=route")
    page.get_by_text(now["current_hash"][:8]).first.wait_for()
    page.get_by_role("button", name="Roll back…").click()
    page.get_by_label("Why, for the ledger").fill("it felt wrong")
    page.get_by_role("dialog").get_by_role("button", name="Roll back").click()
    page.get_by_role("status").get_by_text("rollback").wait_for()
    page.get_by_role("cell", name="it felt wrong").wait_for()
    last = ledger(own)[-1]
    assert (last["kind"], last["policy"], last["why"], last["who"]) == (
        "rollback",
        "uniform@0",
        "it felt wrong",
        "page",
    )
    assert current(own)["current"] == "uniform@0"
    page.goto(f"{own.url}/#/")
    page.get_by_role("article", name="route").get_by_text("rolled back to uniform@0").wait_for()


def test_a_change_made_elsewhere_appears_without_a_reload(own: Served, tab: Open) -> None:
    page = tab(own, "#/ledger?task=route")
    page.get_by_text("Every change").wait_for()
    roll_back(own)
    page.get_by_role("cell", name="uniform@0").first.wait_for()


def test_the_dialog_shows_that_the_gate_refuses_an_unproven_candidate(own: Served, tab: Open) -> None:
    before = ledger(own)
    waiting = next(row["policy"] for row in reversed(before) if row["kind"] == "candidate")
    page = tab(own, "#/ledger", cookie=True)
    page.get_by_role("button", name=f"Promote {waiting}").click()
    page.get_by_role("dialog").get_by_role("button", name="Promote", exact=True).click()
    alert = page.get_by_role("dialog").get_by_role("alert")
    alert.get_by_text("gate_refused").wait_for()
    (proof,) = [
        proof
        for proof in httpx.get(f"{own.url}/v1/evidence?task=route").json()["evidence"]
        if proof["candidate"] == waiting
    ]
    assert proof["state"] in ("wait", "refused")
    assert ledger(own) == before


def test_a_canary_is_started_with_its_share_and_ended(own: Served, tab: Open) -> None:
    waiting = next(row["policy"] for row in reversed(ledger(own)) if row["kind"] == "candidate")
    page = tab(own, "#/ledger", cookie=True)
    page.get_by_role("button", name=f"Canary {waiting}").click()
    page.get_by_role("slider").fill("0.25")
    page.get_by_role("dialog").get_by_role("button", name="Start the canary").click()
    page.get_by_role("status").get_by_text("canary").wait_for()
    assert ledger(own)[-1]["detail"]["share"] == 0.25
    assert current(own)["canary"] == waiting
    page.get_by_role("button", name=f"End the canary {waiting}").click()
    page.get_by_role("dialog").get_by_role("button", name="End the canary").click()
    page.get_by_role("button", name=f"Canary {waiting}", exact=True).wait_for()
    assert current(own)["canary"] is None


def test_without_a_key_a_change_is_refused_and_the_token_unlocks_it(own: Served, tab: Open) -> None:
    before = ledger(own)
    page = tab(own, "#/ledger?task=route")
    page.get_by_role("button", name="Roll back…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("this page is not unlocked yet").wait_for()
    assert dialog.get_by_role("button", name="Roll back").count() == 0
    dialog.get_by_label("Project token").fill("hw_" + "0" * 64)
    dialog.get_by_role("button", name="Unlock").click()
    dialog.get_by_role("alert").get_by_text("not valid").wait_for()
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    assert page.evaluate("document.activeElement.textContent") == "Roll back…"
    assert ledger(own) == before

    page.get_by_role("button", name="read only · unlock").click()
    page.get_by_label("Project token").fill(own.token)
    page.get_by_role("button", name="Unlock", exact=True).click()
    page.get_by_text("unlocked", exact=True).wait_for()
    assert page.url == f"{own.url}/#/ledger?task=route"
    assert own.token not in page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie])")
    page.get_by_role("button", name="Roll back…").click()
    page.get_by_role("dialog").get_by_role("button", name="Roll back").click()
    page.get_by_role("status").get_by_text("rollback").wait_for()
    assert len(ledger(own)) == len(before) + 1


def test_a_server_that_requires_a_key_shows_nothing_without_one(past: Path, tmp_path: Path, tab: Open) -> None:
    folder = tmp_path / "desk"
    shutil.copytree(past, folder)
    with serving(folder, "--host", "0.0.0.0") as server:
        server.url = server.url.replace("0.0.0.0", "127.0.0.1")
        page = tab(server, "#/ledger")
        page.get_by_role("heading", name="This page needs a key").wait_for()
        assert "bandit@" not in page.content()
        assert httpx.get(f"{server.url}/v1/ledger").status_code == 401
        page.get_by_label("Project token").fill(server.token)
        page.get_by_role("button", name="Unlock").click()
        page.get_by_role("heading", name="Every change").wait_for()


def test_a_link_opens_the_page_once(own: Served, tab: Open) -> None:
    page = tab(own)
    link = own.link()
    page.goto(link)
    page.get_by_text("unlocked", exact=True).wait_for()
    assert httpx.get(link).status_code == 401


def test_the_background_is_told_in_sentences_once_and_a_failed_job_says_why(own: Served, tab: Open) -> None:
    failure = {"code": "disk_full", "message": "The disk is full.", "hint": "Free some space."}
    with headway.open(own.folder, environ={}) as project:
        jobs = Jobs(project.database)
        for result in ({"summary": "Learned bandit@4f2a. Too early."}, {"summary": "Learned bandit@4f2a. Too early."}):
            job = jobs.begin("cycle", {"task": "route"}, worker="w", now=project.clock(), lease_s=60)
            jobs.finish(job.job, {"task": "route", **result}, worker="w", now=project.clock())
        job = jobs.begin("cycle", {"task": "route"}, worker="w", now=project.clock(), lease_s=60)
        jobs.finish(job.job, {"task": "route", "error": failure}, worker="w", now=project.clock(), failed=True)
    page = tab(own)
    section = page.locator("section", has=page.get_by_role("heading", name="In the background"))
    section.get_by_text("The disk is full. Free some space.").wait_for()
    assert section.get_by_text("Learned bandit@4f2a. Too early.").count() == 1


def test_an_empty_project_shows_the_next_command_on_every_page(tmp_path: Path, tab: Open) -> None:
    headway.open(tmp_path / "empty", environ={}).close()
    with serving(tmp_path / "empty") as server:
        for place, command in (
            ("#/", "headway decide route"),
            ("#/decisions", "headway decide route"),
            ("#/evidence", "headway prove TASK"),
            ("#/ledger", "headway learn TASK"),
        ):
            page = tab(server, place)
            page.get_by_text(command).first.wait_for()
            assert page.get_by_text("SYNTHETIC", exact=True).count() == 0
        first = tab(server)
        first.get_by_text("waiting for the first request").wait_for()
        assert f"{server.url}/v1/decisions" in first.locator("main").inner_text(), "the example names this server"
        server.decide("route", "Hello", ["small", "large"])
        first.get_by_role("heading", name="route").wait_for()
        first.get_by_text("The first request has arrived.").wait_for()


def test_the_first_steps_of_a_declared_task_name_it_and_its_signals(tmp_path: Path, tab: Open) -> None:
    toml = '[tasks.ask]\nactions = ["small", "large"]\nreward = { solved = 1.0 }\n'
    upstream = '[upstreams.{0}]\nurl = "http://127.0.0.1:9/v1"\nmodel = "any"\n'
    (tmp_path / "headway.toml").write_text(toml + upstream.format("small") + upstream.format("large"))
    with serving(tmp_path) as server:
        page = tab(server)
        page.get_by_role("heading", name="An OpenAI client", exact=True).wait_for()
        shown = page.locator("main").inner_text()
        for part in (
            'model="headway/ask"',
            'project.decide("ask", "Hello")',
            "solved=1.0",
            '{"task":"ask","text":"Hello"}',
        ):
            assert part in shown
        assert "route" not in shown
        assert "TASK" not in shown
        server.decide("ask", "Hello")
        page.get_by_text("The first request has arrived.").wait_for()
        page.get_by_role("heading", name="An OpenAI client").wait_for(state="detached")


class _Hostile(BaseHTTPRequestHandler):
    """Another server on this host: it keeps every cookie that a browser sends, and its page tries to use ours."""

    cookies: ClassVar[list[str]] = []
    target: ClassVar[str] = ""

    def do_GET(self) -> None:
        self.cookies.append(self.headers.get("cookie", ""))
        script = (
            "const tries = [{}, {headers: {'x-headway-page': '0'.repeat(64)}}, {mode: 'no-cors'}]\n"
            f"Promise.all(tries.map(more => fetch('{self.target}/v1/keys', {{credentials: 'include', ...more}})"
            ".then(answer => answer.text(), () => 'refused'))).then(all => document.title = 'read: ' + all.join(','))"
        )
        body = f"<!doctype html><title>hostile</title><script>{script}</script>".encode()
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


def _unlocked(page: Any) -> None:
    page.get_by_text("unlocked", exact=True).wait_for()


def test_a_server_on_another_port_gets_the_cookie_and_cannot_act_as_the_page(browser: Any, tmp_path: Path) -> None:
    hostile = ThreadingHTTPServer(("127.0.0.1", 0), _Hostile)
    threading.Thread(target=hostile.serve_forever, daemon=True).start()
    context = browser.new_context()
    try:
        with serving(tmp_path) as server:
            _Hostile.target = server.url
            page = context.new_page()
            page.goto(server.link())
            _unlocked(page)
            assert "unlock=" not in page.url, "the proof leaves the address bar"
            lured = context.new_page()
            lured.goto(f"http://127.0.0.1:{hostile.server_address[1]}/")
            lured.wait_for_function("() => document.title.startsWith('read:')")
            assert lured.title() == "read: refused,refused,", "its page reads nothing of ours"
            stolen = next(cookie for cookie in _Hostile.cookies if "headway_page" in cookie)  # the browser sends it
            replay = {"cookie": stolen}
            assert "admin" not in httpx.get(f"{server.url}/v1/session", headers=replay).json()["scopes"]
            for path in ("/v1/keys", "/v1/settings"):
                assert httpx.get(server.url + path, headers=replay).status_code == 401
            assert httpx.post(f"{server.url}/v1/links", json={}, headers=replay).status_code == 401
            page.reload()
            _unlocked(page)
            second = context.new_page()  # another tab of the same browser
            second.goto(f"{server.url}/#/ledger")
            _unlocked(second)
            assert second.url.endswith("/#/ledger")
        with serving(tmp_path, "--port", server.url.rpartition(":")[2]):
            page.reload()
            _unlocked(page)  # also after a restart
    finally:
        context.close()
        hostile.shutdown()
        hostile.server_close()
