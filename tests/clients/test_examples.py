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
from tests.kits.proxy.upstream import USAGE, WORDS, Upstream
from tests.packages import installed

# Tested elsewhere: the bots in tests/kits/reply, Langfuse in test_langfuse.py.
ELSEWHERE = ("discord_bot", "slack_bot", "langfuse_prompts")
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py") if path.stem not in ELSEWHERE)
# Those that let Headway choose and call the model themselves; the others call Headway's endpoints.
DIRECT = ("langchain_middleware", "openai_agents_provider", "pydantic_ai_wrapper")
PACKAGES = {
    "langchain_middleware": ("langchain", "langchain-openai"),
    "langgraph": ("langgraph",),
    "openai_agents": ("openai-agents",),
    "openai_agents_provider": ("openai-agents",),
    "pydantic_ai": ("pydantic-ai-slim",),
    "pydantic_ai_wrapper": ("pydantic-ai-slim",),
}
LINES_AT_MOST = 80


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


def run(example: Path, folder: Path, upstream: Upstream, url: str) -> subprocess.CompletedProcess[str]:
    assert len(example.read_text("utf-8").splitlines()) <= LINES_AT_MOST
    installed(*PACKAGES[example.stem])
    # -P: examples/langgraph.py must not hide the package
    return subprocess.run(
        [sys.executable, "-P", example, "Say good morning"],
        cwd=folder,
        env={**os.environ, "HEADWAY_URL": url, "OPENAI_BASE_URL": upstream.url(), "OPENAI_API_KEY": "-"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


@pytest.mark.parametrize("example", [pytest.param(path, id=path.stem) for path in EXAMPLES])
@pytest.mark.kits("proxy")
def test_an_example_is_routed_and_rewarded(example: Path, proxy: Proxy, upstream: Upstream, tmp_path: Path) -> None:
    before = {decision.id for decision in proxy.decisions()}
    done = run(example, tmp_path, upstream, proxy.url)
    assert done.returncode == 0, done.stderr
    assert "".join(WORDS) in done.stdout
    (made,) = [decision for decision in proxy.decisions() if decision.id not in before]
    assert made.situation.text == "Say good morning"
    with proxy.open() as project:
        outcome = project.outcome(made.id)
    assert (outcome.status, outcome.reward) == ("rewarded", 1.0)
    signals = proxy.signals(made.id)
    assert (signals["prompt_tokens"], signals["completion_tokens"]) == USAGE
    asked = upstream.received[-1].json["model"]
    assert asked == (made.action if example.stem in DIRECT else f"{made.action}-model")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name.startswith("pydantic") else pytest.mark.slow) for name in DIRECT]
)
def test_an_example_answers_without_headway(name: str, upstream: Upstream, tmp_path: Path) -> None:
    done = run(ROOT / "examples" / f"{name}.py", tmp_path, upstream, "http://127.0.0.1:1")
    assert done.returncode == 0, done.stderr
    assert "".join(WORDS) in done.stdout
    assert done.stderr.count("Headway does not decide") == 1
    assert upstream.received[-1].json["model"] == "small", "the first model"


def test_every_example_names_its_packages() -> None:
    assert {example.stem for example in EXAMPLES} == set(PACKAGES)
