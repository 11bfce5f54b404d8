"""`headway doctor` names what keeps the proxy from calling an upstream."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.kits.proxy.attempts import counts
from headway.kits.proxy.wire import TokenUsage
from headway.settings import load
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


@pytest.mark.parametrize(
    ("host", "price", "cost"),
    [
        ("models.example.com", "", None),
        ("models.example.com", "price_in = 0\n", 0.0),
        ("models.example.com", "price_out = 2\n", 20e-6),
        ("localhost:8000", "", 0.0),
        ("10.0.0.7", "", 0.0),
        ("gpu-box", "", 0.0),
    ],
)
def test_a_call_elsewhere_without_a_price_costs_an_unknown_amount(
    tmp_path: Path, host: str, price: str, cost: float | None
) -> None:
    text = f'[upstreams.large]\nurl = "https://{host}/v1"\nmodel = "huge"\n{price}'
    (tmp_path / "headway.toml").write_text(text)
    measured = counts(TokenUsage(prompt=5, completion=10), load(tmp_path).upstreams["large"])
    assert measured.get("cost_usd") == cost
    assert ("cost_unknown" in measured) == (cost is None)
    shown = next(check["found"] for check in headway("-C", tmp_path, "doctor", "--json").json["checks"]
                 if check["name"] == "upstream large")  # fmt: skip
    assert ("price unknown" in shown) == (cost is None)
