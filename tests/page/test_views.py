"""Every page, with and without a key, in light and dark: it loads, it is live, it is accessible, it is small."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from headway.project import Project
from headway.project.alarm import AlarmDetail, raise_alarm
from tests.page.browser import Served, serving
from tests.page.conftest import AXE, Open, need

PAGES = ["overview", "task", "evidence list", "evidence", "ledger", "decisions", "decision", "nowhere"]
COLLAPSE: AlarmDetail = {
    "stream": "action large",
    "action": "large",
    "segment": "",
    "since": 1.75e9,
    "from_decision": 1,
    "before": 0.75,
    "after": 0.35,
    "rows": [400, 60],
    "explore": 0.3,
}
HEADINGS = {
    "overview": "Overview",
    "task": "route",
    "evidence list": "Evidence",
    "evidence": "bandit@",
    "ledger": "Ledger",
    "decisions": "Decisions",
    "decision": "Decisions",
    "nowhere": "Nothing here",
}


def place(name: str, server: Served) -> str:
    evidence = httpx.get(f"{server.url}/v1/evidence?task=route").json()["evidence"][-1]["id"]
    digest = httpx.get(f"{server.url}/v1/decisions?task=reply&limit=1").json()["decisions"][0]["id"]
    return {
        "overview": "#/",
        "task": "#/tasks/route",
        "evidence list": "#/evidence",
        "evidence": f"#/evidence/{evidence}",
        "ledger": "#/ledger",
        "decisions": "#/decisions",
        "decision": f"#/decisions/{digest}",
        "nowhere": "#/nowhere",
    }[name]


def named(server: Served, text: str) -> str:
    """A sentence as the page shows it: with the names of the policies, the hash second."""
    for policy in httpx.get(f"{server.url}/v1/policies").json()["policies"]:
        if policy["name"]:
            text = text.replace(policy["policy"], f"{policy['name']} ({policy['policy']})")
    return re.sub(r"(?<![\w.)-])-(?=\d)", "−", text)


def ready(page: Any) -> None:
    page.get_by_text("live", exact=True).wait_for()
    page.get_by_text("Loading…").first.wait_for(state="detached")


@pytest.mark.parametrize(
    ("name", "scheme", "cookie"),
    [pytest.param(name, "light", False, id=f"{name}-light") for name in PAGES]
    + [
        # The page with the most colours is also checked in the dark in every run.
        pytest.param(
            name, "dark", True, id=f"{name}-dark, unlocked", marks=[] if name == "evidence" else [pytest.mark.slow]
        )
        for name in PAGES
    ],
)
def test_a_page_loads_marks_synthetic_data_and_has_no_serious_violation(
    served: Served, tab: Open, name: str, scheme: str, cookie: bool
) -> None:
    page = tab(served, place(name, served), scheme=scheme, cookie=cookie)
    ready(page)
    assert HEADINGS[name] in page.locator("h1").inner_text()
    page.get_by_role("note").get_by_text("SYNTHETIC").wait_for()
    assert page.get_by_text("unlocked", exact=True).count() == cookie
    assert page.get_by_role("button", name="read only · unlock").count() == (not cookie)
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    need(AXE.exists(), "axe-core is not installed (python scripts/build_page.py --tools)")
    assert violations(page) == []


@pytest.mark.parametrize(("scheme", "cookie"), [("dark", False), ("light", True)], ids=["dark", "light, unlocked"])
def test_a_dialog_has_no_serious_violation(served: Served, tab: Open, scheme: str, cookie: bool) -> None:
    need(AXE.exists(), "axe-core is not installed (python scripts/build_page.py --tools)")
    page = tab(served, "#/ledger", scheme=scheme, cookie=cookie)
    page.get_by_role("button", name="Roll back…").click()
    page.get_by_role("dialog").wait_for()
    assert violations(page) == []


def violations(page: Any) -> list[str]:
    page.evaluate(AXE.read_text("utf-8"))
    report = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{violation['id']}: {node['html'][:200]} {node['failureSummary'][:200]}"
        for violation in report["violations"]
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]


def test_the_whole_page_weighs_less_than_300_kb_compressed(served: Served, tab: Open) -> None:
    page = tab(served)
    ready(page)
    paths = ["/", *page.evaluate("performance.getEntriesByType('resource').map(each => new URL(each.name).pathname)")]
    files = {path for path in paths if path == "/" or path.startswith("/assets/")}
    assert len(files) >= 3
    weight = 0
    for path in files:
        with httpx.stream("GET", served.url + path, headers={"accept-encoding": "gzip"}) as answer:
            assert answer.headers["content-encoding"] == "gzip"
            weight += sum(len(part) for part in answer.iter_raw())
    print(f"{len(files)} files, {weight:,} bytes")
    assert weight < 300_000


def test_a_new_decision_appears_without_a_reload(served: Served, tab: Open) -> None:
    overview, decisions = tab(served), tab(served, "#/decisions?task=reply")
    for page in (overview, decisions):
        ready(page)
    card = overview.locator("article", has=overview.get_by_role("heading", name="reply"))
    before = int(card.locator("h3:has-text('Decisions') + p").inner_text().replace(",", ""))
    served.decide("reply", "Is the moon made of cheese?")
    decisions.get_by_role("link", name="Is the moon made of cheese?").wait_for()
    card.get_by_text(f"{before + 1}", exact=True).first.wait_for()


@pytest.mark.slow
def test_the_page_reports_a_stopped_server_and_reconnects(tmp_path: Path, tab: Open) -> None:
    with serving(tmp_path) as server:
        page = tab(server)
        ready(page)
    page.get_by_text("reconnecting").wait_for()
    with serving(tmp_path, "--port", server.url.rpartition(":")[2]) as again:
        page.get_by_text("live", exact=True).wait_for()
        again.decide("route", "Are you back?", ["yes", "no"])
        page.get_by_role("heading", name="route").wait_for()


def test_colours_follow_the_system_until_the_user_chooses(served: Served, tab: Open) -> None:
    page = tab(served, scheme="dark")
    theme = "document.documentElement.dataset.theme"
    assert page.evaluate(theme) == "dark"
    page.get_by_role("button", name="Use light colours").click()
    assert page.evaluate(theme) == "light"
    page.reload()
    page.get_by_role("button", name="Use dark colours").wait_for()
    assert page.evaluate(theme) == "light"


def test_everything_can_be_reached_by_keyboard(served: Served, tab: Open) -> None:
    page = tab(served, "#/decisions?task=route")
    ready(page)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent.trim()") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("j")
    page.get_by_role("heading", name="Decision", exact=True).wait_for()
    first = page.url
    page.keyboard.press("j")
    page.wait_for_url(lambda url: url != first)
    page.keyboard.press("k")
    page.wait_for_url(first)


def test_the_evidence_page_shows_the_verdict_its_bounds_its_hashes_and_the_command(served: Served, tab: Open) -> None:
    identifier = httpx.get(f"{served.url}/v1/evidence?task=route").json()["evidence"][-1]["id"]
    stored = httpx.get(f"{served.url}/v1/evidence/{identifier}").json()
    page = tab(served, f"#/evidence/{identifier}")
    page.get_by_text("better", exact=True).wait_for()
    text = page.locator("main").inner_text()
    for digest in (
        stored["candidate_hash"],
        stored["against_hash"],
        stored["data_hash"],
        stored["command"],
        identifier,
    ):
        assert digest in text
    plot = page.get_by_role("img", name="with the gate's bounds").get_attribute("aria-label")
    assert f"{stored['bounds'][0]:+.3f}" in plot
    assert f"{stored['bounds'][1]:+.3f}" in plot
    assert page.locator("main canvas").count() == 1


def test_the_task_page_draws_trend_exploration_and_cost(served: Served, tab: Open) -> None:
    page = tab(served, "#/tasks/route")
    page.get_by_role("heading", name="Cost and quality").wait_for()
    assert page.locator("main canvas").count() == 2
    reply = httpx.get(f"{served.url}/v1/tasks/route/recent").json()
    assert {action["name"] for action in reply["actions"]} == {"small", "large"}
    for entry in reply["actions"]:
        row = page.locator("tr", has=page.get_by_role("cell", name=entry["name"], exact=True)).first
        assert f"{entry['share']:.0%}" in row.inner_text()
    page.goto(f"{served.url}/#/tasks/reply")
    page.get_by_role("heading", name="Policies", exact=True).wait_for()
    assert page.get_by_role("heading", name="Cost and quality").count() == 0


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("#/evidence/evi_none", "There is no evidence 'evi_none'"),
        ("#/tasks/rout", "No task is called 'rout'"),
        ("#/decisions/dec_none", "dec_none"),
    ],
)
def test_missing_pages_are_reported_with_a_hint(served: Served, tab: Open, where: str, message: str) -> None:
    page = tab(served, where)
    page.get_by_role("alert").get_by_text(message).first.wait_for()
    assert page.get_by_role("button", name="Try again").first.is_visible()


def test_the_story_is_told_in_sentences_and_the_card_shows_the_evidence_that_promoted(
    served: Served, tab: Open
) -> None:
    events = httpx.get(f"{served.url}/v1/tasks/route/story").json()["events"]
    page = tab(served, "#/tasks/route")
    told = page.locator("section", has=page.get_by_role("heading", name="Story")).locator("li")
    told.first.wait_for()
    assert told.count() == len(events)
    for row, event in zip(told.all_inner_texts(), reversed(events), strict=True):
        assert named(served, event["text"]) in row
    promoted = next(event for event in events if event["kind"] == "promoted")
    page.goto(f"{served.url}/#/")
    card = page.locator("article", has=page.get_by_role("heading", name="route"))
    link = card.get_by_role("link", name="more than +")
    link.wait_for()
    assert promoted["evidence"] in (link.get_attribute("href") or "")
    worth = httpx.get(f"{served.url}/v1/tasks/route").json()["worth"]["text"]
    card.get_by_text(worth).wait_for()
    for task in httpx.get(f"{served.url}/v1/tasks").json()["tasks"]:  # the same next step as every other door
        card = page.locator("article", has=page.get_by_role("heading", name=task["task"]))
        card.get_by_text(named(served, task["next"]["why"])).wait_for()
        card.get_by_text(task["next"]["command"], exact=True).wait_for()
    page.goto(f"{served.url}/#/evidence/{promoted['evidence']}")
    page.get_by_role("link", name="was trained").click()
    page.get_by_role("heading", name="Runs").wait_for()


@pytest.mark.slow
def test_the_curve_of_quality_and_price_writes_the_weight_into_the_file(own: Served, tab: Open) -> None:
    page = tab(own, "#/tasks/route", cookie=True)
    page.get_by_role("button", name="Draw the curve").click()
    page.get_by_role("slider").wait_for(timeout=120_000)
    page.get_by_role("slider").fill("3")
    before = (own.folder / "headway.toml").read_text("utf-8")
    page.get_by_role("button", name="Use this weight").click()
    page.get_by_role("button", name="Cancel").click()
    assert (own.folder / "headway.toml").read_text("utf-8") == before
    page.get_by_role("button", name="Use this weight").click()
    page.get_by_role("button", name="Write it").click()
    page.get_by_text("Written to line 3 of headway.toml").wait_for()
    after = (own.folder / "headway.toml").read_text("utf-8")
    changed = [pair for pair in zip(before.splitlines(), after.splitlines(), strict=True) if pair[0] != pair[1]]
    assert len(changed) == 1
    assert "solved = 1.0, cost_usd = -" in changed[0][1]


@pytest.mark.slow
def test_a_candidate_that_is_proven_worse_is_not_offered(own: Served, tab: Open) -> None:
    settings = own.folder / "headway.toml"
    good = settings.read_text("utf-8")
    settings.write_text(good.replace("solved = 1.0, cost_usd = -20.0", "solved = -1.0, cost_usd = 20.0"), "utf-8")
    with Project(own.folder, environ={}) as project:  # learns the opposite of what is wanted
        project.rescore("route")
        worse = project.learn("route", seed=9)
    settings.write_text(good, "utf-8")
    with Project(own.folder, environ={}) as project:
        project.rescore("route")
        assert project.prove(worse).word == "worse"
    page = tab(own, "#/ledger?task=route", cookie=True)
    page.get_by_role("cell", name=worse).first.wait_for()
    page.get_by_role("link", name="worse", exact=True).wait_for()
    assert page.get_by_role("button", name=f"Promote {worse}").count() == 0
    assert page.get_by_role("button", name=f"Canary {worse}").count() == 0


def test_a_narrow_screen_needs_no_sideways_scrolling(served: Served, tab: Open) -> None:
    page = tab(served)
    page.set_viewport_size({"width": 390, "height": 800})
    header = "document.querySelector('header').getBoundingClientRect().height"
    places = {name: place(name, served) for name in PAGES}
    for name, where in {**places, "runs": "#/runs", "glossary": "#/glossary", "project": "#/project"}.items():
        page.goto(f"{served.url}/{where}")
        ready(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, name
        assert page.evaluate(header) < 60, "one row"
    page.goto(f"{served.url}/#/ledger")
    ready(page)
    cells = page.locator("table.cards tbody td[data-label]")
    assert cells.count() > 5
    assert all(box["width"] <= 390 for box in (cells.nth(at).bounding_box() for at in range(5)) if box)


def test_an_open_alarm_is_a_banner_until_it_ends(own: Served, tab: Open) -> None:
    with Project(own.folder, environ={}) as project:
        raise_alarm(project, "route", COLLAPSE, who="watch")
        for where in ("#/", "#/tasks/route"):
            page = tab(own, where)
            page.get_by_role("alert").get_by_text("'large' earns 0.35 instead of 0.75 since").wait_for()
        project.end_alarm("route", why="seen")
        page.get_by_role("alert").wait_for(state="detached")


def test_a_running_experiment_shows_its_forecast_until_it_ends(own: Served, tab: Open) -> None:
    with Project(own.folder, environ={}) as project:
        project.start_experiment("route", share=0.3)
        state = project.experiment("route")
        assert state is not None
        end = state.forecast.text if state.forecast else f"ends after {state.most:,} decisions at the latest"
        group = tab(own, "#/tasks/route").get_by_role("group", name="Experiment on route")
        group.get_by_text("decides on 30% of the traffic").wait_for()
        group.get_by_text(f"0 decisions so far; {end}").wait_for()
        for _ in range(3):
            project.decide("route", "How far is it?")
        group.get_by_text("3 decisions so far").wait_for()
        project.stop_experiment("route", why="seen")
        group.wait_for(state="detached")
