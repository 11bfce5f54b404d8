"""Rankers through the terminal, over HTTP, by the Python client, and in the loop."""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import headway
from headway.client import AsyncClient, Client
from headway.kits.demo.synth import synthesise
from headway.kits.next_action import KIT
from headway.nouns.errors import HeadwayError
from headway.nouns.records import OWNER, Reader
from tests.cli.terminal import headway as terminal, ran
from tests.kits.next_action.test_ranker import ACTIONS, MEANING, TOML
from tests.serve.conftest import Running


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A project with a learned ranker, and its reference."""
    folder = tmp_path_factory.mktemp("doors")
    (folder / "headway.toml").write_text(TOML, "utf-8")
    with headway.open(folder) as project:
        synthesise(project, "next-action", rows=600, seed=42, world="projects")
        ref = project.learn("next-action", architecture="linear")
    (folder / "actions.json").write_text(json.dumps(ACTIONS), "utf-8")
    return folder, ref


def test_init_declares_a_ranking_task(tmp_path: Path) -> None:
    done = terminal("-C", tmp_path, "init", "--kind", "ranking", "--json")
    assert done.json["tasks"] == ["next-action"]
    with headway.open(tmp_path) as project:
        settings = project.settings.task("next-action")
        assert (settings.kind, settings.family, settings.retrain_after) == ("ranking", "ranker", 50)
    steps = [
        terminal("-C", tmp_path, *words, "--json").json["next"]
        for words in (("status",), ("data", "log", "next-action"))
    ]
    assert all(step.endswith("data import BUFFER --task next-action") for step in (done.json["next"], *steps)), steps


def test_rank_prints_intervals_and_names_the_assumed_state(learned: tuple[Path, str]) -> None:
    folder, ref = learned
    done = terminal("-C", folder, "rank", "next-action", folder / "actions.json", "--policy", ref)
    assert "Ranked actions (predicted reward, 80% interval)" in done.out
    assert done.out.count("±") == 3
    assert "test: Add tests for config loader (small)" in done.out
    assert "that of the latest decision, dec_" in done.out + done.err
    (folder / "state.json").write_text('{"composite_score": 0.5, "dimension_scores": {"speed": 0.1}}', "utf-8")
    given = terminal(
        "-C", folder, "rank", "next-action", folder / "actions.json", "--policy", ref, "--state-file",
        folder / "state.json", "--json",
    ).json  # fmt: skip
    assert "state_of" not in given
    assert given["ranking"][0]["predicted"] >= given["ranking"][-1]["predicted"]
    assert {"low", "high", "advice", "type", "scope"} <= given["ranking"][0].keys()


def rank_without_torch(folder: Path, ref: str) -> None:
    """`headway rank` in a new process that cannot import torch."""
    code = "import sys; sys.modules['torch'] = None; from headway.cli.main import run; sys.exit(run(sys.argv[1:]))"
    words = ["-C", folder, "rank", "next-action", folder / "actions.json", "--policy", ref, "--json"]
    done = ran([sys.executable, "-c", code, *words], cwd=folder)
    assert done.code == 0, done.err
    assert len(done.json["ranking"]) == 3


def test_rank_needs_no_torch(learned: tuple[Path, str]) -> None:
    rank_without_torch(*learned)


@pytest.mark.slow
def test_rank_by_a_transformer_needs_no_torch(learned: tuple[Path, str]) -> None:
    pytest.importorskip("torch")
    folder, _ = learned
    with headway.open(folder) as project:
        ref = project.learn("next-action", architecture="small", epochs=1, device="cpu")
    rank_without_torch(folder, ref)


def test_score_says_proceed_neutral_or_skip(learned: tuple[Path, str]) -> None:
    folder, ref = learned
    action = ["--type", "fix", "--description", "Fix flaky retry logic", "--scope", "small", "--files", "2"]
    done = terminal("-C", folder, "score", "next-action", *action, "--policy", ref)
    assert any(word in done.out for word in ("PROCEED", "NEUTRAL", "SKIP"))
    body = terminal("-C", folder, "score", "next-action", *action, "--policy", ref, "--json").json
    assert body["files_affected"] == 2
    assert body["state_of"].startswith("dec_")
    assert body["low"] < body["predicted"] < body["high"]


def test_check_gives_its_reasons(learned: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = learned
    done = terminal("-C", folder, "learn", "next-action", "--check", "--json")
    body = done.json
    assert done.code == 3
    assert not body["due"]
    assert any("more settled decisions" in reason for reason in body["reasons"])
    assert any("last_delta" in reason for reason in body["reasons"])
    (tmp_path / "headway.toml").write_text(TOML, "utf-8")
    with headway.open(tmp_path) as project:
        synthesise(project, "next-action", rows=80, seed=42, world="projects")
    few = terminal("-C", tmp_path, "learn", "next-action", "--check", "--json").json
    assert any("200 are needed" in reason for reason in few["reasons"])
    refused = terminal("-C", tmp_path, "learn", "next-action")
    assert "labelled rows can be read" in refused.err
    forced = terminal("-C", tmp_path, "learn", "next-action", "--force", "--set", "architecture=linear")
    assert "next to nothing" in forced.out + forced.err


def test_learn_options_become_knobs(learned: tuple[Path, str]) -> None:
    folder, _ = learned
    body = terminal(
        "-C", folder, "learn", "next-action", "--role", "ada", "--force", "--device", "cpu", "--set",
        "architecture=linear", "--json",
    ).json  # fmt: skip
    with headway.open(folder) as project:
        knobs = project.registry.header(project.registry.find(body["policy"])).knobs
    assert (knobs["role"], knobs["force"], knobs["device"]) == ("ada", True, "cpu")
    other = terminal("-C", folder, "learn", "next-action", "--family", "bandit", "--resume")
    assert "saves nothing while it learns" in other.err


def test_http_and_the_client_give_the_same_ranking(learned: tuple[Path, str]) -> None:
    folder, ref = learned
    with headway.open(folder) as project:
        expected = {row.name: row.predicted for row in project.rank("next-action", ACTIONS, policy=ref, state={"x": 1})}
    running = Running(folder)
    try:
        body: dict[str, Any] = {
            "candidates": [{"name": a["description"], "features": a} for a in ACTIONS],
            "policy": ref,
            "state": {"x": 1},
        }
        answer = running.client.post("/v1/tasks/next-action/rank", json=body)
        assert answer.status_code == 200, answer.text
        assert {row["name"]: row["predicted"] for row in answer.json()["ranking"]} == expected
        assert answer.json()["state_of"] is None
        with Client(running.url) as client:
            ranked = client.rank("next-action", ACTIONS, policy=ref)
        assert ranked["state_of"].startswith("dec_")
        assert len(ranked["ranking"]) == 3
        for change in ({"candidates": []}, {"candidates": ["a", "a"]}, {"colour": "red"}, {"state": {"x": [None]}}):
            assert 400 <= running.client.post("/v1/tasks/next-action/rank", json={**body, **change}).status_code < 500
        strange = {**body, "candidates": [{"name": "a", "features": {"scoop": "small"}}]}
        refused = running.client.post("/v1/tasks/next-action/rank", json=strange)
        assert refused.json()["error"]["code"] == "unknown_field"
    finally:
        running.stop()


@pytest.mark.slow
def test_the_loop_learns_proves_and_waits_and_the_fiftieth_tuple_retrains(tmp_path: Path) -> None:
    pytest.importorskip("wordllama")
    (tmp_path / "headway.toml").write_text(MEANING + 'promote = "ask"\n', "utf-8")
    with headway.open(tmp_path) as project:
        synthesise(project, "next-action", rows=2764, seed=42, world="projects")
    done = terminal("-C", tmp_path, "watch", "--once")
    assert "Learned ranker@" in done.out
    assert "headway promote" in done.out
    with headway.open(tmp_path) as project:
        first = project.standing("next-action").candidate
        assert first is not None
        synthesise(project, "next-action", rows=49, seed=7, world="projects")
        assert project.due("next-action") > 0
        synthesise(project, "next-action", rows=60, seed=7, world="projects")
        assert project.due("next-action") == 0


def test_a_state_of_another_key_is_not_assumed(tmp_path: Path) -> None:
    (tmp_path / "headway.toml").write_text('[tasks.order]\nkind = "ranking"\nactions = ["first", "second"]\n')
    with headway.open(tmp_path) as project:
        for key in ("ann", "bob", "bob"):
            project.submit([project.consider("order", key, None, state={"size": 1.0}, key=key)]).result()
        found = {name: project.latest_situation("order", Reader(name)) for name in ("ann", "bob", "eve", "")}
        assert {name: one and one.situation.text for name, one in found.items()} == {
            "ann": "ann", "bob": "bob", "eve": None, "": None,
        }  # fmt: skip
        latest = project.latest_situation("order", OWNER)
        assert latest is not None
        assert latest.situation.text == "bob"


def test_rules_have_no_prediction_to_rank_by(tmp_path: Path) -> None:
    with headway.open(tmp_path) as project:
        project.decide("route", "x", ["small", "large"])
        before = project.query.counts("route")
        with pytest.raises(HeadwayError) as error:
            project.rank("route", ["small", "large"], "x")
        assert error.value.code == "no_prediction"
        assert project.query.counts("route") == before


def test_both_clients_have_the_calls_of_the_kit() -> None:
    client, later = Client("http://127.0.0.1:1"), AsyncClient("http://127.0.0.1:1")
    assert set(KIT.calls) == {"rank", "predictions", "improvers", "rounds"}
    for name in KIT.calls:
        assert not inspect.iscoroutinefunction(getattr(client, name))
        assert inspect.iscoroutinefunction(getattr(later, name))
        assert getattr(client, name).__doc__
    with pytest.raises(AttributeError, match="'Client' object has no attribute 'rnak'"):
        client.rnak("route")
    client.close()
