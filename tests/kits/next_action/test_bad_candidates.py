"""Candidates that cannot be ranked are refused with the place named, at every door, and nothing is stored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client as McpClient

import headway
from headway.kits.demo.synth import synthesise
from tests.cli.terminal import contents, headway as terminal
from tests.kits.agents.test_mcp import refused, talk
from tests.kits.next_action.test_ranker import ACTIONS, TOML
from tests.serve.conftest import Running

KNOWN = {"composite_score": 0.5}
NAN = {"composite_score": float("nan")}
# name: candidates, state, code, what the message names
CASES: dict[str, tuple[list[Any], dict[str, float], str, str]] = {
    "empty": ([], KNOWN, "no_candidates", "next-action"),
    "many": ([f"a{n}" for n in range(10_001)], KNOWN, "too_many_candidates", "10,001"),
    "twice": ([ACTIONS[0], {**ACTIONS[0], "scope": "large"}], KNOWN, "duplicate_candidate", "Add tests for config"),
    "unknown": ([ACTIONS[0], {**ACTIONS[1], "colour": "red"}], KNOWN, "unknown_field", "'colour'"),
    "nan": (ACTIONS, NAN, "not_finite", "composite_score"),
}
# What the server says instead: JSON has no NaN, and the length of a list is checked while it is read.
WIRE = {"empty": ("bad_body", "$.candidates"), "many": ("bad_body", "$.candidates"), "nan": ("bad_json", "byte")}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A project with a learned ranker, and its reference."""
    folder = tmp_path_factory.mktemp("bad_candidates")
    (folder / "headway.toml").write_text(TOML, "utf-8")
    with headway.open(folder) as opened:
        synthesise(opened, "next-action", rows=100, seed=42, world="projects")
        ref = opened.learn("next-action", architecture="linear", force=True)
        opened.rollback("next-action", to=ref, why="the test's choice")
    return folder, ref


@pytest.fixture(scope="module")
def running(project: tuple[Path, str]) -> Iterator[Running]:
    server = Running(project[0])
    yield server
    server.stop()


@pytest.mark.parametrize("case", CASES)
def test_the_terminal_refuses_with_exit_status_one(project: tuple[Path, str], tmp_path: Path, case: str) -> None:
    folder, ref = project
    offers, state, code, named = CASES[case]
    (tmp_path / "actions.json").write_text(json.dumps(offers), "utf-8")
    (tmp_path / "state.json").write_text(json.dumps(state), "utf-8")
    before = contents(folder)
    words = ["rank", "next-action", tmp_path / "actions.json", "--state-file", tmp_path / "state.json"]
    done = terminal("-C", folder, *words, "--policy", ref, "--json")
    assert done.code == 1
    assert done.json["error"]["code"] == code
    assert named in done.json["error"]["message"]
    assert contents(folder) == before


@pytest.mark.parametrize("case", CASES)
def test_the_server_refuses_with_a_status_of_four_hundred(
    project: tuple[Path, str], running: Running, case: str
) -> None:
    folder, ref = project
    offers, state, code, named = CASES[case]
    named_offers = [{"name": o["description"], "features": o} if isinstance(o, dict) else o for o in offers]
    body = json.dumps({"candidates": named_offers, "state": state, "policy": ref})
    before = contents(folder)
    answer = running.client.post(
        "/v1/tasks/next-action/rank", content=body, headers={"content-type": "application/json"}
    )
    assert 400 <= answer.status_code < 500, answer.text
    error = answer.json()["error"]
    code, named = WIRE.get(case, (code, named))
    assert error["code"] == code, error
    assert named in error["message"] + error["hint"], error
    assert contents(folder) == before


def test_an_agent_is_told_the_same(project: tuple[Path, str]) -> None:
    folder, _ = project
    before = contents(folder)

    async def work(client: McpClient) -> None:
        for case, (offers, state, code, named) in CASES.items():
            said = await refused(client, "rank", task="next-action", candidates=offers, state=state)
            assert case == "nan" or code in said, (case, said)  # arguments with NaN do not reach the tool
            assert named in said, (case, said)

    talk(folder, work)
    assert contents(folder) == before
