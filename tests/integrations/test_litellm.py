"""headway-litellm with LiteLLM's own router and two providers, one of which fails every fifth call.

LiteLLM needs another version of the openai package than ours: the tests make an environment of its own for it, or use
the one whose Python LITELLM_PYTHON names.
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
from tests.serve.conftest import Running, served

__all__ = ["served"]

INTEGRATION = Path(__file__).parents[2] / "integrations" / "headway-litellm"
TRAFFIC = Path(__file__).with_name("litellm_traffic.py")
LITELLM = "litellm==1.106.2"
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


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    named = os.environ.get("LITELLM_PYTHON")
    if named:
        return named
    folder = tmp_path_factory.mktemp("litellm")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    made = str(folder / "bin" / "python")
    if subprocess.run([made, "-m", "pip", "install", "-q", LITELLM], capture_output=True).returncode:
        pytest.skip(f"{LITELLM} cannot be installed")
    return made


class Provider:
    """An OpenAI-compatible server that remembers what it was asked."""

    def __init__(self, name: str, failing: float) -> None:
        self.asked: dict[int, list[bool]] = defaultdict(list)  # number of the request → whether it answered, each time
        self.failing = failing
        draw = Random(name)
        provider = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                number = int(body["messages"][-1]["content"].split()[-1])
                answers = draw.random() >= provider.failing
                provider.asked[number].append(answers)
                reply: dict[str, Any] = {"error": {"message": "overloaded", "type": "server_error"}}
                if answers:
                    message = {"role": "assistant", "content": name}
                    usage = dict(zip(("prompt_tokens", "completion_tokens"), USAGE, strict=True))
                    reply = {
                        "id": f"chatcmpl-{name}-{number}", "object": "chat.completion", "created": 1, "model": name,
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


def traffic(
    python: str, url: str, count: int, providers: dict[str, Provider]
) -> tuple[list[dict[str, Any]], list[str]]:
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
    assert len(rows) == count
    return rows, last["warnings"]


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_every_request_is_stored_as_it_was_and_a_better_policy_is_promoted(
    served: Callable[..., Running], python: str, providers: dict[str, Provider]
) -> None:
    running = served(TOML)
    count = 700
    rows, warnings = traffic(python, running.url, count, providers)
    assert warnings == []
    running.stop()
    price = {"small": 1e-6, "large": 1e-5}
    retried = 0
    with headway.open(running.folder, environ={}) as project:
        decisions = {one.id: one for one in project.query.latest("route", 2 * count)}
        assert len(decisions) == count
        for row in rows:
            decision = decisions[row["decision"]]
            latest = {one.name: one for one in sorted(project.query.signals(decision.id), key=lambda one: one.seq)}
            signals = {name: one for name, one in latest.items() if one.value is not None}
            assert project.outcome(decision.id).status == "rewarded"
            asked = {name: provider.asked[row["number"]] for name, provider in providers.items()}
            chosen = decision.action.removeprefix("openai/")
            assert decision.situation.text.endswith(f" {row['number']}")
            assert decision.propensity == pytest.approx(0.5)
            assert asked[chosen], "the drawn model was asked"
            assert asked[row["served"]][-1], "the served model answered"
            if asked[chosen][0]:
                assert row["served"] == chosen
            assert signals["served"].label == f"openai/{row['served']}"
            attempts = sum(map(len, asked.values()))
            assert signals["attempts"].value == attempts
            assert signals["cost_usd"].value == pytest.approx(sum(USAGE) * price[row["served"]])
            assert "failed" not in signals
            right = float((row["served"] == "large") == decision.situation.text.startswith("hard"))
            assert signals["solved"].value == right
            retried += attempts > 1
        assert 0.03 * count <= retried <= 0.19 * count, "a fifth of the half that drew large"
        candidate = project.learn("route")
        evidence = project.prove(candidate, against="current")
        assert evidence.passed, evidence.reasons
        project.promote(candidate, because=evidence, at_once=True)
        assert project.current("route").ref == candidate


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_litellm_goes_on_without_headway_and_says_so_once(python: str, providers: dict[str, Provider]) -> None:
    providers["large"].failing = 0.0  # LiteLLM's own choice may send all attempts of a request to one that fails
    rows, warnings = traffic(python, "http://127.0.0.1:1", 30, providers)
    assert all("error" not in row and row["decision"] is None for row in rows)
    (warning,) = warnings
    assert "does not answer at http://127.0.0.1:1" in warning
