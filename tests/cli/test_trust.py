"""`--trust-key`: which keys may decide a verdict, from the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

import headway as library
from tests.cli.terminal import headway
from tests.project.test_trusted_keys import STORE, TOML, tampered


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("trust")
    (made / "headway.toml").write_text(TOML + STORE)
    with library.open(made, environ={}, seed=3) as project:
        tampered(project)
    return made


def test_a_verdict_that_one_key_decides_names_the_key_and_the_option(folder: Path) -> None:
    checked = headway("-C", folder, "prove", "route", "--check")
    assert checked.code == 3
    assert "CANNOT TELL" in checked.out
    assert "the key 'agent' rated" in checked.out
    assert "--trust-key agent" in checked.out
    assert "uplift lost without it" in checked.out
    evidence = headway("-C", folder, "prove", "route", "--json").json["evidence"]
    assert {rater["name"]: rater["own"] for rater in evidence["raters"]} == {"": True, "agent": False}
    refused = headway("-C", folder, "promote", "route", "--json")
    assert (refused.code != 0, refused.json["error"]["code"]) == (True, "gate_refused")
    unknown = headway("-C", folder, "promote", "route", "--trust-key", "agnet", "--json")
    assert unknown.json["error"]["code"] == "unknown_rater"
    assert "agent" in unknown.json["error"]["hint"]


def test_a_trusted_key_may_decide_and_the_ledger_names_it(folder: Path) -> None:
    proven = headway("-C", folder, "prove", "route", "--trust-key", "agent", "--check")
    assert proven.code == 0
    assert "It depends on the key 'agent', which you trust." in proven.out
    done = headway("-C", folder, "promote", "route", "--trust-key", "agent", "--at-once", "--json")
    assert (done.code, done.json["trusted_keys"]) == (0, ["agent"])
    assert "BETTER (trusting agent)" in done.json["why"]


def test_trust_key_needs_a_proof_of_this_project(folder: Path) -> None:
    assert headway("-C", folder, "prove", "--log", "x.csv", "--trust-key", "agent").code == 2
    assert headway("-C", folder, "promote", "route", "--canary", "0.1", "--trust-key", "agent").code == 2
