"""Every snippet of README.md and docs/ does what the page shows, with the packages that its first line names.

Pages that take 2.5 s or more are slow, except README.md and the tutorial.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.environments import environment, needed
from tests.docs.play import RUN, blocks

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NO_RUN_AT_MOST = 7  # apart from those that another test runs
SLOW_PAGES = [
    f"docs/how-to/{name}.md"
    for name in (
        *(
            "agents",
            "alerts",
            "coming_from",
            "experiments",
            "export",
            "factored",
            "grow",
            "import",
            "improve",
            "kits",
            "late_outcomes",
            "models",
            "morph",
            "next_action",
            "online_learning",
            "postgresql",
            "prompts",
        ),
        *("retention", "roll_back", "routing", "run-it-for-real", "simulator", "upgrade", "worlds"),
    )
]
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def runs(page: Path) -> bool:
    # A page that cannot be parsed stays in the list: its test reports the error.
    return any(f"```{language}" in page.read_text("utf-8") for language in (*RUN, "sh", "pycon", "py"))


def test_every_slow_page_exists_and_has_snippets() -> None:
    assert {named(page) for page in PAGES if runs(page)} >= set(SLOW_PAGES)


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The programs of the environment that a page asks for; of this one where it does not say."""
    made: dict[tuple[str, ...], Path] = {}

    def of(page: str) -> Path:
        packages = needed(page)
        if packages is None:
            return Path(sys.executable).parent
        if packages not in made:
            made[packages] = environment(tmp_path_factory.mktemp("environment"), packages, ROOT)
        return made[packages]

    return of


def test_every_how_to_page_says_first_what_it_needs() -> None:
    silent = [named(page) for page in PAGES if page.parent.name == "how-to" and not needed(page.read_text("utf-8"))]
    assert not silent, 'write "Needs: nothing but Headway." or "Needs: `pip install …`." below the title'


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=named(page), marks=[pytest.mark.slow] if named(page) in SLOW_PAGES else [])
        for page in PAGES
        if runs(page)
    ],
)
def test_the_snippets_of_a_page_run_from_an_empty_folder(
    page: Path, tmp_path: Path, programs: Callable[[str], Path], request: pytest.FixtureRequest
) -> None:
    text = page.read_text("utf-8")
    bin_folder = programs(text)
    if re.search(r"headway models|minilm|smollm2", text):
        request.getfixturevalue("model_cache")  # downloaded once, not again for the home of every page
    scratch, keep = tmp_path / "scratch", tmp_path / "keep"
    scratch.mkdir()
    keep.mkdir()
    done = subprocess.run(
        [bin_folder / "python", ROOT / "tests" / "docs" / "play.py", page, keep],
        cwd=scratch,
        env={
            **os.environ,
            "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
            "MPLBACKEND": "Agg",
        },
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_few_snippets_are_skipped_and_each_has_a_reason() -> None:
    out = [
        f"{named(page)}:{block.line}: {block.marks['no-run']}"
        for page in PAGES
        for block in blocks(page.read_text("utf-8"))
        if "no-run" in block.marks
    ]
    print(f"{len(out)} snippets are not run:", *out, sep="\n  ")
    elsewhere = [re.findall(r"tests/\S+\.py", line) for line in out]
    assert all((ROOT / path).exists() for paths in elsewhere for path in paths)
    assert elsewhere.count([]) <= NO_RUN_AT_MOST


@pytest.mark.parametrize(
    "page", [*PAGES, *sorted(set(ROOT.glob("[A-Z]*.md")) - set(PAGES)), ROOT / "benchmarks" / "README.md"], ids=named
)
def test_links_between_pages_have_a_target(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    targets = [match["target"].partition("#")[0] for match in _LINK.finditer(text)]
    gone = [target for target in targets if target and "://" not in target and not (page.parent / target).exists()]
    assert not gone, f"{named(page)} links to {gone}"
