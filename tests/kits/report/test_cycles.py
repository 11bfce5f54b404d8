"""The page of each cycle of the loop."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.kits.report import cycles
from headway.loop.cycle import CycleResult
from headway.project import Project


def test_a_page_shows_what_people_wrote_as_text(tmp_path: Path) -> None:
    done = CycleResult(task="route", notes=["<script>alert(1)</script> **bold** [x](y)"])
    with Project(tmp_path) as project:
        name = cycles.write(project, done, 7, 0.0, 0.1)
        page = project.home / "reports" / name
    assert "<script>" not in page.with_suffix(".html").read_text("utf-8")
    markdown = page.with_suffix(".md").read_text("utf-8")
    assert "<script>" not in markdown
    assert r"\*\*bold\*\* \[x\](y)" in markdown


def test_old_pages_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cycles, "KEPT", 3)
    with Project(tmp_path) as project:
        for number in range(1, 6):
            cycles.write(project, CycleResult(task="route"), number, 0.0, 0.1)
        pages = sorted((project.home / "reports").glob("*.md"))
    assert [path.name for path in pages] == [f"cycle-{n:06d}-route.md" for n in (3, 4, 5)]
