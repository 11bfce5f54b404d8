"""Sphinx settings of the documentation site: `make docs` builds it into build/docs.

The source folder is the repository, so that links between README.md, docs/ and the other pages work on the site as they
do in a checkout. docs/index.md is the home page, and its list of links is also the navigation.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parent.parent

project = "Headway"
author = "The Headway maintainers"
project_copyright = "The Headway maintainers, Apache-2.0"
release = version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
language = "en"

extensions = ["myst_parser"]
root_doc = "docs/index"
source_suffix = {".md": "markdown"}
include_patterns = ["*.md", "docs/**", "benchmarks/README.md", "clients/*/README.md"]
exclude_patterns = [".*", "build", "**/node_modules", "src", "tests", "docs/_templates"]

# Anchors are GitHub's, so that a link works in both places. A missing page or heading fails `make docs`.
myst_heading_anchors = 4
nitpicky = True

html_theme = "furo"
html_title = f"Headway {release}"
html_copy_source = False
html_show_sphinx = False
html_additional_pages = {"index": "redirect.html"}  # the home page lies in docs/: "/" leads there
templates_path = ["_templates"]
pygments_style = "default"

_GROUP = re.compile(r"^- \*\*(?P<title>[^*]+)\*\*")
_PAGE = re.compile(r"^ +- \[[^\]]+\]\((?P<page>[^)#\s]+)\.md\)")
PROJECT_PAGES = (
    "README",
    "ARCHITECTURE",
    "CONTRIBUTING",
    "SECURITY",
    "CHANGELOG",
    "benchmarks/README",
    "clients/typescript/README",
)


def navigation(index: str) -> str:
    """The hidden tables of contents that a list of links stands for: one per group, in the order of the list."""
    groups: dict[str, list[str]] = {}
    for line in index.splitlines():
        if group := _GROUP.match(line):
            groups[group["title"]] = []
        elif (page := _PAGE.match(line)) and groups:
            groups[next(reversed(groups))].append(f"/docs/{page['page']}")
    groups["Project"] = [f"/{page}" for page in PROJECT_PAGES]
    return "\n".join(
        "\n".join(["", "```{toctree}", ":hidden:", f":caption: {title}", "", *pages, "```", ""])
        for title, pages in groups.items()
    )


def add_navigation(_app: Sphinx, document: str, source: list[str]) -> None:
    """Append the navigation to the home page while it is read; the file itself stays plain Markdown."""
    if document == root_doc:
        source[0] += navigation(source[0])


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", add_navigation)
