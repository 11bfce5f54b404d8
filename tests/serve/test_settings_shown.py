"""What the page's administrator sees and changes of headway.toml: no secret, no other line, no file by a link."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tests.serve.conftest import Running

KEY = "sk-proj-Ab12Cd34Ef56Gh78Ij90Kl12"
SETTINGS = f"""
# {KEY} postgresql://user:hunter2pass@example.org/db
[store]
redact = []
[upstreams.small]
url = "https://example.org/v1"
model = "m"
key_env = "SMALL_KEY"
[tasks.route]
actions = ["small", "b"]
reward = {{ solved = 1.0 }}  # mine
"""


def test_the_settings_that_are_shown_hold_no_secret_whatever_texts_are_redacted(served: Callable[..., Running]) -> None:
    server = served(SETTINGS, env={**os.environ, "SMALL_KEY": KEY})
    for path in ("/v1/settings", "/v1/doctor", "/v1/keys", "/v1/local_models", "/v1/tasks/route/settings"):
        shown = server.client.get(path, headers=server.token)
        assert shown.status_code == 200
        assert KEY not in shown.text
        assert "hunter2pass" not in shown.text
        if path in ("/v1/settings", "/v1/doctor", "/v1/keys"):
            assert server.client.get(path).status_code == 401, "on this machine too"


def test_a_weight_is_written_to_the_file_itself_and_nowhere_else(
    tmp_path: Path, served: Callable[..., Running]
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("mine")
    (tmp_path / ".headway.toml.new").symlink_to(elsewhere)
    server = served(SETTINGS)
    file = tmp_path / "headway.toml"
    file.chmod(0o600)
    before = file.read_text()
    for signal in ("solved = 9 }\n[server]\nhost = '0.0.0.0'", "a.b", "solved }", "", "\\u007d"):
        body = {"signal": signal, "weight": 2.0}
        assert server.client.post("/v1/tasks/route/weight", json=body, headers=server.token).status_code == 422
        assert file.read_text() == before
    body = {"signal": "solved", "weight": 2.0}
    assert server.client.post("/v1/tasks/route/weight", json=body).status_code == 401
    assert server.client.post("/v1/tasks/route/weight", json=body, headers=server.token).status_code == 200
    assert file.read_text() == before.replace("solved = 1.0", "solved = 2.0")
    assert file.stat().st_mode & 0o777 == 0o600
    assert elsewhere.read_text() == "mine"
