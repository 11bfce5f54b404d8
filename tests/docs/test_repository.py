"""The repository's own files agree with the code."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import yaml

import headway


def test_the_changelog_has_this_version_with_a_date_below_unreleased(root: Path) -> None:
    headings = re.findall(r"^## (.+)$", (root / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert headings[0] == "[Unreleased]"
    assert re.fullmatch(rf"\[{re.escape(headway.__version__)}\] - \d{{4}}-\d\d-\d\d", headings[1])


def test_the_workflow_runs_make_test_on_every_supported_python(root: Path) -> None:
    workflow = yaml.safe_load((root / ".github" / "workflows" / "ci.yml").read_text("utf-8"))
    matrix = workflow["jobs"]["test"]["strategy"]["matrix"]
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    promised = [line.rpartition(" ")[2] for line in project["classifiers"] if re.search(r":: 3\.\d+$", line)]
    assert matrix["python"] == promised
    assert matrix["os"] == ["ubuntu-latest", "macos-latest"]
    targets = {step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step}
    assert targets == {"make test", "make docs"}


def test_every_make_target_that_a_page_or_a_workflow_names_exists(root: Path) -> None:
    known = set(re.findall(r"^([a-z][a-z-]*):", (root / "Makefile").read_text("utf-8"), re.MULTILINE))
    pages = [
        *root.glob("*.md"),
        *(root / "docs").rglob("*.md"),
        *(root / ".github").rglob("*.y*ml"),
        root / ".ci" / "run",
    ]
    named = {
        name for page in pages for name in re.findall(r"(?:`|\$ |run: |exec )make ([a-z-]+)", page.read_text("utf-8"))
    }
    assert {"test", "docs"} <= named <= known


def test_pre_commit_hooks_are_the_tools_of_make_lint(root: Path) -> None:
    repositories = yaml.safe_load((root / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    assert [repository["repo"] for repository in repositories] == ["local"]
    tools = {Path(shlex.split(hook["entry"])[0]).name for hook in repositories[0]["hooks"]}
    assert tools == {"ruff", "mypy", "lint-imports"}
    makefile = (root / "Makefile").read_text("utf-8")
    assert all(f"$(BIN)/{tool}" in makefile for tool in tools)


def test_issue_templates_have_questions(root: Path) -> None:
    for name in ("bug", "feature"):
        form = yaml.safe_load((root / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml").read_text("utf-8"))
        assert form["name"]
        assert form["description"]
        assert any(field.get("validations", {}).get("required") for field in form["body"])
    assert "`make test`" in (root / ".github" / "pull_request_template.md").read_text("utf-8")


def test_the_security_policy_covers_this_version(root: Path) -> None:
    policy = (root / "SECURITY.md").read_text("utf-8")
    assert f"| {headway.__version__.rpartition('.')[0]}.x | yes |" in policy
    assert "docs/explanation/threats.md" in policy
