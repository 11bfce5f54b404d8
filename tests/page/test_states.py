"""Every state of a task shows the same verdict, reason and command on the page as over HTTP and in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headway.project import Project, policy_names, said
from tests.cli.test_states import STATES, doors, folder  # noqa: F401 — fixtures
from tests.page.browser import serving
from tests.page.conftest import Open


def test_the_page_shows_the_verdict_reason_and_command_of_every_state(
    folder: Path,  # noqa: F811 — the fixture
    doors: dict[str, dict[str, Any]],  # noqa: F811
    tab: Open,
) -> None:
    expect = pytest.importorskip("playwright.sync_api").expect
    with Project(folder, environ={}) as project:
        names = {task: policy_names(project, task) for task in STATES}
    with serving(folder) as served:
        page = tab(served)
        page.locator("article .next code").nth(len(STATES) - 1).wait_for()
        for task, (word, _, _) in STATES.items():
            card = page.get_by_role("article", name=task, exact=True)
            told = doors["terminal"][task]
            assert card.locator(".next code").inner_text() == told["next"]["command"]
            why = said(names[task], told["next"]["why"]).partition(", at today's")[0].rstrip(".")
            expect(card.locator(".next > span:not(.badge):not(.command)")).to_contain_text(why)
            badges = [badge.inner_text() for badge in card.locator(".next .badge, .verdict .badge").all()]
            assert badges == ([word] if word else [])
