"""The page of a task of several heads: practice by head, accuracy against parameters, an episode in lanes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.page.browser import Served, serving
from tests.page.conftest import AXE, Open, need
from tests.page.growing import write_growth, write_small_growth
from tests.page.test_views import ready, violations


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("growing") / "desk"
    write_small_growth(folder)
    with serving(folder) as server:
        yield server


def test_heads_the_frontier_and_the_lanes_of_an_episode_are_shown(small: Served, tab: Open) -> None:
    page = tab(small, "#/tasks/grow")
    ready(page)
    page.get_by_text("only waits").wait_for()
    heads = page.get_by_role("table").filter(has_text="Gradient norm")
    assert heads.get_by_role("row").filter(has_text="slot").inner_text().split() == [
        "slot",
        "50%",
        "0.56",
        "0.2",
        "0.0625",
    ]
    page.get_by_role("img", name="heads.op.entropy of morph-7-recurrent: 0.12 after 12 lines").wait_for()
    page.get_by_role("button", name="blueprint").press("Enter")
    page.get_by_role("img", name="heads.blueprint.entropy of morph-7-recurrent: 0.89 after 12 lines").wait_for()
    memory = "Magnitude of the memory by the step of an episode: hidden 0.1 at step 0, 0.2 at step 12; cell 0.2 and 0.5"
    page.get_by_role("img", name=memory).wait_for()
    assert "+0.050 (+0.030 to +0.070) better" in page.get_by_role("row").filter(has_text="plateau").inner_text()
    page.get_by_role("img", name="Test accuracy against parameters of seeds at the end for learned, plateau").wait_for()
    page.get_by_role("img", name="r0c0: LORA germinated in epochs 1 to 1, LORA training in epochs 2 to 2").wait_for()
    page.get_by_text("Operations as a table").click()
    page.get_by_role("cell", name="GERMINATE r0c0 LORA LINEAR_ADD FAST HALF").wait_for()
    page.get_by_role("button", name="Next host").press("Enter")
    page.get_by_role("img", name="Slots over 6 epochs. r0c0: empty. Validation accuracy ends at 0.625").wait_for()
    assert page.get_by_role("button", name="Next host").is_disabled()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_inaccessible_or_wider_than_a_phone(small: Served, tab: Open, scheme: str) -> None:
    page = tab(small, "#/tasks/grow", scheme=scheme)
    page.get_by_role("heading", name="An episode, slot by slot").wait_for()
    need(AXE.exists(), "axe-core is not installed")
    assert violations(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_what_the_commands_write_is_what_the_page_shows(tmp_path_factory: pytest.TempPathFactory, tab: Open) -> None:
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("grown") / "desk"
    ref = write_growth(folder, steps=512, hosts=2)
    with serving(folder) as server:
        page = tab(server, "#/tasks/grow")
        page.get_by_role("heading", name="An episode, slot by slot").wait_for()
        assert ref in page.get_by_text("on a held-out host").inner_text()
        assert "fixed schedule" in page.get_by_role("table").filter(has_text="Net of rent").inner_text()
        heads = page.get_by_role("table").filter(has_text="Gradient norm")
        for name in ("op", "slot", "blueprint", "style", "tempo", "alpha_target", "alpha_speed", "alpha_curve"):
            heads.get_by_role("button", name=name, exact=True).wait_for()
        lanes = page.get_by_role("img", name="Slots over 50 epochs").get_attribute("aria-label")
        assert "fossilized in epochs" in lanes
