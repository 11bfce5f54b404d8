"""What a release installs: locked with hashes, looked up, listed."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
LOCKED = (ROOT / "requirements" / "locked" / "headway.txt").read_text("utf-8")
_HASHES = r"((?:\n    --hash=sha256:[0-9a-f]{64}[ \\]*)*)"
_PACKAGE = re.compile(rf"^([A-Za-z0-9_.-]+)==([^\s;\\]+)[^\n]*{_HASHES}", re.MULTILINE)


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_locked_package_has_hashes_and_the_version_of_the_constraints() -> None:
    packages = {normal(match[1]): (match[2], match[3]) for match in _PACKAGE.finditer(LOCKED)}
    assert len(packages) == len(re.findall(r"^\S", LOCKED, re.MULTILINE)) > 50
    assert all(hashes for _, hashes in packages.values())
    pins = dict(
        line.split("==") for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines() if "#" not in line
    )
    versions = {normal(name): version for name, version in pins.items()}
    assert not {name for name, (version, _) in packages.items() if versions.get(name, version) != version}
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    assert {normal(re.split(r"[\s<>=!~\[;]", one)[0]) for one in asked} <= packages.keys()


@pytest.mark.parametrize(
    ("packages", "code", "says"),
    [
        ([{"name": "a", "version": "1", "vulns": []}], 0, "1 packages looked up: no vulnerability is known."),
        ([{"name": "a", "skip_reason": "not found"}], 2, "NOT AUDITED: 1 of 1 packages could not be looked up (a)."),
        (
            [{"name": "a", "version": "1", "vulns": [{"id": "CVE-1", "fix_versions": ["2"]}]}],
            1,
            "CVE-1, fixed in 2",
        ),
        (None, 2, "NOT AUDITED: pip-audit gave no answer."),
    ],
)
def test_an_audit_says_what_it_could_not_look_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], packages: Any, code: int, says: str
) -> None:
    text = "" if packages is None else json.dumps({"dependencies": packages})
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0, text, ""))
    assert runpy.run_path(str(ROOT / "scripts" / "audit.py"))["main"]([]) == code
    seen = capsys.readouterr()
    assert says in seen.out + seen.err


def test_a_release_is_audited_and_lists_what_it_installs() -> None:
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8")
    assert workflow.index("make audit") < workflow.index("make sbom") < workflow.index("upload-artifact")
    assert "build/headway.cdx.json" in workflow
