"""The pictures of docs/tutorial/tour.md show what its first command makes.

python -m tests.page.test_tour        takes them again, into docs/images; look at them before you commit
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.docs.play import blocks
from tests.page.browser import Served, chromium, launch, serving

TOUR = ROOT / "docs" / "tutorial" / "tour.md"
IMAGES = ROOT / "docs" / "images"
SIZE = {"width": 1240, "height": 760}
FURTHEST = 14.0  # of 255: how much a picture may differ from the stored one, in rough grey


def played(folder: Path) -> Path:
    """The project that the first command of the tour makes."""
    first = next(block for block in blocks(TOUR.read_text("utf-8")) if block.language == "console")
    words = shlex.split(next(line for line in first.text.splitlines() if line.startswith("$ headway demo")))[2:]
    folder.mkdir(exist_ok=True)
    environ = {**os.environ, "LOGNAME": "ada"}  # who promoted it
    subprocess.run([sys.executable, "-m", "headway", *words], cwd=folder, env=environ, check=True, capture_output=True)
    return folder


def pictures(page: Any, served: Served) -> Iterator[tuple[str, bytes]]:
    """Each picture of the tour, by its name."""

    def get(path: str) -> Any:
        return page.evaluate("path => fetch(path).then(answer => answer.json())", path)

    page.goto(served.link())
    (proof, *_) = get("/v1/evidence?task=route")["evidence"]
    (decision, *_) = get("/v1/decisions?task=route&limit=1")["decisions"]
    for name, place in (
        ("overview", "#/"),
        ("task", "#/tasks/route"),
        ("decision", f"#/decisions/{decision['id']}?task=route"),
        ("evidence", f"#/evidence/{proof['id']}"),
        ("ledger", "#/ledger"),
    ):
        page.goto(f"{served.url}/{place}")
        page.get_by_text("Loading…").first.wait_for(state="detached")
        page.get_by_text("live", exact=True).wait_for()
        page.wait_for_load_state("load")
        page.wait_for_timeout(400)  # for the last drawing, as scripts/screenshots.py does
        height = page.get_by_role("main").bounding_box()["height"] + 60  # with the header
        clip = {"x": 0, "y": 0, "width": SIZE["width"], "height": min(height, SIZE["height"])}
        yield f"tour-{name}.png", page.screenshot(clip=clip)


def grey(picture: bytes) -> Any:
    """The picture as rough shades, in which a changed number does not matter and a missing card does."""
    from PIL import Image

    return Image.open(BytesIO(picture)).convert("L").resize((62, 38))


@pytest.mark.timeout(300)
def test_the_pictures_of_the_tour_are_what_a_visitor_sees(tmp_path: Path, browser: Any) -> None:
    shown = re.findall(r"!\[([^\]]+)\]\(\.\./images/(tour-[a-z]+\.png)\)", TOUR.read_text("utf-8"))
    with serving(played(tmp_path / "tour")) as served:
        context = browser.new_context(viewport=SIZE, color_scheme="light", reduced_motion="reduce")
        context.set_default_timeout(60_000)
        taken = dict(pictures(context.new_page(), served))
        context.close()
    assert [name for _, name in shown] == list(taken)
    assert all(len(words) > 20 for words, _ in shown), "a reader who does not see it knows what it shows"
    for name, picture in taken.items():
        fresh, stored = grey(picture), grey((IMAGES / name).read_bytes())
        apart = [abs(one - other) for one, other in zip(fresh.tobytes(), stored.tobytes(), strict=True)]
        assert sum(apart) / len(apart) < FURTHEST, f"{name} shows something else: python -m tests.page.test_tour"


def main() -> None:
    from PIL import Image
    from playwright.sync_api import sync_playwright

    program = chromium()
    if program is None:
        sys.exit("chromium is not on PATH (Debian, Ubuntu: apt install chromium)")
    with (
        tempfile.TemporaryDirectory() as scratch,
        serving(played(Path(scratch) / "tour")) as served,
        sync_playwright() as playwright,
    ):
        browser = launch(playwright, program)
        page = browser.new_page(viewport=SIZE, color_scheme="light", reduced_motion="reduce")
        for name, picture in pictures(page, served):
            Image.open(BytesIO(picture)).quantize(256).save(IMAGES / name, optimize=True)
            print(f"{name}  {(IMAGES / name).stat().st_size / 1000:.0f} kB")
        browser.close()


if __name__ == "__main__":
    main()
