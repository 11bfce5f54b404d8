"""Training runs and the project's set-up on the page: drawn, compared, stopped, and shown to the owner only."""

from __future__ import annotations

import math

import httpx
import pytest

from headway.observe.run_log import RunLog
from tests.page.browser import Served
from tests.page.conftest import Open
from tests.page.test_views import ready, violations

OWNERS = ("/v1/settings", "/v1/keys", "/v1/doctor")


def write_run(server: Served, name: str, lines: int = 50) -> RunLog:
    log = RunLog(server.folder / ".headway" / "work" / name)
    log.begin(
        {"task": "cart", "family": "recurrent", "seed": 7, "command": f"headway learn cart --seed 7 --resume # {name}"}
    )
    for step in range(lines):
        log.add({"steps": step * 10, "loss": math.exp(-step / 20), "heads": {"push": {"entropy": step / lines}}})
    return log


def test_curves_are_drawn_live_laid_over_one_another_and_a_run_is_stopped(own: Served, tab: Open) -> None:
    first, second = write_run(own, "cart-1"), write_run(own, "cart-2", 90)
    first.end("recurrent@4f2a")
    page = tab(own, "#/runs/cart-1", cookie=True)
    page.get_by_role("img", name="loss of cart-1: 0.0863 after 50 lines").wait_for()
    page.get_by_role("img", name="heads.push.entropy of cart-1").wait_for()
    page.get_by_label("Show cart-2").check()
    page.wait_for_url("**/runs/cart-1/cart-2")
    page.get_by_role("img", name="loss of cart-1: 0.0863 after 50 lines; cart-2: 0.0117 after 90 lines").wait_for()
    second.add({"steps": 900, "loss": 0.5})
    page.get_by_role("img", name="cart-2: 0.5 after 91 lines").wait_for()
    page.get_by_label("Search the numbers").fill("entropy")
    page.get_by_role("img", name="loss of cart-1").wait_for(state="detached")
    page.get_by_role("button", name="Stop cart-2").click()
    with pytest.raises(Exception, match="was stopped"):
        while True:
            second.add({"steps": 1000, "loss": 0.4})
    page.get_by_text("# cart-2").wait_for()
    assert violations(page) == []


def test_settings_and_keys_are_shown_to_the_owner_only(served: Served, tab: Open) -> None:
    for path in OWNERS:
        assert httpx.get(served.url + path).status_code == 401, path
    page = tab(served, "#/project")
    page.get_by_text("shown to its owner only").wait_for()
    page = tab(served, "#/project", cookie=True)
    line = page.locator("#line-4")
    assert "reward = { solved = 1.0, cost_usd = -20.0 }" in line.inner_text()
    page.get_by_role("link", name="Keys", exact=True).click()
    page.get_by_text("No keys yet").first.wait_for()
    assert violations(page) == []


@pytest.mark.slow
def test_models_and_checks_are_shown(served: Served, tab: Open) -> None:
    page = tab(served, "#/project/models", cookie=True)
    page.get_by_role("table").wait_for()
    assert violations(page) == []
    page.get_by_role("link", name="Doctor", exact=True).click()
    page.get_by_text("headway.toml, tasks: route, reply").first.wait_for()
    assert violations(page) == []


def test_a_term_leads_to_the_glossary(served: Served, tab: Open) -> None:
    page = tab(served)
    ready(page)
    term = page.get_by_role("link", name="Exploration").first
    assert term.get_attribute("title")
    term.click()
    page.get_by_role("heading", name="Glossary").wait_for()
    assert page.locator("[id='term-Exploration']").is_visible()
    assert "`" not in page.locator("main").inner_text()
