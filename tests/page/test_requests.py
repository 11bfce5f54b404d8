"""A request on the page: its prompt, its answer, its attempts as lanes and its rating in one place; and an outage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.kits.proxy.conftest import ASK, FIRST, settings
from tests.kits.proxy.upstream import Upstream
from tests.page.browser import Served, serving
from tests.page.conftest import Open
from tests.page.test_decisions import expect
from tests.page.test_views import ready


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("requests") / "desk"
    folder.mkdir()
    upstream = Upstream()
    task = FIRST % "small" + 'keep_replies = true\nreward = { solved = 1.0, cost_usd = -20.0 }\nrequired = ["solved"]\n'
    more = "breaker_failures = 2\n"
    (folder / "headway.toml").write_text(
        settings(upstream, {"small": "status-500", "large": "ok"}, task=task, each=more)
    )
    with serving(folder) as server:
        for _ in range(4):
            httpx.post(f"{server.url}/v1/chat/completions", json=ASK, timeout=30).raise_for_status()
        yield server
    upstream.stop()


@pytest.mark.parametrize("width", [1400, 390])
def test_a_request_shows_its_attempts_answer_and_rating(desk: Served, tab: Open, width: int) -> None:
    rows = httpx.get(f"{desk.url}/v1/decisions").json()["decisions"]
    page = tab(desk, f"#/decisions/{rows[-1]['id']}")
    page.set_viewport_size({"width": width, "height": 1200})
    ready(page)
    shown = page.get_by_role("region", name="Request")
    expect(shown.get_by_role("heading", name="2 attempts")).to_be_visible()
    lanes = shown.locator("ol li")
    expect(lanes).to_have_count(2)
    expect(lanes.nth(0)).to_contain_text("failed: upstream_status")
    expect(lanes.nth(0)).to_contain_text("HTTP 500")
    expect(lanes.nth(1)).to_contain_text("answered")
    expect(shown).to_contain_text("large answered")
    expect(shown).to_contain_text("Reply of large")
    expect(shown.get_by_role("heading", name="Outcome")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.goto(page.url.partition("#")[0] + f"#/decisions/{rows[0]['id']}")
    expect(page.get_by_role("region", name="Request")).to_contain_text("while small was down")


@pytest.mark.parametrize("width", [1400, 390])
def test_an_outage_is_told_on_the_overview_and_in_the_story(desk: Served, tab: Open, width: int) -> None:
    page = tab(desk, "#/")
    page.set_viewport_size({"width": width, "height": 1200})
    ready(page)
    alert = page.get_by_role("alert").filter(has_text="Outage")
    expect(alert).to_contain_text("'small' is down since")
    expect(alert).to_contain_text("2 calls failed, 4 requests went elsewhere")
    page.goto(page.url.partition("#")[0] + "#/tasks/route")
    expect(page.get_by_role("region", name="Story")).to_contain_text("Outage: 'small' is down since")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
