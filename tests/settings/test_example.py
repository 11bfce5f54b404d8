"""The file that `headway init` writes, and the page that explains every key."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from headway import settings
from headway.nouns.kit import catalogue, load
from headway.settings.environment import VARIABLES
from headway.settings.read import KEYS
from headway.settings.strict import keys_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "settings.md"


def headings(section: str) -> list[str]:
    text = PAGE.read_text("utf-8")
    body = re.split(rf"(?m)^## {re.escape(section)}\n", text)[1]
    return re.findall(r"(?m)^### (\S+)$", re.split(r"(?m)^## ", body)[0])


def test_the_example_loads_and_declares_a_task() -> None:
    loaded = settings.parse(settings.example(), directory=Path(), environ={})
    assert loaded.task("route").actions == ("small", "large")
    assert loaded.task("route").fallback == "small"


@pytest.mark.kits("*")
def test_every_commented_setting_of_the_example_loads_too() -> None:
    text = re.sub(r"(?m)^# (?=[a-z_]+ = |\[)", "", settings.example())
    loaded = settings.parse(text, directory=Path(), environ={})
    assert loaded.upstreams["large"].price_out == 15.0
    assert loaded.task("route").on_failure == -0.5
    assert loaded.task("route").guards["latency_s"].tolerance == 0.5
    assert loaded.watch.window == (120, 360)
    assert not re.search(r"(?m)^# [a-z_]+ = ", text)


@pytest.mark.parametrize("table", list(KEYS))
@pytest.mark.kits("*")
def test_every_key_has_a_heading_and_every_heading_is_a_key(table: str) -> None:
    section = f"[{table}.NAME]" if table in ("tasks", "upstreams") else f"[{table}]"
    kinds = catalogue().all("kinds").values() if table == "tasks" else ()
    own = [key for kind in kinds if kind.settings for key in keys_of(load(kind.settings))]
    assert sorted(headings(section)) == sorted({*KEYS[table], *own})


def test_every_variable_has_a_heading() -> None:
    assert headings("Environment variables") == list(VARIABLES)


def test_the_toml_of_the_page_loads() -> None:
    blocks = re.findall(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        assert settings.parse(block, directory=Path(), environ={}).declared


def test_reading_settings_loads_neither_numpy_nor_a_web_framework() -> None:
    code = (
        "import sys; from pathlib import Path; from headway import settings;"
        "settings.parse(settings.example(), directory=Path(), environ={}).rewards('route');"
        "print(sorted({'numpy', 'torch', 'starlette', 'click', 'rich'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
