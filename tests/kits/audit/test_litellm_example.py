"""examples/litellm_propensities.py: with the real package where it is installed, and against the documented signatures.

    LITELLM_PYTHON=…/bin/python pytest tests/kits/audit/test_litellm_example.py

LiteLLM is not installed with the other examples: its requirements exclude some of the pinned packages.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from headway.kits.audit.audit import audit_files
from tests.conftest import ROOT

EXAMPLE = ROOT / "examples" / "litellm_propensities.py"
GROUP = [{"model_name": "chat", "litellm_params": {"model": name}} for name in ("openai/small", "openai/large")]


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The example's module, with empty base classes in place of LiteLLM's."""
    names = ("litellm", "litellm.integrations", "litellm.integrations.custom_logger", "litellm.types",
             "litellm.types.router")  # fmt: skip
    for name in names:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules["litellm.integrations.custom_logger"].CustomLogger = object  # type: ignore[attr-defined]
    sys.modules["litellm.types.router"].CustomRoutingStrategyBase = object  # type: ignore[attr-defined]
    spec = importlib.util.spec_from_file_location("litellm_propensities", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Router:
    """The part of LiteLLM's router that the strategy asks."""

    def get_model_list(self, model_name: str) -> list[dict[str, Any]]:
        return [row for row in GROUP if row["model_name"] == model_name]


def test_the_strategy_draws_with_the_probabilities_that_it_logs(example: Any) -> None:
    strategy = example.KnownPropensities(Router(), lambda messages: "openai/large", explore=0.2, seed=3)
    drawn: Counter[str] = Counter()
    for _ in range(2_000):
        request: dict[str, Any] = {"metadata": {"spend_logs_metadata": {"team": "a"}}}
        deployment = strategy.get_available_deployment(model="chat", messages=[], request_kwargs=request)
        name = deployment["litellm_params"]["model"]
        logged = request["metadata"]["spend_logs_metadata"]
        assert logged["team"] == "a"  # what the caller sent is kept
        assert (logged["action"], logged["propensity"]) == (name, logged["probabilities"][name])
        assert logged["probabilities"] == pytest.approx({"openai/small": 0.1, "openai/large": 0.9})
        drawn[name] += 1
    assert 130 < drawn["openai/small"] < 270  # 200 ± 5 standard deviations
    named = {"model": "chat", "messages": [], "input": None, "specific_deployment": False, "request_kwargs": {}}
    assert asyncio.run(strategy.async_get_available_deployment(**named)) in GROUP


def test_successes_and_failures_are_logged(example: Any, tmp_path: Path) -> None:
    log = example.CallLog(tmp_path / "calls.jsonl")
    for status in ("success", "failure"):
        event = {"kwargs": {"standard_logging_object": {"id": status, "status": status, "model": "openai/small"}}}
        event |= {"response_obj": None, "start_time": None, "end_time": None}
        asyncio.run(getattr(log, f"async_log_{status}_event")(**event))
    rows = [json.loads(line) for line in (tmp_path / "calls.jsonl").read_text("utf-8").splitlines()]
    assert [row["status"] for row in rows] == ["success", "failure"]


def _python() -> str:
    if importlib.util.find_spec("litellm") is not None:
        return sys.executable
    return os.environ.get("LITELLM_PYTHON", "")


@pytest.mark.slow
@pytest.mark.skipif(not _python(), reason="litellm is not installed, and LITELLM_PYTHON names no other Python")
def test_the_log_of_the_real_package_can_be_audited(tmp_path: Path) -> None:
    done = subprocess.run(
        [_python(), "-P", EXAMPLE],
        cwd=tmp_path,
        env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    audit = audit_files([tmp_path / "calls.jsonl", tmp_path / "rewards.jsonl"])
    assert (audit.shape.name, audit.state, len(audit.log)) == ("litellm", "undecided", 400)
    assert audit.log.probabilities is not None
    assert audit.log.arms == ("openai/large", "openai/small")
    assert audit.lead is not None
    assert all(diagnostic.ok for diagnostic in audit.lead.evidence.diagnostics)
