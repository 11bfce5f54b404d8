"""Makes docs/images/page-*.png: the dashboard over twelve days of synthetic traffic, in light and dark.

python scripts/screenshots.py [folder]        # needs chromium on PATH and the page built (`make page`)
"""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from random import Random

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from PIL import Image  # noqa: E402
from playwright.sync_api import Browser, Page, sync_playwright  # noqa: E402

from headway.kits.models.language import Prompt  # noqa: E402
from headway.kits.reply.client import LanguageWorker  # noqa: E402
from headway.kits.reply.wire import socket_of  # noqa: E402
from headway.observe.run_log import RunLog  # noqa: E402
from tests.page.browser import Served, chromium, launch, serving  # noqa: E402
from tests.page.growing import TASK as GROW, write_growth  # noqa: E402
from tests.page.history import write_history  # noqa: E402
from tests.page.ranking import ACTIONS, TASK, write_ranking  # noqa: E402
from tests.page.replying import write_replies  # noqa: E402

SIZE = {"width": 1240, "height": 760}
PHONE = {"width": 390, "height": 844}
ASKED = [
    ("What is the capital of France?", "5"),
    ("Name three rivers there.", "2"),
    ("Write a haiku about one of them.", "+"),
]


def main(target: Path) -> None:
    program = chromium()
    if program is None:
        sys.exit("chromium is not on PATH (Debian, Ubuntu: apt install chromium)")
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "support-desk"
        write_history(folder, now=time.time())
        write_runs(folder)
        with serving(folder) as served, sync_playwright() as playwright:
            browser = launch(playwright, program)
            for scheme, only in (("light", ()), ("dark", ("overview", "decisions"))):
                context = browser.new_context(viewport=SIZE, color_scheme=scheme, reduced_motion="reduce")
                page = context.new_page()
                page.goto(served.link())
                for name, place in places(page):
                    if only and name not in only:
                        continue
                    page.goto(f"{served.url}/{place}")
                    settle(page)
                    save(page.screenshot(full_page=True), target / f"page-{name}-{scheme}.png")
                context.close()
            phone(browser, served, target)
            browser.close()
    ranking(target / "page-ranking-light.png", program)
    growing(target / "page-growing-light.png", program)
    chatting(target / "page-chat-light.png", program)
    for path in sorted(target.glob("page-*.png")):
        print(f"{path.name}  {path.stat().st_size / 1000:.0f} kB")


def phone(browser: Browser, served: Served, target: Path) -> None:
    """The first screens on a phone."""
    context = browser.new_context(viewport=PHONE, reduced_motion="reduce")
    page = context.new_page()
    page.goto(served.link())
    for name, place in (("overview", "#/"), ("task", "#/tasks/route"), ("decisions", "#/decisions?task=route")):
        page.goto(f"{served.url}/{place}")
        settle(page)
        save(page.screenshot(), target / f"page-{name}-phone.png")
    context.close()


def write_runs(folder: Path) -> None:
    """Two finished runs of different seeds, as a learner writes them; the numbers are made up."""
    for seed in (1, 2):
        random, log = Random(seed), RunLog(folder / ".headway" / "work" / f"cartpole-v1-{seed}")
        log.begin({"task": "cartpole", "family": "actor_critic", "world": "CartPole-v1", "seed": seed})
        for update in range(120):
            part = update / 120
            log.add(
                {
                    "steps": update * 512,
                    "mean_return": 500 / (1 + math.exp(-9 * (part - 0.35 - 0.1 * seed))) + random.gauss(0, 12),
                    "entropy": 0.69 - 0.3 * part + random.gauss(0, 0.01),
                    "policy_loss": random.gauss(-0.01, 0.004),
                    "value_loss": 30 * math.exp(-4 * part) + random.random(),
                }
            )
        log.end(f"actor_critic@{seed}a0f")


def save(taken: bytes, path: Path) -> None:
    """256 colours are enough for flat surfaces, and a third of the bytes."""
    Image.open(BytesIO(taken)).quantize(256).save(path, optimize=True)


def ranking(path: Path, program: str) -> None:
    """The page of a ranking task, from its form to the rounds of an improver."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "words"
        write_ranking(folder)
        with serving(folder) as served, sync_playwright() as playwright:
            browser = launch(playwright, program)
            page = browser.new_page(viewport=SIZE, reduced_motion="reduce")
            page.goto(f"{served.url}/#/tasks/{TASK}")
            page.get_by_role("heading", name="Calibration over time").wait_for()
            for place, action in enumerate(ACTIONS[:2]):
                page.get_by_label("Description").nth(place).fill(str(action["description"]))
                page.get_by_label("Type").nth(place).fill(str(action["type"]))
                page.get_by_label("Scope").nth(place).select_option(str(action["scope"]))
            page.get_by_role("button", name="Rank", exact=True).click()
            page.get_by_role("list", name="Ranked actions").wait_for()
            settle(page)
            page.evaluate("scrollTo(0, 0)")
            first = page.locator("section", has=page.get_by_role("heading", name="Rank actions")).bounding_box()
            last = page.locator("section", has=page.get_by_role("heading", name="Improver up")).bounding_box()
            assert first is not None
            assert last is not None
            height = last["y"] + last["height"] - first["y"] + 32
            clip = {"x": 0, "y": first["y"] - 16, "width": SIZE["width"], "height": height}
            save(page.screenshot(full_page=True, clip=clip), path)
            browser.close()


def growing(path: Path, program: str) -> None:
    """The page of a task that grows networks: a short practice, and the evaluation of a stored policy."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "networks"
        write_growth(folder)
        with serving(folder) as served, sync_playwright() as playwright:
            browser = launch(playwright, program)
            page = browser.new_page(viewport={"width": 1400, "height": 900}, reduced_motion="reduce")
            page.goto(f"{served.url}/#/tasks/{GROW}")
            page.get_by_role("heading", name="An episode, slot by slot").wait_for()
            page.get_by_role("img", name="explained_variance of").wait_for()
            settle(page)
            save(page.screenshot(full_page=True), path)
            browser.close()


@contextmanager
def worker(folder: Path) -> Iterator[None]:
    """The language worker of a project, with its model loaded: the first reply takes as long as the others."""
    process = subprocess.Popen([sys.executable, "-m", "headway", "-C", str(folder), "worker"])
    try:
        while not socket_of(folder).exists():
            assert process.poll() is None, "the worker has ended"
            time.sleep(0.1)
        LanguageWorker(folder, "smollm2").generate([Prompt(text="Hello", max_tokens=1)])
        yield
    finally:
        process.terminate()
        process.wait()


def chatting(path: Path, program: str) -> None:
    """A conversation with SmolLM2 (`headway models add smollm2`), rated with single keys."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "home"
        write_replies(folder, now=time.time())
        with worker(folder), serving(folder) as served, sync_playwright() as playwright:
            browser = launch(playwright, program)
            page = browser.new_page(viewport={"width": 1400, "height": 900}, reduced_motion="reduce")
            page.set_default_timeout(120_000)
            page.goto(f"{served.url}/#/chat")
            for count, (asked, key) in enumerate(ASKED, start=1):
                page.get_by_label("Message").fill(asked)
                page.get_by_label("Message").press("Enter")
                page.get_by_role("article").nth(count - 1).get_by_role("group", name="Rate this reply").wait_for()
                page.wait_for_function("() => document.activeElement.matches('article')")
                page.keyboard.press(key)
            page.get_by_text(f"{len(ASKED)} replies, {len(ASKED)} rated").wait_for()
            settle(page)
            save(page.screenshot(full_page=True), path)
            browser.close()


def places(page: Page) -> list[tuple[str, str]]:
    """The name and the address of every screenshot."""

    def get(path: str) -> dict:  # type: ignore[type-arg]
        return dict(page.evaluate("path => fetch(path).then(answer => answer.json())", path))

    proofs = get("/v1/evidence?task=route")["evidence"]
    passed = next(proof["id"] for proof in proofs if proof["state"] == "pass")
    waits = next((proof["id"] for proof in proofs if proof["state"] != "pass"), passed)
    (decision, *_) = get("/v1/decisions?task=route&limit=1")["decisions"]
    return [
        ("overview", "#/"),
        ("task", "#/tasks/route"),
        ("evidence", f"#/evidence/{passed}"),
        ("evidence-waits", f"#/evidence/{waits}"),
        ("ledger", "#/ledger"),
        ("decisions", f"#/decisions/{decision['id']}?task=route"),
        ("runs", "#/runs/cartpole-v1-1/cartpole-v1-2"),
    ]


def settle(page: Page) -> None:
    """Waits until everything is loaded and drawn."""
    page.get_by_text("Loading…").first.wait_for(state="detached")
    page.get_by_text("live", exact=True).wait_for()
    page.wait_for_load_state("load")
    page.wait_for_timeout(400)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images")
