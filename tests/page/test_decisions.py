"""The page of decisions: found by text, action, outcome and time, paged, linked, worked by keys and by clicks."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from headway.nouns.records import Detail
from headway.observe.details import checked, insert as insert_details
from headway.project import Project
from tests.page.browser import Served
from tests.page.conftest import Open
from tests.page.test_views import ready


def expect(locator: Any) -> Any:
    return pytest.importorskip("playwright.sync_api").expect(locator)


def rows(page: Any) -> Any:
    return page.get_by_role("region", name="Decisions").locator("tbody tr")


def test_a_search_and_filters_are_kept_in_the_address(served: Served, tab: Open) -> None:
    page = tab(served, "#/decisions")
    ready(page)
    page.keyboard.press("/")
    page.keyboard.type("windows")
    page.wait_for_url("**text=windows*")
    ready(page)
    expected = httpx.get(f"{served.url}/v1/decisions?text=windows").json()["decisions"]
    expect(rows(page)).to_have_count(len(expected))
    assert all("Windows" in text for text in rows(page).all_inner_texts())
    page.get_by_role("button", name="Filters").click()
    page.get_by_label("outcome").select_option("pending")
    page.wait_for_url("**status=pending*")
    pending = httpx.get(f"{served.url}/v1/decisions?text=windows&status=pending").json()["decisions"]
    assert 0 < len(pending) < len(expected)
    expect(rows(page)).to_have_count(len(pending))
    again = tab(served, page.url.partition("/#")[2] and "#" + page.url.partition("#")[2])
    ready(again)
    expect(rows(again)).to_have_count(len(pending))
    again.get_by_role("button", name="Clear").click()
    expect(rows(again)).to_have_count(50)


def test_pages_rows_and_keys(served: Served, tab: Open) -> None:
    page = tab(served, "#/decisions?task=route")
    ready(page)
    first = rows(page).first.get_attribute("id")
    page.get_by_role("link", name="Older").click()
    page.wait_for_url("**before=*")
    page.locator(f"#{first}").wait_for(state="detached")
    second = httpx.get(f"{served.url}/v1/decisions?task=route&limit=50").json()["next"]
    assert f"before={second}" in page.url
    page.get_by_role("link", name="Newest").click()
    page.locator(f"#{first}").locator("td").nth(2).click()  # anywhere in the row
    page.get_by_role("heading", name="Decision", exact=True).wait_for()
    assert (first or "").removeprefix("row-") in page.url
    page.keyboard.press("Escape")
    page.get_by_role("heading", name="Decision", exact=True).wait_for(state="detached")
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keys").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")


def test_a_kept_reply_stands_beside_its_request_and_is_rated_there(own: Served, tab: Open) -> None:
    decision = own.decide("reply", "What is the capital of France?")
    reply = json.dumps({"text": "<b>Paris</b>, on the Seine.", "model": "small", "foreign": True}).encode()
    with Project(own.folder, environ={}) as project, project.database.transaction() as connection:
        insert_details(connection, checked(decision, [Detail("reply", "reply", reply)]))
    page = tab(own, f"#/decisions/{decision}")
    page.get_by_text("<b>Paris</b>, on the Seine.").wait_for()
    page.get_by_text("Reply of small").wait_for()
    page.get_by_role("group", name="Add a signal").wait_for()
    page.locator("body").press("5")
    page.get_by_text("rating 5 stored").wait_for()


@pytest.mark.parametrize("query", ["status=lost", "since=yesterday", "limit=0", "before=0", "nonsense=1"])
def test_a_filter_that_cannot_be_read_is_refused(served: Served, query: str) -> None:
    answer = httpx.get(f"{served.url}/v1/decisions?{query}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "bad_query")
