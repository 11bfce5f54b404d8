"""Imports at start-up: heavy packages are loaded only when they are used."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

import pytest

import headway
from tests.architecture.rooms import PYPROJECT, kits

HEAVY = {"torch", "transformers", "peft", "accelerate", "ray", "sklearn", "scipy", "pandas", "onnx", "onnxruntime"}
NUMBERS = {"numpy", "pyarrow", "matplotlib"}
WEB = {"prometheus_client", "starlette", "granian", "httpx", "uvicorn", "fastapi", "anyio"}
TERMINAL = {"click", "rich"}


def loaded(code: str) -> set[str]:
    """The top-level packages in memory after running this code in a new interpreter."""
    return {name.partition(".")[0] for name in modules(code)}


def modules(code: str) -> set[str]:
    """The modules in memory after running this code in a new interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport json, sys; print('\\n' + json.dumps(sorted(sys.modules)))"],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_headway_loads_no_heavy_package() -> None:
    assert not loaded("import headway") & (HEAVY | NUMBERS | WEB | TERMINAL)


def test_the_server_and_worker_clients_load_no_language_model() -> None:
    assert not loaded("import headway.serve.run, headway.kits.reply.client, headway.kits.reply.generators") & HEAVY


def test_help_loads_no_heavy_package() -> None:
    code = (
        "import sys; from headway.cli.main import main\n"
        "sys.argv = ['headway', '--help']\n"
        "try: main()\n"
        "except SystemExit as done: assert not done.code\n"
    )
    assert not loaded(code) & (HEAVY | NUMBERS | WEB)


def test_the_status_of_choices_loads_nothing_of_kits_but_their_passports(tmp_path: Path) -> None:
    (tmp_path / "headway.toml").write_text('[tasks.route]\nactions = ["small", "large"]\n')
    code = (
        "import sys; from headway.cli.main import main\n"
        f"sys.argv = ['headway', '-C', {str(tmp_path)!r}, 'status']\n"
        "try: main()\n"
        "except SystemExit as done: assert not done.code\n"
    )
    of_kits = {name for name in modules(code) if name.startswith("headway.kits.")}
    names = {"headway.kits.prompts.kinds"}  # five words that the passport lists and its modules number
    assert of_kits == {f"headway.kits.{name}" for name in kits()} | names


@pytest.mark.parametrize("entry", sorted(PYPROJECT["project"]["scripts"]))
def test_a_console_command_leads_to_a_function(entry: str) -> None:
    (point,) = importlib.metadata.entry_points(group="console_scripts", name=entry)
    assert point.value == PYPROJECT["project"]["scripts"][entry]
    assert callable(point.load())


def test_the_version_is_the_same_everywhere() -> None:
    assert headway.__version__ == PYPROJECT["project"]["version"]
