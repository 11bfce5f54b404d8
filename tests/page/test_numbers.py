"""The numbers on the pages are those of the store, counted another way: as played, and after an alarm and rollback."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from headway.nouns import gap
from headway.observe.recent_rows import _SMALLEST
from headway.project import Project, policy_names
from headway.project.alarm import raise_alarm
from tests.page.browser import Served, serving
from tests.page.conftest import Open
from tests.page.test_views import COLLAPSE, ready


@pytest.fixture(scope="module", params=["as played", "taken back"])
def served(past: Path, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The shared history; and the same after an alarm, a rollback and 120 more decisions, 90 of them with outcomes."""
    folder = Path(shutil.copytree(past, tmp_path_factory.mktemp("numbers") / "desk"))
    if request.param == "taken back":
        with Project(folder, environ={}, seed=11) as project:
            raise_alarm(project, "route", COLLAPSE, who="watch")
            project.rollback("route")
            for number in range(120):
                pick = project.decide("route", f"after the rollback {number}")
                if number % 4:
                    project.signal(pick.id, solved=number % 3 > 0, cost_usd=0.001, latency_s=1.0)
            project.settle("route")
    with serving(folder) as server:
        yield server


def plain(text: str) -> str:
    """As it is shown, with an ASCII minus and without commas in numbers."""
    return text.replace("−", "-").replace(",", "")


def facts(page: Any, title: str) -> dict[str, str]:
    """A list of names and values below a heading."""
    section = page.locator("section", has=page.get_by_role("heading", name=title, exact=True))
    section.locator("dt").first.wait_for()
    names, values = section.locator("dt").all_inner_texts(), section.locator("dd").all_inner_texts()
    return dict(zip(names, map(plain, values), strict=True))


def card_of(page: Any, name: str) -> Any:
    return page.locator("article", has=page.get_by_role("heading", name=name, exact=True))


def big(card: Any, title: str) -> str:
    return str(card.locator(f"h3:has-text('{title}') + p").inner_text()).replace("−", "-")


@pytest.mark.parametrize("task", ["route", "reply"])
def test_the_overview_counts_what_is_stored_and_today_is_a_part_of_it(served: Served, tab: Open, task: str) -> None:
    page = tab(served)
    ready(page)
    card = card_of(page, task)
    card.get_by_text(re.compile(r"\d today")).wait_for()
    with Project(served.folder, environ={}) as project:
        rows = project.query.latest(task, 10**6)
        settled = {row.decision.id: row for row in project.query.settled(task, signals=True)}
        signals = sum(len(project.query.signals(row.id)) for row in rows[:20])
        current = project.current(task).ref
        title = policy_names(project, task)[current].text if current in policy_names(project, task) else current
        made = project.ledger.current(task)
        evidence = None if made is None or not made.evidence_id else project.verdict(made.evidence_id).evidence
    today = datetime.now(UTC).date()
    of_today = sum(datetime.fromtimestamp(row.at, UTC).date() == today for row in rows)
    assert int(big(card, "Decisions").replace(",", "")) == len(rows)
    assert int(big(card, "Signals").replace(",", "")) >= signals > 0
    text = card.inner_text().replace("−", "-")
    assert f"{of_today:,} today" in text
    assert f"{len(rows) - len(settled):,} without an outcome yet" in text
    assert big(card, "Current policy") == title
    if evidence is not None:
        assert evidence.bounds is not None
        assert big(card, "Proven uplift") == f"more than {gap(evidence.bounds[0])}"
        assert f"95% interval {gap(evidence.difference.low)} to {gap(evidence.difference.high)}" in text


def test_the_task_page_shows_shares_and_means_of_the_store(served: Served, tab: Open) -> None:
    page = tab(served, "#/tasks/route")
    page.get_by_role("heading", name="Policies", exact=True).wait_for()
    with Project(served.folder, environ={}) as project:
        rows = project.query.latest("route", 5000)
        rewards = {row.decision.id: row.reward for row in project.query.settled("route")}
        low, high = project.rewards("route").range
    for action, count in Counter(row.action for row in rows).items():
        told = [rewards[row.id] for row in rows if row.action == action and rewards.get(row.id) is not None]
        shown = page.locator("tr", has=page.get_by_role("cell", name=action, exact=True)).first.inner_text()
        shown = shown.replace("−", "-").replace(",", "")
        assert f"{count / len(rows):.0%}" in shown
        assert f"{fmean(told):+.3f}" in shown
        ends = [float(word) for word in shown.split() if word.lstrip("+-").replace(".", "", 1).isdigit()]
        assert all(min(low, fmean(told)) <= end <= max(high, fmean(told)) or end > 1 for end in ends)


def test_the_ledger_numbers_every_row_once_and_the_evidence_list_has_the_stored_numbers(
    served: Served, tab: Open
) -> None:
    with Project(served.folder, environ={}) as project:
        rows = sorted((row.seq for task in project.tasks() for row in project.ledger.entries(task)), reverse=True)
        proofs = [project.verdict(row[0]).evidence for row in project.ledger.evidences(None, 100)]
    page = tab(served, "#/ledger")
    ready(page)
    cells = page.locator("section[aria-labelledby='rows'] td[data-label='Row']")
    cells.first.wait_for()
    assert [int(cell) for cell in cells.all_inner_texts()] == rows
    assert len(set(rows)) == len(rows)
    page.goto(f"{served.url}/#/evidence")
    page.locator("td[data-label='Rows']").first.wait_for()
    shown = page.locator("td[data-label='Rows']").all_inner_texts()
    values = [text.replace("−", "-") for text in page.locator("td[data-label='Difference']").all_inner_texts()]
    assert [int(cell.replace(",", "")) for cell in shown] == [proof.n for proof in proofs if proof is not None]
    for value, proof in zip(values, proofs, strict=True):
        assert proof is not None
        assert value in (gap(proof.difference.value), "–")


def test_the_overview_shows_the_means_of_the_newest_decisions(served: Served, tab: Open) -> None:
    page = tab(served)
    ready(page)
    for task in ("route", "reply"):
        card = card_of(page, task)
        card.get_by_text(re.compile("latest")).wait_for()
        with Project(served.folder, environ={}) as project:
            rows = project.query.latest(task, 2000)
            rewards = {row.decision.id: row.reward for row in project.query.settled(task)}
        assert f"latest {len(rows):,}" in card.inner_text()
        size = max(_SMALLEST, -(-len(rows) // 40))
        parts = [[rewards.get(row.id) for row in rows[at : at + size]] for at in range(0, len(rows), size)]
        told = [[reward for reward in part if reward is not None] for part in parts]
        newest = [reward for part in [part for part in told if part][:5] for reward in part]
        assert big(card, "Mean reward") == f"{fmean(newest):+.3f}"
        tried = fmean(1.0 - max(row.probabilities) for row in rows[:size])
        assert big(card, "Exploration") == f"{100 * tried:.0f}%"


def test_the_task_page_counts_policies_outcomes_and_sources(served: Served, tab: Open) -> None:
    page = tab(served, "#/tasks/route")
    listed = facts(page, "Outcomes and settings")
    with Project(served.folder, environ={}) as project:
        rows = project.query.latest("route", 5000)
        settled = {row.decision.id: row for row in project.query.settled("route", signals=True)}
        low, high = project.rewards("route").range
    states = Counter(settled[row.id].status if row.id in settled else "pending" for row in rows)
    for status in ("pending", "rewarded", "failed", "censored"):
        assert int(listed[status]) == states[status]
    sources = Counter(row.source for row in rows)
    assert dict(re.findall(r"(\w+) (\d+)", listed["source"])) == {source: str(n) for source, n in sources.items()}
    assert listed["range"] == f"{low:g} to {high:g}"
    assert listed["reward"] == "1 × solved - 20 × cost_usd"
    for policy, count in Counter(row.policy for row in rows).items():
        row = page.locator("section[aria-labelledby='policies'] tr", has=page.locator("code", has_text=policy)).first
        cells = dict(zip(("Decisions", "Mean reward", "cost_usd"), map(plain, (
            row.locator(f"td[data-label='{label}']").inner_text() for label in ("Decisions", "Mean reward", "cost_usd")
        )), strict=True))  # fmt: skip
        mine = [settled[one.id] for one in rows if one.policy == policy and one.id in settled]
        assert int(cells["Decisions"]) == count
        assert cells["Mean reward"] == f"{fmean(one.reward for one in mine if one.reward is not None):+.3f}"
        cost = fmean(one.signals["cost_usd"] for one in mine if "cost_usd" in one.signals)
        assert float(cells["cost_usd"].lstrip("$")) == pytest.approx(cost, rel=0.05)


def test_an_evidence_page_shows_the_stored_numbers(served: Served, tab: Open) -> None:
    with Project(served.folder, environ={}) as project:
        stored = [project.verdict(row[0]) for row in project.ledger.evidences("route", 10)]
    for verdict in stored:
        evidence = verdict.evidence
        assert evidence is not None
        assert evidence.bounds is not None
        page = tab(served, f"#/evidence/{evidence.id}")
        page.locator("dl.numbers dd").first.wait_for()
        names = page.locator("dl.numbers dt").all_inner_texts()
        shown = dict(zip(names, map(plain, page.locator("dl.numbers dd").all_inner_texts()), strict=True))
        difference = evidence.difference
        assert shown["Gate's bounds"] == " to ".join(map(gap, evidence.bounds))
        assert shown["Difference"] == gap(difference.value)
        assert shown["95% interval"] == f"{gap(difference.low)} to {gap(difference.high)}"
        assert int(shown["Effective sample size"]) == round(difference.ess)
        assert f"{evidence.n} decisions compared" in plain(page.locator("main").inner_text())
        estimates = [] if verdict.disowned else list(evidence.values.values())
        means = sorted(map(plain, page.locator("td[data-label='Mean']").all_inner_texts()))
        assert means == sorted(f"{estimate.value:.3f}" for estimate in estimates)
        ranges = sorted(map(plain, page.locator("td.range").all_inner_texts()))
        assert ranges == sorted(f"{one.low:.3f} to {one.high:.3f}" for one in estimates)
        counts = facts(page, "The data")
        assert int(counts["rewarded"]) == evidence.counts["rewarded"]
        failed = sum(not check.ok for check in evidence.diagnostics)
        assert (f"{failed} check" in page.locator("main").inner_text()) == (failed > 0)


def test_the_decisions_show_the_stored_choice_probability_and_reward(served: Served, tab: Open) -> None:
    page = tab(served, "#/decisions?task=route")
    page.locator("td[data-label='Chosen']").nth(20).wait_for()
    with Project(served.folder, environ={}) as project:
        rows = project.query.latest("route", 20)
        rewards = {row.decision.id: row.reward for row in project.query.settled("route")}
        signals = {row.id: project.query.signals(row.id, live=True) for row in rows}
    cells = {
        label: page.locator(f"td[data-label='{label}']").all_inner_texts()[:20]
        for label in ("Chosen", "Probability", "Reward")
    }
    assert cells["Chosen"] == [row.action for row in rows]
    assert cells["Probability"] == [f"{100 * row.propensity:.0f}%" for row in rows]
    told = [rewards.get(row.id) for row in rows]
    assert [plain(cell) for cell in cells["Reward"]] == ["pending" if one is None else f"{one:+.2f}" for one in told]
    chosen = next((row for row in rows if signals[row.id]), rows[0])
    page.goto(f"{served.url}/#/decisions/{chosen.id}")
    page.locator("table.candidates td.number").first.wait_for()
    shown = plain(page.locator("section[aria-labelledby='decision']").inner_text())
    for candidate, share in zip(chosen.candidates, chosen.probabilities, strict=True):
        line = page.locator("table.candidates tr", has=page.get_by_text(candidate.name)).first.inner_text()
        assert f"{100 * share:.1f}%" in line
    if rewards.get(chosen.id) is not None:
        assert f"reward {rewards[chosen.id]:+.3f}" in shown


def test_a_training_run_shows_how_many_decisions_it_learned_from(served: Served, tab: Open) -> None:
    with Project(served.folder, environ={}) as project:
        newest = next(row for row in reversed(list(project.ledger.entries("route"))) if row.kind == "candidate")
        made = int(plain(newest.why).split()[2])  # "learned from 2640 decisions"
    page = tab(served, "#/runs")
    page.get_by_placeholder("Search the numbers").fill("rows")
    learned = page.get_by_role("heading", name="decisions learned from", exact=True).locator("xpath=..")
    learned.get_by_text(re.compile(rf"\b({made}|{made:,})$")).first.wait_for()
