"""Every state of a task shows the same verdict, reason and command on the page as over HTTP and in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cli.test_states import STATES, doors, folder  # noqa: F401 — fixtures
from tests.page.browser import serving
from tests.page.conftest import Open


def test_the_page_shows_the_verdict_reason_and_command_of_every_state(
    folder: Path,  # noqa: F811 — the fixture
    doors: dict[str, dict[str, Any]],  # noqa: F811
    tab: Open,
) -> None:
    with serving(folder) as served:
        page = tab(served)
        page.locator("article .next code").nth(len(STATES) - 1).wait_for()
        for task, (word, _, _) in STATES.items():
            card = page.get_by_role("article", name=task, exact=True)
            told = doors["terminal"][task]
            assert card.locator(".next code").inner_text() == told["next"]["command"]
            said = card.locator(".next > span:not(.badge):not(.command)").inner_text()
            assert said.partition(", at today's")[0].rstrip(".") in told["next"]["why"]
            badges = [badge.inner_text() for badge in card.locator(".next .badge, .verdict .badge").all()]
            assert badges == ([word] if word else [])
