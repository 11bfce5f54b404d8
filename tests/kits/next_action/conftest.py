from __future__ import annotations

from pathlib import Path

import pytest

TOML = '[tasks.next-action]\nkind = "ranking"\nreward = { composite_delta = 1.0 }\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project that declares the task next-action."""
    (tmp_path / "headway.toml").write_text(TOML, "utf-8")
    return tmp_path
