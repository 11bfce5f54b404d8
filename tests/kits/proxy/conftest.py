"""A real Headway server in a child process, in front of a small real upstream in a thread.

upstream                       the model server; `upstream.received` is what reached it
proxy({"small": "ok"})         a server whose task `route` chooses among upstreams that behave as named
served                         one for the whole module, over `small` and `large`, which both answer
ways                           one for the whole module with a task for each of its WAYS that an upstream can behave:
                               `headway/HOW` tries that one first and then `good`, `headway/only-HOW` has no other
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

import headway
from headway.nouns.records import Decision
from headway.project import Project
from tests.kits.proxy.upstream import Upstream

ASK: dict[str, Any] = {"model": "headway/route", "messages": [{"role": "user", "content": "Good morning"}]}


class Proxy:
    """A server process and its store."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headway.serve", str(folder), "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env={**os.environ, **environ},
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(self.process.communicate(timeout=20)[1])
        self.url: str = json.loads(line)["url"]
        self.client = httpx.Client(base_url=self.url, timeout=30)

    def chat(self, headers: Mapping[str, str] | None = None, path: str = "/v1", **more: Any) -> httpx.Response:
        return self.client.post(f"{path}/chat/completions", json={**ASK, **more}, headers=dict(headers or {}))

    def open(self) -> Project:
        return headway.open(self.folder, environ={})

    def decisions(self, task: str = "route") -> list[Decision]:
        with self.open() as project:
            return list(project.query.decisions(task))

    def decision(self, identifier: str) -> Decision:
        with self.open() as project:
            return project.query.decision(identifier)

    def signals(self, identifier: str) -> dict[str, float]:
        with self.open() as project:
            return {signal.name: signal.value or 0.0 for signal in project.query.signals(identifier, live=True)}

    def labels(self, identifier: str) -> dict[str, str]:
        with self.open() as project:
            return {signal.name: signal.label for signal in project.query.signals(identifier) if signal.label}

    def outcome(self, identifier: str) -> str:
        with self.open() as project:
            return project.outcome(identifier).status

    def stop(self) -> str:
        self.client.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.communicate(timeout=20)[1]


def settings(upstream: Upstream, how: Mapping[str, str], *, task: str = "", more: str = "", each: str = "") -> str:
    """headway.toml: task `route` over these upstreams, which cost 1 and 2 dollars per million tokens."""
    names = ", ".join(f'"{name}"' for name in how)
    tables = [
        f'[upstreams.{name}]\nurl = "{upstream.url(behaves) if "://" not in behaves else behaves}"\n'
        f'model = "{name}-model"\nprice_in = 1.0\nprice_out = 2.0\n{each}\n'
        for name, behaves in how.items()
    ]
    return f"[tasks.route]\nactions = [{names}]\n{task}\n" + "\n".join(tables) + f"\n{more}\n"


FIRST = 'explore = "none"\nfloor = 0.0\nrules = [{ when = "text_length >= 0", use = "%s" }]\n'


def settings_of_ways(upstream: Upstream, ways: Iterable[str], *, more: str = "", each: str = "") -> str:
    tables = [f'[upstreams.good]\nurl = "{upstream.url()}"\nmodel = "good-model"\n', more]
    for how in ways:
        name = "bad-" + re.sub(r"[^a-z0-9-]", "", how)
        url = how if "://" in how else upstream.url(how)
        tables.append(f'[upstreams.{name}]\nurl = "{url}"\nmodel = "{name}"\n{each}\n')
        task = name.removeprefix("bad-")
        tables.append(f'[tasks.{task}]\nactions = ["{name}", "good"]\n{FIRST % name}')
        tables.append(f'[tasks.only-{task}]\nactions = ["{name}"]\n')
    return "\n".join(tables)


@pytest.fixture(scope="module")
def ways(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, running_upstream: Upstream
) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("ways")
    module = request.module
    toml = settings_of_ways(
        running_upstream, module.WAYS, more=getattr(module, "MORE", ""), each=getattr(module, "EACH", "")
    )
    (folder / "headway.toml").write_text(toml)
    running = Proxy(folder, {})
    yield running
    errors = running.stop()
    assert "Traceback" not in errors, errors


@pytest.fixture(scope="module")
def running_upstream() -> Iterator[Upstream]:
    running = Upstream()
    yield running
    running.stop()


@pytest.fixture
def upstream(running_upstream: Upstream) -> Upstream:
    running_upstream.forget()
    return running_upstream


@pytest.fixture
def proxy(tmp_path: Path, running_upstream: Upstream) -> Iterator[Callable[..., Proxy]]:
    running: list[Proxy] = []

    def start(how: Mapping[str, str], environ: Mapping[str, str] | None = None, **more: str) -> Proxy:
        (tmp_path / "headway.toml").write_text(settings(running_upstream, how, **more))
        running.append(Proxy(tmp_path, environ or {}))
        return running[-1]

    yield start
    for server in running:
        errors = server.stop()
        assert "Traceback" not in errors, errors


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, running_upstream: Upstream) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("proxy")
    (folder / "headway.toml").write_text(settings(running_upstream, {"small": "ok", "large": "ok"}))
    running = Proxy(folder, {})
    yield running
    errors = running.stop()
    assert "Traceback" not in errors, errors
