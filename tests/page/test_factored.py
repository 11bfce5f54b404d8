"""The page of a factored decision: every head with its choices and their probabilities."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headway.project import Project
from tests.page.browser import Served, serving
from tests.page.conftest import AXE, Open, need
from tests.page.test_views import ready, violations

TOML = """
[tasks.plan]
kind = "factored"
heads = { op = ["ANSWER", "STOP"], model = ["small", "large"] }
needs = { STOP = [] }
"""


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, str]]:
    folder = tmp_path_factory.mktemp("planned") / "desk"
    folder.mkdir()
    (folder / "headway.toml").write_text(TOML, "utf-8")
    with Project(folder) as project:
        pick = project.decide("plan", "What next?", episode="a", masks={"op": ["ANSWER"]})
    with serving(folder) as server:
        yield server, pick.id


@pytest.mark.slow
def test_the_heads_of_a_decision_are_shown(planned: tuple[Served, str], tab: Open) -> None:
    server, decision = planned
    page = tab(server, f"#/decisions/{decision}")
    ready(page)
    heads = page.get_by_role("table").filter(has_text="Head")
    heads.wait_for()
    told = heads.inner_text()
    assert "STOP" in told
    assert "not allowed" in told
    assert "100.0%" in told
    assert "50.0%" in told
    assert "joint probability 50" in page.get_by_text("joint probability").inner_text()
    need(AXE.exists(), "axe-core is not installed")
    assert violations(page) == []
