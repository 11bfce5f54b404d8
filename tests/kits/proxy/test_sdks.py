"""The official SDKs, unchanged, against a real server and a real upstream."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import os
import pwd
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from pydantic import BaseModel

from tests.kits.proxy.conftest import Proxy, settings
from tests.kits.proxy.upstream import USAGE, WORDS, Upstream

if TYPE_CHECKING:  # importing the SDKs takes seconds, and every worker collects every file
    import anthropic
    import openai

HERE = Path(__file__).parent
TEXT = "".join(WORDS)
ASK: list[Any] = [{"role": "user", "content": "Good morning"}]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, running_upstream: Upstream) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("sdks")
    more = "\n".join(
        f'[upstreams.{name}]\nurl = "{running_upstream.url(how)}"\nmodel = "m"\n[tasks.{name}]\nactions = ["{name}"]\n'
        for name, how in (("broken", "error-later"), ("endless", "forever"), ("down", "status-500"), ("mute", "silent"))
    )
    (folder / "headway.toml").write_text(settings(running_upstream, {"small": "ok", "large": "ok"}, more=more))
    running = Proxy(folder, {})
    yield running
    errors = running.stop()
    assert "Traceback" not in errors, errors


@pytest.fixture
def client(server: Proxy) -> Iterator[openai.OpenAI]:
    import openai

    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="-", max_retries=0) as opened:
        yield opened


@pytest.fixture
def claude(server: Proxy) -> Iterator[anthropic.Anthropic]:
    import anthropic

    with anthropic.Anthropic(base_url=server.url, api_key="-", max_retries=0) as opened:
        yield opened


# -- openai


def test_openai_chat(server: Proxy, client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="headway/route", messages=ASK)
    assert answer.choices[0].message.content == TEXT
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == USAGE
    assert answer.model_extra is not None
    assert answer.model_extra["headway"]["decision"] == answer.id
    assert server.decision(answer.id).situation.text == "Good morning"
    assert answer._request_id == "req_17"


def test_openai_chat_streamed(server: Proxy, client: openai.OpenAI) -> None:
    with client.chat.completions.create(model="headway/route", messages=ASK, stream=True) as stream:
        chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == TEXT
    (identifier,) = {chunk.id for chunk in chunks}
    assert server.signals(identifier)["completion_tokens"] == USAGE[1]
    with client.chat.completions.stream(
        model="headway/route", messages=ASK, stream_options={"include_usage": True}
    ) as helper:
        final = helper.get_final_completion()
    assert final.choices[0].message.content == TEXT
    assert final.usage is not None
    assert final.usage.completion_tokens == USAGE[1]


class Answer(BaseModel):
    answer: int


def test_openai_tools_and_structured_output(client: openai.OpenAI, upstream: Upstream) -> None:
    tool: Any = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    answer = client.chat.completions.create(model="headway/route", messages=ASK, tools=[tool])
    assert answer.choices[0].message.tool_calls is not None
    assert answer.choices[0].message.tool_calls[0].id == "call_1"
    assert upstream.received[0].json["tools"] == [tool]
    parsed = client.chat.completions.parse(model="headway/route", messages=ASK, response_format=Answer)
    assert parsed.choices[0].message.parsed == Answer(answer=42)


def test_openai_extras_go_in_by_extra_body_and_header(server: Proxy, client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model="headway/route",
        messages=ASK,
        extra_body={"headway": {"role": "coder", "state": {"task_complexity_score": 0.9}}},
        extra_headers={"x-headway-episode": "run-1"},
    )
    situation = server.decision(answer.id).situation
    assert (situation.role, situation.episode, situation.state["task_complexity_score"]) == ("coder", "run-1", 0.9)


def test_openai_responses(server: Proxy, client: openai.OpenAI) -> None:
    answer = client.responses.create(model="headway/route", input="Good morning")
    assert answer.output_text == TEXT
    again = client.responses.create(model="headway/route", input="Go on", previous_response_id=answer.id)
    assert server.decision(again.id).action == server.decision(answer.id).action
    assert again.previous_response_id == answer.id
    with client.responses.stream(model="headway/route", input="Good morning") as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert kinds[-1] == "response.completed"
    assert final.output_text == TEXT
    assert server.signals(final.id)["prompt_tokens"] == USAGE[0]


def test_openai_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()][:3] == ["headway/route", "headway/broken", "headway/endless"]
    assert client.models.retrieve("headway/route").owned_by == "headway"


def test_openai_errors(server: Proxy, client: openai.OpenAI) -> None:
    import openai

    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="headway/nothing", messages=ASK)
    assert missing.value.code == "unknown_task"
    with pytest.raises(openai.InternalServerError) as down:
        client.chat.completions.create(model="headway/down", messages=ASK)
    assert (down.value.status_code, down.value.type) == (502, "api_error")
    assert server.outcome(down.value.response.headers["x-headway-decision"]) == "failed"
    with (
        client.chat.completions.create(model="headway/broken", messages=ASK, stream=True) as stream,
        pytest.raises(openai.APIError) as broken,
    ):
        list(stream)
    assert broken.value.code == "upstream_error"
    with (
        client.responses.create(model="headway/broken", input="hi", stream=True) as events,
        pytest.raises(openai.APIError),
    ):
        list(events)


def test_an_async_openai_client_disconnects_in_the_middle(server: Proxy, upstream: Upstream) -> None:
    import openai

    async def leave() -> None:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="-") as client:
            stream = await client.chat.completions.create(model="headway/endless", messages=ASK, stream=True)
            async for _ in stream:
                break
            await stream.close()

    asyncio.run(leave())
    assert upstream.gone.wait(10)


def test_a_client_that_does_not_wait_for_the_answer_ends_the_call(server: Proxy, upstream: Upstream) -> None:
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{server.url}/v1/chat/completions", json={"model": "headway/mute", "messages": ASK}, timeout=0.5)
    assert upstream.gone.wait(10)


def test_openai_under_an_episodes_url(server: Proxy) -> None:
    import openai

    with openai.OpenAI(base_url=f"{server.url}/e/run-9/v1", api_key="-") as client:
        answer = client.chat.completions.create(model="headway/route", messages=ASK)
        assert client.models.list().data
    assert server.decision(answer.id).situation.episode == "run-9"


# -- anthropic


def test_anthropic_messages(server: Proxy, claude: anthropic.Anthropic, upstream: Upstream) -> None:
    answer = claude.messages.create(model="headway/route", max_tokens=50, system="Be kind", messages=ASK)
    assert answer.content[0].type == "text"
    assert answer.content[0].text == TEXT
    assert server.decision(answer.id).situation.text == "Good morning"
    assert server.signals(answer.id)["prompt_tokens"] == USAGE[0]
    assert upstream.received[0].headers["anthropic-version"]
    beta = claude.beta.messages.create(model="headway/route", max_tokens=50, messages=ASK, betas=["x-2099"])
    assert server.decision(beta.id).action in ("small", "large")
    assert upstream.received[1].headers["anthropic-beta"] == "x-2099"


def test_anthropic_streamed(server: Proxy, claude: anthropic.Anthropic) -> None:
    with claude.messages.stream(model="headway/route", max_tokens=50, messages=ASK) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == TEXT
    assert final.usage.output_tokens == USAGE[1]
    assert server.signals(final.id)["completion_tokens"] == USAGE[1]


def test_anthropic_models_errors_and_episodes(server: Proxy, claude: anthropic.Anthropic) -> None:
    import anthropic

    assert next(model.id for model in claude.models.list()) == "headway/route"
    with pytest.raises(anthropic.NotFoundError) as missing:
        claude.messages.create(model="headway/nothing", max_tokens=5, messages=ASK)
    assert "unknown_task" in str(missing.value)
    with pytest.raises(anthropic.APIStatusError):
        claude.messages.create(model="headway/down", max_tokens=5, messages=ASK)
    with (
        pytest.raises(anthropic.APIStatusError),
        claude.messages.stream(model="headway/broken", max_tokens=5, messages=ASK) as stream,
    ):
        stream.get_final_message()
    with anthropic.Anthropic(base_url=f"{server.url}/e/run-8", api_key="-") as scoped:
        answer = scoped.messages.create(model="headway/route", max_tokens=5, messages=ASK)
    assert server.decision(answer.id).situation.episode == "run-8"


# -- openai in Node


@pytest.fixture(scope="session")
def node_folder(request: pytest.FixtureRequest, need_tool: Callable[..., str]) -> Path:
    """The SDK as package-lock.json pins it, installed once into pytest's cache. Needs the npm registry."""
    npm = need_tool("npm", package="npm")
    digest = hashlib.sha256((HERE / "node" / "package-lock.json").read_bytes()).hexdigest()[:16]
    assert request.config.cache is not None
    folder = request.config.cache.mkdir(f"headway-node-{digest}")
    with (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            for name in ("package.json", "package-lock.json"):
                shutil.copy(HERE / "node" / name, folder)
            home = Path(pwd.getpwuid(os.getuid()).pw_dir)  # npm's settings are in the real HOME
            done = subprocess.run(
                [npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"],
                cwd=folder,
                env={**os.environ, "NPM_CONFIG_USERCONFIG": str(home / ".npmrc")},
                capture_output=True,
                text=True,
                check=False,
                timeout=100,
            )
            if done.returncode != 0:
                reason = f"npm ci failed: {done.stderr.strip()[-300:]}"
                if os.environ.get("CI"):
                    pytest.fail(f"{reason}, and CI is set", pytrace=False)
                pytest.skip(reason)
            (folder / "done").touch()
    shutil.copy(HERE / "node" / "talk.mjs", folder)
    return folder


def test_openai_in_node(server: Proxy, upstream: Upstream, node_folder: Path, need_tool: Callable[..., str]) -> None:
    done = subprocess.run(
        [need_tool("node", package="nodejs"), "talk.mjs", server.url],
        cwd=node_folder,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["chat"]["text"] == seen["stream"]["text"] == seen["runner"] == seen["response"]["text"] == TEXT
    assert server.decision(seen["chat"]["id"]).action == seen["chat"]["upstream"]
    (identifier,) = seen["stream"]["ids"]
    assert server.signals(identifier)["completion_tokens"] == USAGE[1]
    assert seen["tool"] == {"name": "look", "arguments": '{"at":"sky"}'}
    assert seen["again"]["previous"] == seen["response"]["id"]
    assert seen["responseStream"]["text"] == TEXT
    assert seen["responseStream"]["last"] == "response.completed"
    assert server.decision(seen["responseStream"]["id"]).task == "route"
    assert seen["models"][0] == "headway/route"
    assert seen["error"] == {"kind": "NotFoundError", "status": 404, "code": "unknown_task", "type": "not_found_error"}
    assert seen["broken"]["code"] == "upstream_error"
    assert upstream.gone.wait(10)
