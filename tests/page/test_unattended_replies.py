"""`headway up` with a reply task, and nothing else: rated in the page, trained in the background, judged, seen live."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from headway.kits.reply.wire import socket_of
from tests.loop.running import Up, until, up
from tests.page.conftest import Open
from tests.page.test_replies import rows, send, until_rateable
from tests.page.test_views import ready

torch = pytest.importorskip("torch")

RATINGS = 30
TOML = """\
[tasks.reply]
kind = "reply"
base = "{model}"
max_tokens = 12
promote = "auto"
final_after_s = 0
retrain_after = {ratings}
learn = {{ device = "cpu", rank = 4, alpha = 8.0, epochs = 1, anchors = 1 }}

[watch]
interval_s = 1
free_memory_mb = 0

[server]
port = 0
"""


class Address(NamedTuple):
    """What `tab` needs of a server."""

    url: str
    folder: Path


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_thirty_ratings_in_the_page_are_trained_judged_and_decided_without_a_command(tmp_path: Path, tab: Open) -> None:
    from tests.kits.reply.tiny import make

    model = make(tmp_path / "model", "llama", window=1024)
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "headway.toml").write_text(TOML.format(model=model, ratings=RATINGS), "utf-8")
    with up(folder) as running:
        running.ready()
        until(socket_of(folder).exists, "the worker")
        server = Address(running.url, folder)
        page = tab(server, "#/chat/reply")
        page.set_default_timeout(60_000)
        ready(page)
        for place in range(RATINGS):
            send(page, f"Tell me about number {place}.")
            until_rateable(page, 1)
            page.keyboard.press("5" if place % 2 else "1")
            page.get_by_role("button", name="New conversation").click()
        assert sum(row["rated"] for row in until(lambda: _rated(server), "30 ratings")) == RATINGS

        watching = page.context.new_page()  # opened once, and never reloaded
        watching.goto(f"{server.url}/#/tasks/reply")
        watching.get_by_role("heading", name="Story").wait_for()
        watching.get_by_text("was learned").first.wait_for(timeout=300_000)
        candidate = until(lambda: _task(server)["candidates"], "a candidate")[0]
        verdict = _refusal(running)
        if verdict is None:
            _vote_for(page, server, candidate)
            watching.get_by_text(f"decided by {candidate}").wait_for(timeout=120_000)
            story = httpx.get(f"{server.url}/v1/tasks/reply/story").json()["events"]
            (promoted,) = [event for event in story if event["kind"] == "promoted"]
            assert promoted["policy"] == candidate
            watching.get_by_text(promoted["text"]).first.wait_for()
            page.goto(f"{server.url}/#/chat/reply")
            send(page, "Who answers now?")
            until_rateable(page, 1)
            assert rows(server)[-1]["policy"] == candidate  # type: ignore[arg-type]  # it has a url
        else:
            assert verdict["reasons"]
            page.goto(f"{server.url}/#/evidence/{verdict['id']}")
            page.get_by_text(verdict["reasons"][0]).first.wait_for()
            assert _task(server)["current"] == "base@0"


def _task(server: Address) -> dict[str, Any]:
    answer: dict[str, Any] = httpx.get(f"{server.url}/v1/tasks/reply").json()
    return answer


def _rated(server: Address) -> list[dict[str, Any]]:
    found = rows(server)  # type: ignore[arg-type]  # it has a url
    return found if sum(row["rated"] for row in found) == RATINGS else []


def _refusal(running: Up) -> dict[str, Any] | None:
    """The verdict that refuses the candidate by its checks; None: it passed them, and votes decide."""

    def judged() -> list[dict[str, Any] | None]:
        evidence = running.ask("GET", "/v1/evidence?task=reply")[1]["evidence"]
        if evidence:
            return [running.ask("GET", f"/v1/evidence/{evidence[0]['id']}/verdict")[1]]
        return [None] if "Nobody has compared" in running.printed() else []

    (verdict,) = until(judged, "a judgement")
    return verdict


def _vote_for(page: Any, server: Address, candidate: str) -> None:
    """Blind votes until the gate's threshold. This user prefers the candidate; only the server's file knows it."""
    page.goto(f"{server.url}/#/compare/reply")
    page.get_by_role("button", name="Show a pair").click()
    while True:
        page.get_by_role("article", name="Left reply").wait_for()
        question = page.locator(".question").inner_text()
        pairs = [json.loads(file.read_text()) for file in (server.folder / ".headway/work/duels").glob("*.json")]
        (first,) = {pair["action"] for pair in pairs if pair["situation"]["text"] == question}
        page.keyboard.press("ArrowLeft" if first == candidate else "ArrowRight")
        page.get_by_text("Your vote is stored.").wait_for()
        votes = httpx.get(f"{server.url}/v1/tasks/reply/votes?policy={candidate}&against=base@0").json()
        if votes["e_value"] >= votes["passes_at"]:
            return
        page.keyboard.press("n")
        page.get_by_text("Your vote is stored.").wait_for(state="detached")
