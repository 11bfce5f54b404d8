"""The numbers on the pages are those of the store, counted another way."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime
from statistics import fmean
from typing import Any

import pytest

from headway.nouns import gap
from headway.project import Project, policy_names
from tests.page.browser import Served
from tests.page.conftest import Open
from tests.page.test_views import ready


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
