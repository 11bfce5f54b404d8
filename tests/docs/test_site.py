"""The documentation site builds without warnings, has no broken links, and loads nothing from other hosts.

Building the whole site is slow (`make docs` does it too); every run builds a small one with known mistakes.
"""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytestmark = pytest.mark.timeout(400)  # the build takes 5 s of CPU, and longer on a busy machine
STRICT = ("--quiet", "--fail-on-warning", "--keep-going")  # as `make docs`
LOADS = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src"}


class Page(HTMLParser):
    """The ids of a page, its links, and the resources that it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids.add(given.get("id", ""))
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in LOADS and LOADS[tag] in given:
            self.loads.append(given[LOADS[tag]])


def build(source: Path, out: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sphinx", *STRICT, "-c", source / "docs", "-d", out / "doctrees", source, out / "site"],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


@pytest.fixture(scope="module")
def site(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    done = build(root, out)
    assert done.returncode == 0, done.stderr
    return out / "site"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html")}


@pytest.mark.slow
def test_every_page_is_built(site: Path, root: Path) -> None:
    missing = [
        path.relative_to(root).as_posix()
        for path in [*root.glob("*.md"), *(root / "docs").rglob("*.md"), root / "benchmarks" / "README.md"]
        if not (site / path.relative_to(root).with_suffix(".html")).exists()
    ]
    assert not missing


@pytest.mark.slow
def test_every_link_and_anchor_has_a_target(site: Path, pages: dict[Path, Page]) -> None:
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            if not target.exists() or (anchor and target in pages and anchor not in pages[target].ids):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert not broken


@pytest.mark.slow
def test_every_page_can_be_reached_from_the_home_page(site: Path, pages: dict[Path, Page]) -> None:
    seen: set[Path] = set()
    waiting = [site / "docs" / "index.html"]
    while waiting:
        path = waiting.pop()
        if path in seen or path not in pages:
            continue
        seen.add(path)
        waiting += [(path.parent / urlsplit(link).path).resolve() for link in pages[path].links]
    unreached = {path.relative_to(site).as_posix() for path in pages if path not in seen}
    assert unreached <= {"index.html", "genindex.html", "search.html"}


@pytest.mark.slow
def test_the_site_loads_nothing_from_another_host(site: Path, pages: dict[Path, Page]) -> None:
    foreign = [f"{path.relative_to(site)}: {url}" for path, page in pages.items() for url in page.loads if "//" in url]
    for path in site.rglob("*.css"):
        foreign += [
            f"{path.relative_to(site)}: {match[0]}"
            for match in re.finditer(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//[^'\")]+", path.read_text("utf-8"))
        ]
    assert not foreign


def test_a_broken_link_a_missing_anchor_and_an_orphan_page_fail_the_build(root: Path, tmp_path: Path) -> None:
    source = tmp_path / "repository"
    (source / "docs" / "_templates").mkdir(parents=True)
    for name in ("docs/conf.py", "docs/_templates/redirect.html", "pyproject.toml"):
        (source / name).write_text((root / name).read_text("utf-8"), "utf-8")
    (source / "docs" / "index.md").write_text(
        "# Home\n\n- **Tutorial**\n  - [One](one.md)\n\n[gone](two.md) [nowhere](one.md#nowhere)\n", "utf-8"
    )
    (source / "docs" / "one.md").write_text("# One\n", "utf-8")
    (source / "docs" / "lost.md").write_text("# Lost\n", "utf-8")
    done = build(source, tmp_path)
    assert done.returncode != 0
    assert "'two.md'" in done.stderr
    assert "'nowhere'" in done.stderr
    assert "lost.md: WARNING: document isn't included in any toctree" in done.stderr
