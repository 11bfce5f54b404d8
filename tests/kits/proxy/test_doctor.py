"""`headway doctor` names what keeps the proxy from calling an upstream."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.terminal import headway

TOML = """
[tasks.route]
actions = ["small", "lage"]
[upstreams.small]
url = "http://127.0.0.1:9/v1"
model = "tiny"
key_env = "SMALL_TEST_KEY"
[upstreams.large]
url = "http://127.0.0.1:9/v1"
model = "huge"
"""


def test_doctor_names_an_unset_key_and_an_action_without_an_upstream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "headway.toml").write_text(TOML)
    done = headway("-C", tmp_path, "doctor", "--json")
    checks = {check["name"]: check for check in done.json["checks"]}
    assert done.code == 1
    assert "SMALL_TEST_KEY is not set" in checks["upstream small"]["found"]
    assert "export SMALL_TEST_KEY" in checks["upstream small"]["cure"]
    assert checks["upstream large"]["ok"]
    assert "'lage'" in checks["actions of route"]["found"]
    assert "'large'" in checks["actions of route"]["cure"]
    (tmp_path / "headway.toml").write_text(TOML.replace("lage", "large"))
    monkeypatch.setenv("SMALL_TEST_KEY", "k")
    mended = headway("-C", tmp_path, "doctor", "--json").json["checks"]
    assert not [check for check in mended if check["ok"] is False and check["name"].startswith(("upstream", "actions"))]
