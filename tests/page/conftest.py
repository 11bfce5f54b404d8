"""A real browser, a real server, a project with history.

tab(server, "#/ledger")     a new tab, with or without the page's cookie; fails on errors in the console
served                      a server over one shared history, for tests that change nothing for others
own                         a server over a copy of it, for this test alone
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.serve import page as page_files
from tests.page.browser import Served, chromium, launch, serving
from tests.page.history import write_history

ROOT = Path(__file__).resolve().parents[2]
AXE = ROOT / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"
TIMEOUT_MS = 15_000
LATE_MS = int(os.environ.get("PAGE_LATE_MS", "0"))  # every request this much later: shows waits that wait for nothing


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test of a run writes twelve days of history, which takes minutes on a busy machine."""
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(400))


def need(there: bool, reason: str) -> None:
    """Skip with the reason; under CI fail, because a skip could go unnoticed."""
    if there:
        return
    if os.environ.get("CI"):
        pytest.fail(f"{reason}, and CI is set", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="module")  # Playwright's loop runs as long as it is open: other modules need their own loop
def browser() -> Iterator[Any]:
    need(page_files.built(), "the page is not built (make page)")
    program = chromium()
    need(program is not None, "no chromium on PATH (apt install chromium)")
    assert program is not None
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        opened = launch(playwright, program)
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def past(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve days of history, written once."""
    folder = tmp_path_factory.mktemp("page") / "past"
    write_history(folder, now=time.time(), per_day=220)
    return folder


@pytest.fixture(scope="module")
def served(past: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served") / "desk"
    shutil.copytree(past, folder)
    with serving(folder) as server:
        yield server


@pytest.fixture
def own(past: Path, tmp_path: Path) -> Iterator[Served]:
    folder = tmp_path / "desk"
    shutil.copytree(past, folder)
    with serving(folder) as server:
        yield server


Open = Callable[..., Any]


@pytest.fixture
def tab(browser: Any) -> Iterator[Open]:
    """Opens `tab(server, "#/ledger", cookie=True, scheme="dark")`; fails if a page reported an error."""
    contexts: list[Any] = []
    problems: list[str] = []

    def open_tab(server: Served, place: str = "#/", *, cookie: bool = False, scheme: str = "light") -> Any:
        context = browser.new_context(
            color_scheme=scheme, reduced_motion="reduce", viewport={"width": 1240, "height": 800}
        )
        context.set_default_timeout(TIMEOUT_MS)
        contexts.append(context)
        if LATE_MS:
            context.add_init_script(_late(LATE_MS))
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(f"error: {error}"))
        page.on("console", lambda message: problems.append(message.text) if _serious(message) else None)
        page.on("request", lambda asked: problems.append(f"left: {asked.url}") if _leaves(asked.url, server) else None)
        if cookie:
            page.goto(server.link())
        page.goto(f"{server.url}/{place}")
        return page

    yield open_tab
    for opened_context in contexts:
        opened_context.close()
    assert not problems


def _late(ms: int) -> str:
    return f"""const fetched = window.fetch
        window.fetch = (...asked) => new Promise(go => setTimeout(go, {ms})).then(() => fetched(...asked))"""


def _serious(message: Any) -> bool:
    """A refused script, style or image, or a warning of our own; error answers to requests do not count."""
    return message.type in ("error", "warning") and not message.text.startswith("Failed to load resource")


def _leaves(url: str, server: Served) -> bool:
    return not url.startswith((f"{server.url}/", "about:", "blob:"))
