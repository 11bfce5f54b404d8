"""headway-litellm with LiteLLM's own router and two providers, one of which fails every fifth call.

LiteLLM runs in a process of its own. LITELLM_PYTHON names another Python whose LiteLLM is to be tested.
"""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import headway
from tests.packages import installed
from tests.serve.conftest import Running, served

__all__ = ["served"]

INTEGRATION = Path(__file__).parents[2] / "integrations" / "headway-litellm"
TRAFFIC = Path(__file__).with_name("litellm_traffic.py")
TOML = """
[tasks.route]
actions = ["openai/small", "openai/large"]
reward = { solved = 1.0 }
required = ["solved"]
on_failure = 0.0
range = [0.0, 1.0]
explore = "none"
floor = 0.4
"""
USAGE = (20, 10)


@pytest.fixture
def python() -> str:
    named = os.environ.get("LITELLM_PYTHON")
    if named is None:
        installed("litellm")
    return named or sys.executable


class Provider:
    """An OpenAI-compatible server that remembers what it was asked."""

    def __init__(self, name: str, failing: float) -> None:
        # number of the request → the model, and whether it answered, each time
        self.asked: dict[int, list[tuple[str, bool]]] = defaultdict(list)
        self.failing = failing
        draw = Random(name)
        provider = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                number = int(body["messages"][-1]["content"].split()[-1])
                answers, model = draw.random() >= provider.failing, body["model"]
                provider.asked[number].append((model, answers))
                reply: dict[str, Any] = {"error": {"message": "overloaded", "type": "server_error"}}
                if answers:
                    message = {"role": "assistant", "content": model}
                    usage = dict(zip(("prompt_tokens", "completion_tokens"), USAGE, strict=True))
                    reply = {
                        "id": f"chatcmpl-{model}-{number}", "object": "chat.completion", "created": 1, "model": model,
                        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                        "usage": {**usage, "total_tokens": sum(USAGE)},
                    }  # fmt: skip
                data = json.dumps(reply).encode()
                self.send_response(200 if answers else 500)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        self._thread = threading.Thread(target=self.server.serve_forever)
        self._thread.start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()


@pytest.fixture
def providers() -> Iterator[dict[str, Provider]]:
    made = {"small": Provider("small", 0.0), "large": Provider("large", 0.2)}
    yield made
    for provider in made.values():
        provider.stop()


def traffic(python: str, url: str, count: int, providers: dict[str, Provider]) -> list[dict[str, Any]]:
    """The answered requests, after those without Headway were checked."""
    paths = {**os.environ, "PYTHONPATH": str(INTEGRATION / "src"), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    done = subprocess.run(
        [python, TRAFFIC, url, str(count), providers["small"].url, providers["large"].url],
        capture_output=True,
        text=True,
        timeout=800,
        env=paths,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    *rows, last = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    print("litellm", last["litellm"])
    assert last["up"] == []
    (warning,) = last["down"]
    assert "does not answer at http://127.0.0.1:1" in warning
    alone = [row for row in rows if row["number"] < 0]
    assert len(alone) == 30
    assert all(row["decision"] is None and row["served"] for row in alone), "LiteLLM goes on without Headway"
    asked = [row for row in rows if row["number"] >= 0]
    assert len(asked) == count
    return asked


def check(project: headway.Project, rows: list[dict[str, Any]], providers: dict[str, Provider]) -> tuple[int, int]:
    """Every request as it was; how many had several attempts, and how many of these fell back to another group."""
    price = {"small": 1e-6, "large": 1e-5, "spare": 3e-6}
    several = spared = 0
    decisions = {one.id: one for one in project.query.latest("route", 2 * len(rows))}
    assert len(decisions) == len(rows)
    for row in rows:
        decision = decisions[row["decision"]]
        latest = {one.name: one for one in sorted(project.query.signals(decision.id), key=lambda one: one.seq)}
        signals = {name: one for name, one in latest.items() if one.value is not None}
        assert project.outcome(decision.id).status == "rewarded"
        asked = [call for provider in providers.values() for call in provider.asked[row["number"]]]
        chosen, served = decision.action.removeprefix("openai/"), row["served"]
        assert decision.situation.text.endswith(f" {row['number']}")
        assert decision.propensity == pytest.approx(0.5)
        assert chosen in [model for model, _ in asked], "the drawn model was asked"
        assert [model for model, answered in asked if answered] == [served], "one answered, the served one"
        if len(asked) == 1:
            assert served == chosen
        elif row["number"] % 3 == 0:
            assert served == "spare"
            spared += 1
        else:
            assert {chosen, served} == {"small", "large"}
        several += len(asked) > 1
        assert signals["served"].label == f"openai/{served}"
        assert signals["attempts"].value == len(asked)
        assert signals["cost_usd"].value == pytest.approx(sum(USAGE) * price[served])
        assert "failed" not in signals
        assert signals["solved"].value == float((served == "large") == decision.situation.text.startswith("hard"))
    return several, spared


@pytest.mark.timeout(300)
def test_requests_are_stored_with_the_model_that_answered_and_go_on_without_headway(
    served: Callable[..., Running], python: str, providers: dict[str, Provider]
) -> None:
    running = served(TOML)
    providers["large"].failing = 0.5
    rows = traffic(python, running.url, 40, providers)
    running.stop()
    with headway.open(running.folder, environ={}) as project:
        several, _ = check(project, rows, providers)
    assert several, "a quarter of 40 requests"


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_every_request_is_stored_as_it_was_and_a_better_policy_is_promoted(
    served: Callable[..., Running], python: str, providers: dict[str, Provider]
) -> None:
    running = served(TOML)
    count = 900
    rows = traffic(python, running.url, count, providers)
    running.stop()
    with headway.open(running.folder, environ={}) as project:
        several, spared = check(project, rows, providers)
        assert 0.03 * count <= several <= 0.19 * count, "a fifth of the half that drew large"
        assert 0.1 * several <= spared <= 0.7 * several
        candidate = project.learn("route")
        evidence = project.prove(candidate, against="current")
        assert evidence.passed, evidence.reasons
        project.promote(candidate, because=evidence, at_once=True)
        assert project.current("route").ref == candidate
