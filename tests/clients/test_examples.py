"""examples/: each is short, and runs with the real packages through a real server to a small real upstream."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.kits.proxy.conftest import Proxy, settings
from tests.kits.proxy.upstream import WORDS, Upstream

# The bots: tests/kits/reply.
ELSEWHERE = ("discord_bot", "slack_bot")
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py") if path.stem not in ELSEWHERE)
LINES_AT_MOST = 30


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    running = Upstream()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory, upstream: Upstream) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("examples")
    (folder / "headway.toml").write_text(settings(upstream, {"small": "ok", "large": "ok"}))
    running = Proxy(folder, {})
    yield running
    errors = running.stop()
    assert "Traceback" not in errors, errors


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(path, id=path.stem, marks=[] if path.stem == "openai_agents" else pytest.mark.slow)
        for path in EXAMPLES
    ],
)
@pytest.mark.kits("proxy")
def test_an_example_is_routed_and_rewarded(example: Path, proxy: Proxy, tmp_path: Path) -> None:
    assert len(example.read_text("utf-8").splitlines()) <= LINES_AT_MOST
    before = {decision.id for decision in proxy.decisions()}
    done = subprocess.run(
        [sys.executable, "-P", example, "Say good morning"],
        cwd=tmp_path,
        env={**os.environ, "HEADWAY_URL": proxy.url},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "".join(WORDS) in done.stdout
    (made,) = [decision for decision in proxy.decisions() if decision.id not in before]
    assert made.situation.text == "Say good morning"
    with proxy.open() as project:
        outcome = project.outcome(made.id)
    assert (outcome.status, outcome.reward) == ("rewarded", 1.0)


def test_the_three_frameworks_have_an_example() -> None:
    assert {example.stem for example in EXAMPLES} >= {"langgraph", "openai_agents", "pydantic_ai"}
