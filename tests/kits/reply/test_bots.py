"""The bots of examples/: their libraries' real events come in, a real server answers, and reactions become thumbs."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest

import headway
from headway.kits.reply.kept import kept_reply
from headway.nouns import ids
from tests.conftest import ROOT
from tests.kits.reply.test_answer import TOML
from tests.kits.reply.test_worker import working
from tests.kits.reply.tiny import make
from tests.serve.conftest import Running

BOTS = ("discord_bot", "slack_bot")
BOT = {"id": "1", "username": "bot", "discriminator": "0", "avatar": None, "bot": True, "global_name": None}
ANN = {"id": "2", "username": "ann", "discriminator": "0", "avatar": None, "global_name": None}


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_bot_is_short() -> None:
    for name in BOTS:
        assert len((ROOT / "examples" / f"{name}.py").read_text("utf-8").splitlines()) <= 80


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    model = make(tmp_path_factory.mktemp("model"), "llama", endless=True)
    folder = tmp_path_factory.mktemp("project")
    (folder / "headway.toml").write_text(TOML.format(model=model))
    with working(folder):
        yield folder


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Running]:
    running = Running(folder)
    yield running
    errors = running.stop()
    assert "Traceback" not in errors, errors


@pytest.fixture
def _the_worker_stays(served: Running) -> None:
    """Starts worker and server before the check for leaked processes takes its first snapshot."""


def thumb(folder: Path, decision: str) -> float | None:
    with headway.open(folder) as project:
        return project.query.values([ids.raw(decision)]).get(ids.raw(decision), {}).get("thumb")


def wait_for(look: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.02)


class FakeDiscord:
    """What Discord's HTTP interface answers; the library's own code parses it."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.reactions: dict[str, int] = {}

    async def request(self, route: Any, **given: Any) -> Any:
        if route.method == "POST" and route.path.endswith("/messages"):
            body = given.get("json") or json.loads(given["form"][0]["value"])
            self.sent.append(body)
            return self.message(100 + len(self.sent), body["content"])
        if route.method == "GET" and route.path.endswith("/{message_id}"):
            return self.message(100 + len(self.sent), self.sent[-1]["content"])
        return None  # typing

    def message(self, number: int, content: str, author: dict[str, Any] = BOT) -> dict[str, Any]:
        emojis = [
            {"emoji": {"id": None, "name": name}, "count": count, "me": False, "me_burst": False, "burst_colors": [],
             "count_details": {"normal": count, "burst": 0}}
            for name, count in self.reactions.items()
        ]  # fmt: skip
        return {
            "id": str(number), "channel_id": "50", "author": author, "content": content, "reactions": emojis,
            "timestamp": "2030-01-01T00:00:00+00:00", "edited_timestamp": None, "tts": False, "pinned": False,
            "mention_everyone": False, "mentions": [], "mention_roles": [], "attachments": [], "embeds": [],
            "type": 0, "components": [],
        }  # fmt: skip


@pytest.mark.slow
@pytest.mark.usefixtures("_the_worker_stays")
def test_a_reaction_on_discord_is_a_thumb_and_its_removal_withdraws_it(served: Running, folder: Path) -> None:
    discord = pytest.importorskip("discord")
    fake = FakeDiscord()

    async def play() -> None:
        bot = load("discord_bot").ReplyBot(served.url)
        async with bot:
            state = bot._connection
            state.user = discord.ClientUser(state=state, data=BOT)
            bot.http.request = fake.request
            state.parse_message_create(fake.message(10, "Hello", ANN))
            await until(lambda: len(fake.sent) == 1)
            decision = fake.sent[0]["content"].rpartition("-# ")[2]
            with headway.open(folder) as project:
                assert fake.sent[0]["content"].startswith(kept_reply(project, decision).text[:1900] or "…")
                assert project.query.decision(decision).situation.episode is not None
            event = {"user_id": "2", "channel_id": "50", "message_id": "101", "type": 0, "burst": False,
                     "emoji": {"id": None, "name": "👍"}}  # fmt: skip
            fake.reactions = {"👍": 1}
            state.parse_message_reaction_add(event)
            await until(lambda: thumb(folder, decision) == 1.0)
            fake.reactions = {"👍": 1, "👎": 2}
            state.parse_message_reaction_add(event | {"emoji": {"id": None, "name": "👎"}})
            await until(lambda: thumb(folder, decision) == -1.0)
            fake.reactions = {}
            state.parse_message_reaction_remove(event)
            await until(lambda: thumb(folder, decision) is None)
            state.parse_message_create(fake.message(11, "I am a bot, too", BOT | {"id": "3"}))
            await asyncio.sleep(0)
        assert len(fake.sent) == 1, "bots are not answered"

    async def until(look: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not look():
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)

    asyncio.run(play())


class FakeSlack(BaseHTTPRequestHandler):
    """Slack's web API, as far as the bot calls it."""

    posted: list[dict[str, Any]]
    reactions: list[dict[str, Any]]

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["content-length"] or 0)).decode()
        form = json.loads(raw) if "json" in (self.headers["content-type"] or "") else parse_qs(raw)
        given = {
            name: value[0] if isinstance(value, list) and len(value) == 1 else value for name, value in form.items()
        }
        if self.path == "/auth.test":
            answer: dict[str, Any] = {
                "ok": True,
                "team_id": "T1",
                "user_id": "U1",
                "bot_id": "B1",
                "url": "x",
                "user": "b",
            }
        elif self.path == "/chat.postMessage":
            if isinstance(given["blocks"], str):
                given["blocks"] = json.loads(given["blocks"])
            elif isinstance(given["blocks"], dict):
                given["blocks"] = [given["blocks"]]
            self.posted.append(given)
            answer = {"ok": True, "ts": "2.0", "channel": given["channel"]}
        else:
            assert self.path.startswith("/reactions.get")
            message = {"bot_id": "B1", "blocks": self.posted[-1]["blocks"], "reactions": self.reactions}
            answer = {"ok": True, "type": "message", "message": message}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST  # noqa: N815 — the name that http.server looks for

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def slack(_the_worker_stays: None) -> Iterator[tuple[type[FakeSlack], str]]:
    handler = type("Handler", (FakeSlack,), {"posted": [], "reactions": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield handler, f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.slow
def test_a_reaction_on_slack_is_a_thumb_and_its_removal_withdraws_it(
    served: Running, folder: Path, slack: tuple[type[FakeSlack], str]
) -> None:
    bolt = pytest.importorskip("slack_bolt")
    from slack_sdk import WebClient

    fake, url = slack
    app = bolt.App(token="xoxb-1", client=WebClient(token="xoxb-1", base_url=url), token_verification_enabled=False)
    client = httpx.Client(base_url=served.url, timeout=120)
    load("slack_bot").make(app, client)

    def happen(event: dict[str, Any]) -> None:
        body = {"type": "event_callback", "team_id": "T1", "api_app_id": "A1", "event_id": "E1", "event": event}
        answer = app.dispatch(bolt.BoltRequest(body=json.dumps(body), mode="socket_mode"))
        assert answer.status == 200

    happen({"type": "app_mention", "user": "U2", "text": "<@U1> Hello", "ts": "1.0", "channel": "C1"})
    wait_for(lambda: len(fake.posted) == 1)
    (block,) = fake.posted[0]["blocks"]
    decision = block["block_id"]
    assert fake.posted[0]["thread_ts"] == "1.0"
    with headway.open(folder) as project:
        assert kept_reply(project, decision).turns[-1].content == "Hello"
    about = {"user": "U2", "reaction": "+1", "item": {"type": "message", "channel": "C1", "ts": "2.0"}}
    fake.reactions = [{"name": "+1", "count": 1, "users": ["U2"]}, {"name": "+1::skin-tone-2", "count": 1}]
    happen({"type": "reaction_added", **about})
    wait_for(lambda: thumb(folder, decision) == 1.0)
    fake.reactions = [{"name": "-1", "count": 3}, {"name": "tada", "count": 9}]
    happen({"type": "reaction_added", **about, "reaction": "-1"})
    wait_for(lambda: thumb(folder, decision) == -1.0)
    fake.reactions = []
    happen({"type": "reaction_removed", **about})
    wait_for(lambda: thumb(folder, decision) is None)
    happen({"type": "message", "channel_type": "im", "user": "U2", "text": "Again", "ts": "3.0", "channel": "D1"})
    wait_for(lambda: len(fake.posted) == 2)
    assert fake.posted[1]["channel"] == "D1"
    app.listener_runner.listener_executor.shutdown()
    client.close()
