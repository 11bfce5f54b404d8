"""The page of a ranking task: rank actions, predictions against outcomes, calibration, rounds of improvers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.page.browser import Served, serving
from tests.page.conftest import AXE, Open, need
from tests.page.ranking import TASK, write_ranking
from tests.page.test_views import ready, violations

PLACE = f"#/tasks/{TASK}"


@pytest.fixture(scope="module")
def ranked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("ranked") / "desk"
    write_ranking(folder)
    with serving(folder) as server:
        yield server


def opened(tab: Open, server: Served, scheme: str = "light") -> Any:
    page = tab(server, PLACE, scheme=scheme)
    ready(page)
    page.get_by_role("heading", name="Calibration over time").wait_for()
    page.get_by_role("table").filter(has_text="Count all words in one pass").wait_for()
    return page


def fill(page: Any) -> None:
    """Two actions, the second from the keyboard alone."""
    page.get_by_label("Description").first.fill("Rewrite the auth module")
    page.get_by_label("Type").first.fill("refactor")
    page.get_by_label("Scope").first.select_option("large")
    page.get_by_label("Files").first.fill("12")
    page.get_by_label("Description").nth(1).focus()
    page.keyboard.type("Add tests for config loader")
    page.keyboard.press("Tab")
    page.keyboard.type("test")


def focused(page: Any, place: int) -> None:
    page.wait_for_function(
        "place => document.activeElement === document.querySelectorAll('fieldset')[place]?.querySelector('input')",
        arg=place,
    )


def test_actions_are_ranked_from_the_keyboard_as_the_server_ranks_them(ranked: Served, tab: Open) -> None:
    page = opened(tab, ranked)
    fill(page)
    page.get_by_role("button", name="Add an action").press("Enter")
    focused(page, 2)
    page.get_by_role("button", name="Remove action 3").press("Enter")
    focused(page, 1)
    page.get_by_label("State, as a JSON object").fill('{"composite_score": 0.4, "dimension_scores": {"speed": 0.1}}')
    page.get_by_label("Description").first.press("Enter")
    shown = page.get_by_role("list", name="Ranked actions").get_by_role("listitem")
    shown.first.wait_for()
    rewrite = {"description": "Rewrite the auth module", "type": "refactor", "scope": "large", "files_affected": 12}
    tests = {"description": "Add tests for config loader", "type": "test"}
    candidates = [{"name": action["description"], "features": action} for action in (rewrite, tests)]
    state = {"composite_score": 0.4, "dimension_scores.speed": 0.1}
    asked = {"candidates": candidates, "state": state}
    answer = httpx.post(f"{ranked.url}/v1/tasks/{TASK}/rank", json=asked).raise_for_status().json()
    assert shown.count() == 2
    for place, row in enumerate(answer["ranking"]):
        text = shown.nth(place).inner_text()
        assert f"{row['features']['type']}: {row['name']}" in text
        assert row["advice"] in text
        assert f"{abs(row['predicted']):.3f}" in text


@pytest.mark.slow
def test_what_the_form_cannot_rank_is_reported(ranked: Served, tab: Open) -> None:
    page = opened(tab, ranked)
    fill(page)
    page.get_by_label("State, as a JSON object").fill("[1]")
    page.get_by_role("button", name="Rank", exact=True).click()
    page.get_by_role("alert").get_by_text("The state is not a JSON object.").wait_for()
    page.get_by_label("State, as a JSON object").fill("")
    page.get_by_label("Description").nth(1).fill("Rewrite the auth module")
    page.get_by_role("button", name="Rank", exact=True).click()
    page.get_by_role("alert").get_by_text("duplicate_candidate").wait_for()
    page.get_by_label("Description").nth(1).fill("Another")
    page.get_by_role("button", name="Rank", exact=True).click()
    page.get_by_role("link", name="the latest decision").wait_for()
    assert page.get_by_role("alert").count() == 0


def test_predictions_calibration_and_rounds_are_those_of_the_server(ranked: Served, tab: Open) -> None:
    page = opened(tab, ranked)
    compared = httpx.get(f"{ranked.url}/v1/tasks/{TASK}/predictions").json()
    rows = compared["predictions"]
    outside = [row for row in rows if not row["low"] <= row["reward"] <= row["high"]]
    chart = page.get_by_role("group", name="Reward against predicted reward")
    assert f"of {len(rows)} decisions; {len(outside)} rewards" in chart.get_attribute("aria-label")
    assert (chart.locator("circle").count(), chart.locator("path").count()) == (len(rows) - len(outside), len(outside))
    assert f"{compared['overall']['coverage']:.0%}" in page.locator("dl", has_text="right sign").inner_text()
    for round_ in httpx.get(f"{ranked.url}/v1/improve/up/rounds").json()["rounds"]:
        row = page.get_by_role("row", name=round_["proposal"]).inner_text()
        assert round_["why"] in row
        assert round_["verdict"] in row
    kept = page.get_by_role("row", name="Count all words in one pass").inner_text()
    assert "0.61" in kept
    assert "0.74" in kept
    page.get_by_text("git diff HEAD...improve/up-001").wait_for()
    page.get_by_text("headway improve idle").wait_for()
    page.goto(f"{ranked.url}/#/tasks/route")
    page.get_by_role("heading", name="route").wait_for()
    assert page.get_by_role("heading", name="Rank actions").count() == 0


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_panel_has_no_serious_violation_at_any_width(ranked: Served, tab: Open, scheme: str, width: int) -> None:
    page = opened(tab, ranked, scheme)
    page.set_viewport_size({"width": width, "height": 900})
    fill(page)
    page.get_by_role("button", name="Rank", exact=True).click()
    page.get_by_role("list", name="Ranked actions").wait_for()
    page.get_by_text("The largest surprises").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    need(AXE.exists(), "axe-core is not installed (python scripts/build_page.py --tools)")
    assert violations(page) == []


@pytest.mark.slow
def test_a_ranking_task_without_a_policy_says_what_to_do(tmp_path: Path, tab: Open) -> None:
    (tmp_path / "headway.toml").write_text(f'[tasks.{TASK}]\nkind = "ranking"\n', "utf-8")
    with serving(tmp_path) as server:
        server.decide(TASK, "", ["a", "b"])
        page = tab(server, PLACE)
        ready(page)
        page.get_by_text("No prediction has an outcome yet.").wait_for()
        fill(page)
        page.get_by_role("button", name="Rank", exact=True).click()
        page.get_by_role("alert").get_by_text("no_prediction").wait_for()
