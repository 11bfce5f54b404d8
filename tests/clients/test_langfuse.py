"""examples/langfuse_prompts.py with Langfuse's own SDK, and a small server that answers it as Langfuse does."""

from __future__ import annotations

import gzip
import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

import headway
from tests.conftest import ROOT
from tests.kits.proxy.upstream import WORDS, Upstream
from tests.packages import installed
from tests.serve.conftest import Running

EXAMPLE = ROOT / "examples" / "langfuse_prompts.py"
TOML = """
[tasks.greeting]
actions = ["short", "warm"]
reward = { helpful = 1.0 }
range = [0.0, 1.0]
"""


class Langfuse:
    """Prompts by label, and whatever is sent."""

    def __init__(self) -> None:
        self.labels: list[str] = []
        self.traces: list[bytes] = []
        self.sent: list[dict[str, Any]] = []  # scores
        self.given: list[dict[str, Any]] = []  # scores of people
        self.asked: list[dict[str, list[str]]] = []  # for scores
        langfuse = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                place = urlsplit(self.path)
                asked = parse_qs(place.query)
                if place.path == "/api/public/v2/prompts/greeting":
                    (label,) = asked["label"]
                    langfuse.labels.append(label)
                    self.answer(
                        {
                            "type": "text", "name": "greeting", "version": 1, "config": {}, "labels": [label],
                            "tags": [], "prompt": f"A {label} greeting, please: {{{{question}}}}",
                        }
                    )  # fmt: skip
                elif place.path == "/api/public/v3/scores":
                    langfuse.asked.append(asked)
                    first = "cursor" not in asked
                    page = langfuse.given[:1] if first else langfuse.given[1:]
                    more = {"cursor": "next"} if first and langfuse.given[1:] else {}
                    self.answer({"data": page, "meta": {"limit": 100, **more}})
                else:
                    self.answer({"message": f"{self.path}?"}, 404)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.path == "/api/public/otel/v1/traces":
                    zipped = self.headers["content-encoding"] == "gzip"
                    langfuse.traces.append(gzip.decompress(body) if zipped else body)
                    self.answer({})
                elif self.path == "/api/public/scores":
                    rows = json.loads(body)
                    rows = rows.get("batch", rows) if isinstance(rows, dict) else rows
                    langfuse.sent += rows
                    self.answer({"message": "Accepted"}, 202)
                else:
                    self.answer({"message": f"{self.path}?"}, 404)

            def answer(self, document: Any, status: int = 200) -> None:
                data = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def score(self, number: int, name: str, value: float, **subject: str) -> None:
        """Somebody scores a trace in Langfuse."""
        at = "2026-11-19T08:00:00Z"
        self.given.append(
            {
                "id": f"score-{number}", "projectId": "p", "name": name, "value": value, "dataType": "NUMERIC",
                "source": "ANNOTATION", "timestamp": at, "createdAt": at, "updatedAt": at, "environment": "default",
                "subject": subject,
            }
        )  # fmt: skip

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def langfuse() -> Iterator[Langfuse]:
    running = Langfuse()
    yield running
    running.stop()


@pytest.mark.timeout(300)
def test_prompt_labels_are_chosen_and_scores_come_back(tmp_path: Path, langfuse: Langfuse) -> None:
    installed("langfuse")
    (tmp_path / "headway.toml").write_text(TOML)
    running, upstream = Running(tmp_path), Upstream()

    def run(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-P", EXAMPLE, *words],
            cwd=tmp_path,
            env={
                **os.environ, "HEADWAY_URL": running.url, "OPENAI_BASE_URL": upstream.url(), "OPENAI_API_KEY": "-",
                "LANGFUSE_BASE_URL": langfuse.url, "LANGFUSE_PUBLIC_KEY": "pk", "LANGFUSE_SECRET_KEY": "sk",
            },
            capture_output=True,
            text=True,
            encoding="utf-8",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    try:
        assert "".join(WORDS) in run("ask", "It is 8 o'clock")
        with headway.open(tmp_path, environ={}) as project:
            (decision,) = project.query.decisions("greeting")
        assert langfuse.labels == [decision.action]
        said = upstream.received[-1].json["messages"][0]["content"]
        assert said == f"A {decision.action} greeting, please: It is 8 o'clock"
        trace = decision.situation.episode
        assert trace is not None
        assert any(bytes.fromhex(trace) in body and decision.id.encode() in body for body in langfuse.traces)
        (out,) = langfuse.sent
        assert (out["name"], out["value"], out["traceId"]) == ("propensity", decision.propensity, trace)

        langfuse.score(1, "helpful", 0.75, kind="trace", id=trace)
        langfuse.score(2, "tone", 0.5, kind="observation", id="b" * 16, traceId=trace)
        langfuse.score(3, "helpful", 1.0, kind="trace", id="c" * 32)  # of a trace that Headway does not know
        assert run("scores") == "2 new signals\n"
        assert run("scores") == "0 new signals\n"
        assert langfuse.asked[0]["source"] == ["ANNOTATION,EVAL"], "not what the example sent itself"
        with headway.open(tmp_path, environ={}) as project:
            project.settle("greeting")
            outcome = project.outcome(decision.id)
            signals = {one.name: one.value for one in project.query.signals(project.episode("greeting", trace))}
        assert signals == {"helpful": 0.75, "tone": 0.5}
        assert (outcome.status, outcome.reward) == ("rewarded", 0.75)
    finally:
        running.stop()
        upstream.stop()
