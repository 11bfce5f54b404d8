"""Log files to read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.kits.formats.reader import Write


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def make(rows: Iterable[Any], name: str = "log.jsonl") -> Path:
        path = tmp_path / name
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
        return path

    return make
